"""Profiles: one file, three answers, each the option that choices.toml gives."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from hypothesis import given

from safetensors_corpus import load_manifest
from safetensors_reference import PROFILES, explain, rule_book
from safetensors_reference.rules.book import ProfileName

from ..strategies import FEWER, mutants
from ..support import ABCD, W, entry, make

SILENT = {"large-dimension", "high-rank", "tensor-like-metadata", "bool-bytes", "long-number"}
"""Choices on which this reader has nothing to report, whatever it accepts."""
NAMED = {"rare-ignored-values": "unknown-entry-fields"}
"""Choices about what an unknown field holds; to this reader, the field is the fault."""


def option(choice: str, profile: ProfileName) -> str:
    positions = rule_book().choices[choice].positions
    taken = positions[profile] or positions["hardened"]
    assert taken is not None
    return taken


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_takes_the_option_of_choices_toml(profile: ProfileName) -> None:
    for case in load_manifest().reading:
        if case.choice is None:
            continue
        explanation = explain(case.read_input(), profile)
        taken = option(case.choice, profile)
        accepted = case.options[taken].outcome == "accept"
        name = NAMED.get(case.choice, case.choice)
        assert explanation.valid == accepted, case.id
        if accepted:
            assert {f.choice for f in explanation.tolerated} == {name} - SILENT, case.id
        elif taken == "reject" and case.choice not in SILENT:
            assert name in {f.choice for f in explanation.faults}, case.id
            assert name not in {f.choice for f in explanation.tolerated}, case.id


def test_a_tolerated_fault_keeps_its_place_beside_others() -> None:
    data = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!")
    explanation = explain(data, "official")
    (fault,) = explanation.tolerated
    at = data.rindex(b'"w"')
    assert (fault.code, fault.start, fault.end, fault.path) == ("HDR_DUP_KEY", at, at + 3, ("w",))
    assert [f.code for f in explanation.faults] == ["OFF_TRAILING"]


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 400, "[[1e400]]", '{"k":1e309}'])
def test_numbers_out_of_range_are_a_choice_of_their_own(number: str) -> None:
    data = make(f'{{"w":{W[:-1]},"x":{number}}}}}', ABCD)
    assert option("number-range", "official") == "reject"
    explanation = explain(data, "official")
    assert [(f.rule, f.choice) for f in explanation.faults] == [("HDR-18", "number-range")]
    assert [f.choice for f in explanation.tolerated] == ["unknown-entry-fields"]
    for small in ("1e308", "1e-999", "-0", "1" * 300, "0e999999"):
        assert explain(make(f'{{"w":{W[:-1]},"x":{small}}}}}', ABCD), "official").valid


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "header",
    [
        "{}\t\0",
        "\0{}",
        "\ufeff{}",
        f'{{"w":{W[:-1]},"dtype":"U8"}}}}',
        '{"__metadata__":{},"__metadata__":{}}',
        '{"__metadata__":null,"__metadata__":null}',
        '{"w":["U8",[4],[0,4],0]}',
        '{"w":{"dtype":{"U8":{}},"shape":[4],"data_offsets":[0,4]}}',
        '{"w":{"dtype":{"U8":null,"U8":null},"shape":[4],"data_offsets":[0,4]}}',
        '{"w":{"dtype":{"XX":null},"shape":[4],"data_offsets":[0,4]}}',
        '{"w":["U8",[4],"x"]}',
    ],
)
def test_what_no_choice_covers_is_refused_under_every_profile(header: str, profile: ProfileName) -> None:
    data = b"" if "w" not in header else ABCD
    assert not explain(make(header, data), profile).valid


@pytest.mark.parametrize(
    ("first", "valid"),
    [
        *((entry("U8", shape), True) for shape in ("[5]", "[4294967296,4294967296]")),
        (entry("F4", "[1]"), True),
        (entry("U8", "[4]", "[4,0]"), True),
        *((entry(*fields), False) for fields in (["F33"], ["U8", "[-1]"], ["U8", "[4]", "[4]"])),
        ("null", False),
        ('{"dtype":"U8"}', False),
    ],
)  # fmt: skip
def test_a_reader_that_keeps_the_last_entry_parses_the_others_without_checking_their_size(
    first: str, valid: bool
) -> None:
    """The official library parses every entry but validates only those it kept (rule HDR-09)."""
    assert explain(make(f'{{"w":{first},"w":{W}}}', ABCD), "official").valid == valid


def official_version() -> str | None:
    try:
        return version("safetensors")
    except PackageNotFoundError:
        return None


@pytest.mark.skipif(official_version() != "0.8.0", reason="the profile describes safetensors 0.8.0")
@FEWER
@given(mutants())
def test_the_official_profile_gives_the_verdict_and_content_of_the_official_library(data: bytes) -> None:
    from safetensors import SafetensorError, deserialize

    header = explain(data, "official").header
    try:
        found = {name: (info["dtype"], tuple(info["shape"])) for name, info in deserialize(data)}  # type: ignore[no-untyped-call]
    except SafetensorError:
        assert header is None
    else:
        assert header is not None
        assert found == {t.name: (t.dtype, t.shape) for t in header.tensors.values()}
