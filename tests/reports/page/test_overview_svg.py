"""The picture that compares implementations: valid, worded, harmless and within its frame."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from safetensors_reports.audit.report import LETTERS, Report
from safetensors_reports.drawing.canvas import CHAR, columns
from safetensors_reports.page.coverage import standing
from safetensors_reports.page.publish import MAX_LABEL, comparison_svg

from .samples import ALL, HOSTILE, hostile, many

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=list(ALL))
def sample(request: pytest.FixtureRequest) -> tuple[Report, ET.Element]:
    document = ALL[request.param]()
    return document, ET.fromstring(comparison_svg(document))


def test_every_cell_has_a_letter_or_a_word(sample: tuple[Report, ET.Element]) -> None:
    document, svg = sample
    cells = [g for g in svg.iter(f"{SVG}g") if re.fullmatch(r"v-\w", g.get("class", ""))]
    areas, whos = len(document.matrix), len(document.implementations)
    legend = len(cells) - whos * (areas + 1)
    assert legend >= 10
    texts = ["".join(t.text or "" for t in g.iter(f"{SVG}text")) for g in cells]
    assert all(texts)
    words = {who.word for who in document.implementations}
    assert set(texts) - words <= set(LETTERS.values()) | {"·"}
    assert [g for g in cells[: whos * (areas + 1)] if not g.findall(f"{SVG}title")
        and "".join(t.text or "" for t in g.iter(f"{SVG}text")) not in words] == []  # fmt: skip


def test_letters_are_those_of_the_report_in_the_order_of_standing() -> None:
    svg = comparison_svg(many())
    rows = [line for line in svg.splitlines() if line.startswith("<g")]
    place = 0
    for who, cells in standing(many()):
        assert f">{who.word}</text>" in rows[place]
        for (kind, known, cases), row in zip(cells, rows[place + 1 :], strict=False):
            assert f">{LETTERS[kind]}</text>" in row
            assert f"{known:,} of {cases:,} cases</title>" in row
        place += 1 + len(cells)


def test_nothing_leaves_the_frame(sample: tuple[Report, ET.Element]) -> None:
    _, svg = sample
    left, top, wide, high = map(float, (svg.get("viewBox") or "").split())
    assert (svg.get("width"), svg.get("height")) == (f"{wide:g}", f"{high:g}")
    for box in svg.iter(f"{SVG}rect"):
        x, y = float(box.get("x", "0")), float(box.get("y", "0"))
        assert left <= x <= x + float(box.get("width", "-1")) <= wide
        assert top <= y <= y + float(box.get("height", "-1")) <= high
    for text in svg.iter(f"{SVG}text"):
        assert left <= float(text.get("x", "-1")) <= wide
        assert top < float(text.get("y", "-1")) <= high
        # The browser measures real letters in test_safe; here at the width of drawings.
        middle = text.get("text-anchor") == "middle"
        room = columns(text.text or "") * CHAR / (2 if middle else 1)
        assert float(text.get("x", "-1")) + room <= wide
        assert columns(text.text or "") <= MAX_LABEL


def test_names_that_mean_harm_are_text() -> None:
    text = comparison_svg(hostile())
    assert "<script" not in text
    assert "onload=" not in re.sub(r">[^<]*<", "><", text)
    assert not any(bad in text for bad in "\u202e\u2066\u200f\x00\x1b\u2028\ud800")
    names = [t.text or "" for t in ET.fromstring(text).iter(f"{SVG}text")]
    assert any(name.startswith(HOSTILE[0][:20]) for name in names)
    assert any("\\u202egpj.exe" in name for name in names)


def test_a_picture_asks_for_nothing_and_tells_itself(sample: tuple[Report, ET.Element]) -> None:
    document, svg = sample
    assert svg.get("role") == "img"
    assert f"{len(document.implementations)} readers" in (svg.get("aria-label") or "")
    for element in svg.iter():
        assert element.tag.removeprefix(SVG) in ("svg", "style", "rect", "g", "text", "title")
        assert not any(name.endswith("href") or name.startswith("on") for name in element.attrib)
    style = svg.find(f"{SVG}style")
    assert style is not None
    assert "prefers-color-scheme:dark" in (style.text or "")
    assert "url(" not in (style.text or "")
    assert comparison_svg(document) == comparison_svg(document)
