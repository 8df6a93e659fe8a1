"""Text about bytes, names and faults: the hex view, quoted names, paths and JSON."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_reference.rules.faults import Fault, JsonPath, render_path
from safetensors_reference.text import hexview, quote, shorten

from .strategies import FEWER


def parse(view: str) -> tuple[dict[int, int], set[int]]:
    """Read a view back: file position -> byte shown, and the positions marked."""
    shown: dict[int, int] = {}
    marks: set[int] = set()
    row = 0
    for line in view.splitlines():
        match = re.match(r"([0-9a-f]{8,})  (.{47})  (.*)$", line)
        if match:
            row = int(match[1], 16)
            values = [int(pair, 16) for pair in match[2].split()]
            assert [chr(v) if 0x20 <= v < 0x7F else "." for v in values] == list(match[3])
            shown |= {row + i: v for i, v in enumerate(values)}
        elif "^" in line:
            marks |= {row + (found.start() - 10) // 3 for found in re.finditer(r"\^\^", line)}
    return shown, marks


def test_a_whole_view() -> None:
    data = bytes(range(0x61, 0x61 + 20))
    assert hexview(data, 14, 17).splitlines() == [
        "00000000  61 62 63 64 65 66 67 68 69 6a 6b 6c 6d 6e 6f 70  abcdefghijklmnop",
        "                                                    ^^ ^^",
        "00000010  71 72 73 74                                      qrst",
        "          ^^",
    ]


@FEWER
@given(st.binary(min_size=1, max_size=200), st.integers(0, 4), st.data())
def test_positions_bytes_and_marks_are_true(data: bytes, rows: int, draw: st.DataObject) -> None:
    base = rows * 16
    start = draw.draw(st.integers(base, base + len(data) - 1))
    end = draw.draw(st.integers(start, base + len(data)))
    shown, marks = parse(hexview(data, start, end, base=base))
    assert all(data[place - base] == value for place, value in shown.items())
    assert sorted(shown) == list(range(min(shown), max(shown) + 1))
    assert len(shown) <= 96
    assert marks == set(range(start, end)) & set(shown)
    if (start, end) != (base, base):
        assert start in shown
        assert end - 1 in shown or end - start > 48 or end == start
    if base < start < end <= start + 32:  # a short range is shown whole, with context
        assert marks == set(range(start, end))
        around = range(max(start - 16, base), min(end + 16, base + len(data)))
        assert set(around) <= set(shown)


def test_a_view_without_a_range_or_without_data() -> None:
    shown, marks = parse(hexview(bytes(range(250)) * 4, 0, 0, limit=512))
    assert (sorted(shown), marks) == (list(range(512)), set())
    for start, end in ((0, 0), (0, 8), (5, 5), (100, 200)):
        assert hexview(b"", start, end) == ""
    view = hexview(bytes(32), 0x123456789C, 0x123456789D, base=0x1234567890)
    assert view.splitlines()[0].startswith("1234567890  00")
    assert parse(view)[1] == {0x123456789C}


def test_a_range_that_is_cut_says_where_it_ends() -> None:
    view = hexview(bytes(1000), 100, 900, limit=64)
    shown, _ = parse(view)
    assert len(shown) == 64
    assert view.splitlines()[-1].strip() == "… up to byte 0x383"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "$"),
        (("w",), "$['w']"),
        (("w", "shape", 0), "$['w']['shape'][0]"),
        (("it's",), r"$['it\'s']"),
        (('say "hi"',), """$['say "hi"']"""),
        (("back\\slash",), r"$['back\\slash']"),
        (('\\"',), "$['\\\\\"']"),
        (("a\nb\0\x1b",), r"$['a\nb\u0000\u001b']"),
        (("\u202e",), r"$['\u202e']"),
        (("",), "$['']"),
    ],
)
def test_paths_are_json_paths_of_rfc_9535(path: JsonPath, text: str) -> None:
    assert render_path(path) == text


def test_long_keys_of_a_path_are_cut() -> None:
    text = render_path(("n" * 1_000_000, "shape"))
    assert len(text) < 150
    assert "1,000,000 characters" in text
    assert text.endswith("['shape']")


@FEWER
@given(st.text(max_size=200), st.integers(1, 100))
def test_shortening_keeps_the_beginning_and_says_the_length(text: str, limit: int) -> None:
    short = shorten(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert short.startswith(text[:limit] + "…")
        assert f"({len(text):,} characters)" in short


@FEWER
@given(st.text(max_size=60))
@example("\x1b[31m\n\u202egnp.exe\x7f\x9b1m\u200b\ud800")
def test_quoted_names_are_json_strings_of_one_readable_line(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert quoted.isascii() or text.isprintable()
    assert json.loads(quoted) == text


def test_quoting_keeps_readable_text_readable() -> None:
    assert quote("größe") == '"größe"'
    assert quote("a" * 100, 10) == '"aaaaaaaaaa… (100 characters)"'


def test_a_fault_becomes_json() -> None:
    fault = Fault("OFF_HOLE", "OFF-07", "text", 8, 12, ("w", "data_offsets"), "some-choice")
    assert json.loads(json.dumps(fault.to_dict())) == {
        "code": "OFF_HOLE",
        "rule": "OFF-07",
        "message": "text",
        "start": 8,
        "end": 12,
        "path": "$['w']['data_offsets']",
        "choice": "some-choice",
    }
    assert Fault("FRM_TOO_SHORT", "FRM-03", "text", 0, 0).to_dict()["path"] is None
