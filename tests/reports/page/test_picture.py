"""The picture of the README: valid, harmless, within its frame, and true to the shares that it draws."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from safetensors_conformance.implementations.descriptor import described
from safetensors_reports.audit.report import Report
from safetensors_reports.page.publish import MAX_LABEL, MOST, TRACK, comparison_svg, well_known

from ..samples import HOLE, TWICE, corpus, failing, report, run
from .samples import ALL, HOSTILE, hostile

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=list(ALL))
def sample(request: pytest.FixtureRequest) -> tuple[Report, ET.Element]:
    document = ALL[request.param]()
    return document, ET.fromstring(comparison_svg(document))


def test_the_programs_are_fifteen_at_most_known_to_the_harness_and_there_for_a_reason() -> None:
    assert len(well_known()) <= MOST
    for selector, known in well_known().items():
        assert described(selector) is not None, selector
        assert len(known.name) <= MAX_LABEL
        assert len(known.reason.split()) >= 3


def test_well_known_programs_are_shown_alone_by_kind() -> None:
    mlx = run(failing(HOLE), failing(TWICE, "pass", outcome="reject"), name="mlx", version="1")
    # As published runs are asked for.
    mlx.header["implementation"] |= {"kind": "reader", "selector": "mlx==1"}
    unheard = run(failing(HOLE), name="unheard-of", version="1")
    lister = run(failing(TWICE), name="huggingface-hub", version="1")
    lister.header["implementation"] |= {"kind": "header", "steps": ["open"]}
    lister.results[0]["step"] = "open"
    texts = [t.text for t in ET.fromstring(comparison_svg(report(unheard, lister, mlx))).iter(f"{SVG}text")]
    shown = ["Readers", "MLX", "Header listers", "huggingface_hub"]
    assert [t for t in texts if t in shown] == shown
    assert not any("unheard" in (text or "") for text in texts)


def test_one_of_many_looks_other_than_most() -> None:
    cases = [c.id for c in corpus().reading if c.rules[0] == "OFF-07" and c.expect and not c.choice][:100]

    def wide(number: int) -> float:
        rows = [failing(case, "wrong-accept" if i < number else "pass") for i, case in enumerate(cases)]
        svg = ET.fromstring(comparison_svg(report(run(*rows, name="mlx", version="1"))))
        (pill,) = [
            g for g in svg.iter(f"{SVG}g") if "Offsets and layout" in (g.findtext(f"{SVG}title") or "")
        ]
        return float(pill.findall(f"{SVG}rect")[-1].get("width", "0"))

    few, most = wide(1), wide(len(cases) - 1)
    assert 0 < few < TRACK / 10 < 9 * TRACK / 10 < most < TRACK
    assert wide(0) == TRACK  # all clear has another colour


def test_names_that_mean_harm_are_text() -> None:
    text = comparison_svg(hostile())
    assert "<script" not in text
    assert "onload=" not in re.sub(r">[^<]*<", "><", text)
    assert not any(bad in text for bad in "\u202e\u2066\u200f\x00\x1b\u2028\ud800")
    names = [t.text or "" for t in ET.fromstring(text).iter(f"{SVG}text")]
    assert any(name.startswith(HOSTILE[0][:20]) for name in names)
    assert any("\\u202egpj.exe" in name for name in names)


def test_a_picture_stays_in_its_frame_asks_for_nothing_and_tells_itself(
    sample: tuple[Report, ET.Element],
) -> None:
    document, svg = sample
    left, top, wide, high = map(float, (svg.get("viewBox") or "").split())
    assert (svg.get("width"), svg.get("height"), wide) == (f"{wide:g}", f"{high:g}", 800)
    for box in svg.iter(f"{SVG}rect"):
        x, y = float(box.get("x", "0")), float(box.get("y", "0"))
        assert left <= x <= x + float(box.get("width", "-1")) <= wide
        assert top <= y <= y + float(box.get("height", "-1")) <= high
    assert svg.get("role") == "img"
    assert "share of cases that violate the written format" in (svg.get("aria-label") or "")
    for element in svg.iter():
        assert element.tag.removeprefix(SVG) in ("svg", "style", "rect", "path", "g", "text", "title")
        assert not any(name.endswith("href") or name.startswith("on") for name in element.attrib)
    style = svg.findtext(f"{SVG}style") or ""
    assert "prefers-color-scheme:dark" in style
    assert "url(" not in style
    assert comparison_svg(document) == comparison_svg(document)
