"""Whatever texts a row holds, it is one line of JSON in UTF-8, and no other address has its name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_reference.audit.row import Row, Tally, Writer, encode_row, row_address

from .support import read_row

TEXT = st.text(st.characters(codec=None) | st.sampled_from("\\\\u\udcff\ud800"), max_size=8)
NUMBER = st.integers(0, 9)


def row_of(texts: dict[str, Any]) -> Row:
    return Row(time=datetime(2026, 1, 1, tzinfo=UTC), **texts)


ROWS = st.fixed_dictionaries(
    {
        "address": TEXT,
        "verdict": TEXT,
        "tag": TEXT,
        "note": TEXT,
        "header_sha256": TEXT | st.none(),
        "data_sha256": TEXT | st.none(),
        "codes": st.lists(TEXT, max_size=2).map(tuple),
        "rules": st.lists(TEXT, max_size=2).map(tuple),
        "metadata_keys": st.lists(TEXT, max_size=2).map(tuple),
        "dtypes": st.lists(st.builds(Tally, TEXT, NUMBER, NUMBER), max_size=2).map(tuple),
        "writer": st.none()
        | st.builds(Writer, TEXT, NUMBER, NUMBER, st.booleans(), st.booleans(), TEXT | st.none()),
    }
).map(row_of)


@given(ROWS)
def test_a_row_is_one_line_whatever_its_texts_are(row: Row) -> None:
    line = encode_row(row)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    found = json.loads(line.decode("utf-8"))
    assert found["address"] == row_address(row.address)
    for name in ("tag", "note"):
        assert found.get(name, "") == getattr(row, name).encode("utf-8", "backslashreplace").decode()


@given(TEXT, TEXT)
@example("bad\udcff", "bad\\udcff")
@example("bad\\\\udcff", "bad\\udcff")
def test_different_names_have_different_addresses(one: str, other: str) -> None:
    assert (row_address(one) == row_address(other)) == (one == other)


def test_a_row_that_cannot_be_written_costs_its_own_answer_alone() -> None:
    odd = msgspec.structs.replace(row_of({"address": "a\udcff", "verdict": "valid"}), size=object())
    found = read_row(encode_row(odd))
    assert (found.address, found.verdict) == ("a\\udcff", "unreadable")
    assert found.note.startswith("this program failed: ")
