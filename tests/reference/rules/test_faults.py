"""Faults as values: paths, quoted names, JSON."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference.rules.faults import Fault, JsonPath, render_path
from safetensors_reference.text import quote, shorten

from ..strategies import FEWER


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


@FEWER
@given(st.lists(st.text(max_size=20) | st.integers(0, 99), max_size=4).map(tuple))
def test_a_rendered_path_reads_back(path: JsonPath) -> None:
    text = render_path(path)
    assert text.startswith("$")
    assert text.isascii()
    assert text.isprintable()
    parts: list[str | int] = []
    for name, index in re.findall(r"\['((?:[^'\\]|\\.)*)'\]|\[(\d+)\]", text):
        if index:
            parts.append(int(index))
        else:
            parts.append(
                json.loads('"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', name.replace("\\'", "'")) + '"')
            )
    assert tuple(parts) == path


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
def test_quoted_names_are_json_strings_of_one_readable_line(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert json.loads(quoted) == text


@pytest.mark.parametrize("text", ["\x1b[31m", "a\nb", "\u202egnp.exe", "\x7f", "\x9b1m", "\u200b", "\ud800"])
def test_quoting_leaves_nothing_that_controls_a_terminal(text: str) -> None:
    assert quote(text).isascii()
    assert quote(text).isprintable()


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
