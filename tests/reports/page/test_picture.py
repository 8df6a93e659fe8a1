"""The picture of the README: valid, harmless, within its frame, and true to the shares that it draws."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from safetensors_conformance.implementations.descriptor import described
from safetensors_reports.page.publish import MOST, comparison_svg, well_known

from .samples import ALL

SVG = "{http://www.w3.org/2000/svg}"


def test_the_programs_are_fifteen_at_most_and_known_to_the_harness() -> None:
    assert len(well_known()) <= MOST
    assert all(described(selector) is not None for selector in well_known())


@pytest.mark.parametrize("name", ALL)
def test_a_picture_stays_in_its_frame_asks_for_nothing_and_tells_itself(name: str) -> None:
    text = comparison_svg(ALL[name]())
    svg = ET.fromstring(text)
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
    assert not any(bad in text for bad in "\u202e\u2066\u200f\x00\x1b\u2028\ud800")
