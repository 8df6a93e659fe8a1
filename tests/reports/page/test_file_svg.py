"""Byte-layout drawings: what is wrong is there in words, nothing leaves the picture, nothing acts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_corpus.author.file import FileBuilder
from safetensors_reference import explain
from safetensors_reports.page.design import CHAR, WIDTH, columns, harmless_text, quoted_name, truncate
from safetensors_reports.page.file_svg import MAX_RANGES, layout_buffer, layout_svg

from ..samples import corpus

SVG = "{http://www.w3.org/2000/svg}"
FILES = ["layout/hole-between-two", "layout/overlap-first-two-4-bytes", "layout/end-far-2p64-less-1",
    "layout/trailing-32-kib", "layout/ranges-of-no-byte-and-of-one", "layout/many-names-for-one-range",
    "layout/many-names-with-empty-ranges", "layout/file-size-65536", "framing/no-bytes",
    "framing/short-file-4", "framing/cut-in-header", "framing/length-over-cap-2p40",
    "framing/length-zero-alone", "layout/offset-text-end-missing", "header/backslash-before-raw-line-feed",
    "layout/reversed-wraps-to-size-2p64-less-8-to-0"]  # fmt: skip


def words(svg: str) -> list[str]:
    """The texts of a drawing, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def inside(svg: str) -> bool:
    """True when every shape and text lies within the width of the drawing."""
    for x, wide in re.findall(r'<rect x="([-\d.]+)" y="[^"]*" width="([\d.]+)"', svg):
        if not (float(x) >= 0 and float(x) + float(wide) <= WIDTH):
            return False
    for x, anchor, text in re.findall(
        r'<text x="([-\d.]+)" y="[^"]*"(?: class="\w+")?( text-anchor="\w+")?[^>]*>([^<]*)<', svg
    ):
        wide = columns(unescape(text)) * CHAR
        left = float(x) - {"": 0.0, ' text-anchor="middle"': wide / 2, ' text-anchor="end"': wide}[anchor]
        if left < 0 or left + wide > WIDTH + 2:
            return False
    return True


def corpus_file(case_id: str) -> bytes:
    return corpus().by_id[case_id].read_input()


@pytest.mark.parametrize("case_id", FILES)
def test_drawings_of_corpus_files_are_sound(case_id: str) -> None:
    data = corpus_file(case_id)
    svg = layout_svg(data)
    root = ET.fromstring(svg)
    assert (root.get("role"), root.get("width")) == ("img", str(WIDTH))
    title, description = root[0], root[1]
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert f"{len(data):,} bytes" in (title.text or "")
    for fault in explain(data).faults[:4]:
        assert fault.code in (description.text or "")
        assert any(text.startswith(fault.code) for text in words(svg))
    assert inside(svg)
    assert layout_svg(data) == svg
    # Two drawings on one page share no id.
    ids, others = (set(re.findall(r' id="([^"]+)"', text)) for text in (svg, layout_svg(data + b" ")))
    assert ids
    assert not ids & others


def test_every_hatch_carries_words() -> None:
    for case_id, expected in (
        ("layout/hole-between-two", "hole 4 B"),
        ("layout/overlap-first-two-4-bytes", "2 overlap 4 B"),
        ("layout/trailing-32-kib", "trailing 32,768 B"),
        ("layout/end-past-file-first", "past end"),
        ("layout/offset-text-end-missing", "unclaimed 8 B"),
        ("layout/one-of-many-empty-ranges-inside", "9 empty"),
        ("layout/trailing-32-kib", "32,840 = end of file"),
        ("layout/trailing-32-kib", "data buffer: 32,776 bytes from file byte 64; the header declares 8"),
        ("framing/cut-in-header", "missing 22 B"),
        ("framing/short-file-4", "missing 4 B"),
    ):
        svg = layout_svg(corpus_file(case_id))
        assert any(text.startswith(expected) for text in words(svg)), (case_id, expected)


def test_hostile_names_are_escaped_and_cut() -> None:
    builder = FileBuilder()
    script = '</text><script>alert("1")</script>'
    for name in (script, "\x1b[2J\x00\n", "\u05d0\u05d1 \u202e", "e\u0301", "x" * 9000):
        builder.tensor(name, "U8", [1])
    svg = layout_svg(builder.render(), name='in"<&>\u202e.safetensors')
    assert "<script" not in svg
    assert inside(svg)
    for text in words(svg):
        assert text.isprintable()
        assert not {"\u202e", "\u05d0"} & set(text)
    assert any("\\u001b[2J\\u0000" in text for text in words(svg))


def test_many_ranges_become_runs_the_odd_ones_stay_and_holes_between_others_are_counted() -> None:
    odd, gaps = FileBuilder(), FileBuilder()
    for index in range(300):
        odd.gap(7 * (index == 150))
        odd.tensor(f"t{index}", "F32", [16])
    svg = layout_svg(odd.render())
    assert {"hole 7 B", '"t150"', "and 286 more"} <= set(words(svg))
    assert len(svg) < 40_000
    for index in range(60):
        gaps.tensor(f"t{index}", "U8", [100])
        gaps.gap(1)
    data = gaps.render()
    buffer = layout_buffer(explain(data), 60 * 101)
    assert [bar.label for bar in buffer.bars if not bar.number] == ["46 more, 45 gaps"]
    assert len(buffer.rows) == MAX_RANGES
    assert inside(layout_svg(data))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_can_be_drawn(data: bytes) -> None:
    assert inside(layout_svg(data))


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ends = st.integers(0, 60) | st.integers(0, 2**64)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(names, ends, ends), max_size=25), st.integers(0, 60))
def test_any_ranges_can_be_drawn(ranges: list[tuple[str, int, int]], size: int) -> None:
    builder = FileBuilder()
    for place, (name, begin, end) in enumerate(ranges):
        builder.tensor(f"{place}{name}", "U8", [1], b"", begin=begin, end=end)
    builder.gap(size)
    svg = layout_svg(builder.render())
    ET.fromstring(svg)
    assert inside(svg)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (harmless_text("plain"), "plain"),
        (harmless_text("a\nb"), "a\\u000ab"),
        (harmless_text("\u202e"), "\\u202e"),
        (harmless_text("\U000e0001"), "\\U000e0001"),
        (harmless_text("é漢"), "é漢"),
        (quoted_name('a"b\\'), '"a\\"b\\\\"'),
        (quoted_name("漢" * 30, 10), '"漢漢漢漢…"'),
        (truncate("abc", 3), "abc"),
        (truncate("abcd", 3), "ab…"),
    ],
)
def test_texts_are_made_harmless_quoted_and_cut_by_columns(shown: str, expected: str) -> None:
    assert shown == expected
