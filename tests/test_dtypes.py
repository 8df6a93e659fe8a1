"""Every copy of the dtype table lists the same codes, and the page that lists the copies is complete."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from proof.broken.correct.reader import WIDTHS
from proof.broken.readers.dtypes import TAKEN_FOR
from proof.readers import planted
from safetensors_conformance.implementations.support import given, lacking
from safetensors_fuzz.plans.write import SPECIAL
from safetensors_reference import rule_book
from safetensors_reference.rules.dtypes import ARRAY_TYPES, DTYPE_BITS

from .reference.writing.samples import NUMPY_TYPES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "add-a-rule.md"
FOLDERS = [
    "reference",
    "reports/safetensors_reports",
    "corpus/safetensors_corpus",
    "corpus/safetensors_cases",
]
FOLDERS += ["conformance", "fuzz", "benchmarks", "proof", "tools", "tests", "docs"]
SUFFIXES = {".py", ".c", ".cpp", ".go", ".java", ".js", ".mjs", ".rs"}
RARE = "F8_E5M2FNUZ"
"""A dtype that hardly any file mentions unless it lists all dtypes."""
WHOLE = {code for code, bits in DTYPE_BITS.items() if bits % 8 == 0}


def test_copies_list_the_same_widths_and_codes() -> None:
    for copy in (WIDTHS, planted.BITS, given.BITS):
        assert copy == DTYPE_BITS
    assert set(lacking.CODES) == set(TAKEN_FOR) == set(DTYPE_BITS)
    assert set(NUMPY_TYPES) == set(given.CODES.values()) == WHOLE
    assert {ARRAY_TYPES[code]: code for code in WHOLE} == given.CODES


def test_copies_for_torch_list_the_same_types() -> None:
    pytest.importorskip("torch")
    from safetensors_conformance.implementations.support import torch_rows
    from safetensors_reference.arrays.torch import CODES

    from .reference.writing.test_torch import torch_type

    assert torch_rows.CODES == CODES == {torch_type(code): code for code in (*NUMPY_TYPES, "F4")}


def test_every_dtype_is_in_the_rules() -> None:
    rules = rule_book().rules
    assert f"{len(DTYPE_BITS)} codes" in rules["DTY-01"].title
    assert [c for c in DTYPE_BITS if c.removeprefix("F8_") not in rules["DTY-05"].statement] == []


def test_every_dtype_has_special_values() -> None:
    """Small integers and packed elements have no values that a conversion would change."""
    integers = {code for code in WHOLE if code[0] in "UI"} - {"U64", "I64"}
    assert set(SPECIAL) == WHOLE - integers


def test_the_page_lists_every_place_that_has_a_dtype() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Add a dtype")[2]
    listed = {
        path
        for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for path in re.findall("`(.*?)`", cell)
    }
    places = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        # What held-out readers know must not be listed.
        if path.suffix in SUFFIXES and "held_out" not in path.parts and RARE in path.read_text("utf-8")
    } - {str(Path(__file__).relative_to(ROOT))}
    assert {place for place in places if not any(fnmatch.fnmatch(place, path) for path in listed)} == set()
    assert {path for path in listed if not fnmatch.filter(places, path)} == set()
