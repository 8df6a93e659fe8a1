"""The JSON Schema of the header: right in what it says, and shown to be silent on what it cannot say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from safetensors_corpus import load_manifest
from safetensors_reference import DTYPE_BITS, explain, rule_book
from safetensors_reference.rules.pages import header_schema

from ..strategies import mutants

SCHEMA = header_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
CASES = {case.id: case for case in load_manifest().reading}
SCHEMA_CODES = {
    "HDR_NOT_OBJECT",
    "ENT_NOT_OBJECT",
    "ENT_MISSING_FIELD",
    "ENT_UNKNOWN_FIELD",
    "ENT_BAD_INTEGER",
    "DTY_BAD_TYPE",
    "DTY_UNKNOWN",
    "SHP_BAD_TYPE",
    "OFF_BAD_PAIR",
    "MET_NOT_MAP",
    "MET_VALUE_NOT_STRING",
}
"""Fault codes that the schema detects. It rejects a parsed header if and only if the header has one of these
faults.

There are two exceptions. For ENT_BAD_INTEGER, the schema checks values but not their spelling (1.0 and -0 are
integers to a schema). Unlike a reader, the schema does not limit the nesting depth.
"""
NO_JSON = {"FRM_TOO_SHORT", "FRM_HEADER_EMPTY", "HDR_TOO_DEEP"}
"""Fault codes of files that hold no value for a schema, however forgiving the parser is."""


class Seen:
    """What a forgiving program makes of a header: a schema never sees the bytes, only a value like this.

    Bytes that are not UTF-8 are replaced, a byte-order mark, whitespace in front and anything behind the
    first value are ignored. ``hidden`` lists what the parser does not hand on: integers that are spelled as
    other numbers, and repeated keys.
    """

    def __init__(self, data: bytes) -> None:
        self.codes = {fault.code for fault in explain(data).faults}
        self.hidden: list[str] = []
        text = data[8 : 8 + int.from_bytes(data[:8], "little")].decode("utf-8", "replace")
        decoder = json.JSONDecoder(
            parse_constant=self._refuse,
            parse_int=self._number,
            parse_float=self._number,
            object_pairs_hook=self._object,
        )
        try:
            value = decoder.raw_decode(text.lstrip("\ufeff \t\r\n"))[0]
            self.taken: bool | None = VALIDATOR.is_valid(value)
        except (ValueError, RecursionError):
            self.taken = None

    def _refuse(self, word: str) -> None:
        raise ValueError(word)

    def _number(self, text: str) -> int | float:
        number, plain = float(text), re.fullmatch("-?[1-9][0-9]*|0", text)
        if number.is_integer() and not plain:
            self.hidden.append(text)
        # Python refuses to convert and to print longer numbers; here it only matters that they are huge.
        return int(text) if plain and len(text) < 100 else number

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.hidden += [key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number])]
        return dict(pairs)


def test_the_schema_is_a_schema_and_speaks_the_words_of_the_rule_book() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    definitions: Any = SCHEMA["$defs"]
    assert definitions["dtype"]["enum"] == list(DTYPE_BITS)
    assert rule_book().rules["OFF-01"].statement in definitions["data_offsets"]["description"]


def shows(code: str) -> list[str]:
    """A few cases of which the expectation has the code alone."""
    alone = [case.id for case in CASES.values() if case.expect is not None and case.expect.codes == (code,)]
    return alone[:: max(len(alone) // 5, 1)]


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.nightly)])
def test_schema_and_reader_agree_over_the_corpus(step: int) -> None:
    chosen = {*list(CASES)[::step], *(case for code in rule_book().codes for case in shows(code))}
    seen = {case_id: Seen(CASES[case_id].read_input()) for case_id in chosen}
    compared = {case_id: found for case_id, found in seen.items() if found.taken is not None}
    assert len(compared) > 500
    apart = {i: s for i, s in compared.items() if s.taken is bool(s.codes & SCHEMA_CODES)}
    assert [case_id for case_id, found in apart.items() if not found.hidden] == []
    assert len(apart) < 80
    # Each code of the schema is refused where it is alone, so that the refusal can have no other reason.
    # Every other code is accepted where it is alone.
    alone: dict[bool | None, set[str]] = {True: set(), False: set()}
    for found in compared.values():
        if len(found.codes) == 1 and (found.taken is False or "ENT_BAD_INTEGER" not in found.codes):
            alone[found.taken] |= found.codes
    families = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET")
    codes = {code for code in rule_book().codes if code.startswith(families)} - NO_JSON
    assert alone == {True: codes - SCHEMA_CODES, False: SCHEMA_CODES}


@given(mutants())
def test_schema_and_reader_agree_on_random_headers(data: bytes) -> None:
    seen = Seen(data)
    stopped = seen.codes & {"HDR_NOT_JSON", "HDR_NOT_UTF8", "HDR_TOO_DEEP"}
    framed = not any(code.startswith("FRM") for code in seen.codes)
    if seen.taken is not None and framed and not (seen.hidden or stopped):
        assert seen.taken is not bool(seen.codes & SCHEMA_CODES), seen.codes
