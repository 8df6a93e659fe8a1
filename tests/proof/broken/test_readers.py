"""The small reader is correct, and its variants are what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proof.broken.correct.json import HALF, Grammar, Number, paired
from proof.broken.correct.reader import IGNORING, READER, SmallReader
from proof.broken.matrix import cases_for, fails, why
from proof.broken.variant import all_variants, reading
from proof.planted import Planted
from safetensors_corpus import Case, Manifest
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.judging.answer import Refused
from safetensors_reference.rules.book import rule_book

VALID = b'{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'


def file(header: bytes, data: bytes = b"ab") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def read_variants() -> Iterator[Planted]:
    return (variant for variant in all_variants() if variant.kind == "read")


# The correct reader


def test_it_passes_every_read_case(manifest: Manifest, memory_path: Path) -> None:
    found = {c.id: why(READER, c, memory_path) for c in cases_for(manifest, "read")}
    assert {case: reason for case, reason in found.items() if reason} == {}


def test_only_heavy_cases_show_a_fault_in_blocks_of_one_mebibyte(
    manifest: Manifest, memory_path: Path
) -> None:
    (variant,) = (variant for variant in read_variants() if variant.heavy)
    cases = [case for case in manifest.cases if case.id.startswith("data/tensor-")]
    heavy = [case.id for case in cases if case.heavy]
    assert len(heavy) == 3
    assert fails(reading("correct", "Correct.", READER), cases, memory_path) == []
    assert fails(variant, cases, memory_path) == heavy


def test_it_takes_the_hardened_option_of_every_choice(manifest: Manifest, memory_path: Path) -> None:
    def hardened(case: Case) -> Case:
        option = rule_book().choices[case.choice or ""].expected("hardened")
        return replace(case, choice=None, expect=case.options[option or "reject"], options={})

    cases = [c for c in cases_for(manifest, "read") if c.choice]
    assert cases
    wrong = {c.id: mismatch(hardened(c), run_case(hardened(c), READER, memory_path)) for c in cases}
    assert {case: reason for case, reason in wrong.items() if reason} == {}


def test_a_forgiving_parser_gets_on_in_every_step() -> None:
    lax = Grammar(
        left_out=frozenset(["value", "comma", "colon", "cut-off", "other-bracket", "closing-quote"])
    )
    for text in ("[", "{", "[,,,", '{"a":', '{"a":,', '["a" "b"', '"abc', "[1}", "[@@", "{,"):
        try:
            lax.value(text, 0)
        except Refused:
            continue


# Mechanism


def test_readers_hold_no_state_between_files(manifest: Manifest, memory_path: Path) -> None:
    # Cases in another order give the same answers, so that a matrix depends on nothing but its cases.
    cases = cases_for(manifest, "read")[::100]
    for variant in list(read_variants())[::30]:
        assert fails(variant, cases, memory_path) == fails(variant, cases[::-1], memory_path), variant.name


# Registry


def test_names_are_slugs_and_about_is_one_sentence() -> None:
    names = [variant.name for variant in all_variants()]
    assert names == sorted(set(names))
    assert len(list(read_variants())) >= 150
    for variant in read_variants():
        assert re.fullmatch("reader/[a-z0-9]+(-[a-z0-9]+)*", variant.name)
        assert re.fullmatch(r"[A-Z].*\.", variant.about), variant.name
        assert callable(variant.make().read), variant.name


# Readers that differ, but not from what the cases permit


PERMITTED: dict[str, SmallReader] = {
    "skips unknown fields": IGNORING,
    "skips whitespace in front": replace(READER, before=r"[ \t\n\r]*"),
    "takes whitespace as padding": replace(READER, padding=r"[ \t\n\r]*"),
    "nests without end": replace(IGNORING, grammar=Grammar(depth=400)),
    "stops at 120 levels": replace(IGNORING, grammar=Grammar(depth=120)),
    "keeps lone surrogates": replace(READER, grammar=Grammar(finish=paired)),
    "replaces lone surrogates": replace(
        READER, grammar=Grammar(finish=lambda t: HALF.sub("\ufffd", paired(t)))
    ),
    "keeps numbers of any size": replace(IGNORING, grammar=Grammar(convert=lambda text: Number(text))),
    "normalises BOOL": replace(
        READER, values=lambda tensor, raw: bytes(map(bool, raw)) if tensor.dtype == "BOOL" else raw
    ),
}


def about(name: str, cases: list[Case]) -> list[Case]:
    """The cases that a permitted reader may answer in another way, and some of the others."""
    different = {
        case.id
        for case in cases
        if case.choice or set(case.rules) & {"HDR-07", "HDR-16", "HDR-18", "HDR-19", "ENT-05", "DAT-02"}
    }
    start = list(PERMITTED).index(name)
    return [case for n, case in enumerate(cases) if case.id in different or n % 60 == start]


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["some cases", "all"]
)
@pytest.mark.parametrize("name", PERMITTED)
def test_a_permitted_reader_fails_no_case(
    name: str, every: bool, manifest: Manifest, memory_path: Path
) -> None:
    # Guards the other side: cases that call a legitimate reader broken.
    cases = cases_for(manifest, "read")
    cases = cases if every else about(name, cases)
    assert len(cases) > 300
    assert fails(reading("permitted", name, PERMITTED[name]), cases, memory_path) == []


def test_an_empty_map_is_no_content_and_whoever_takes_it_for_some_fails(
    manifest: Manifest, tmp_path: Path
) -> None:
    """MET-03 can fail: every case whose file holds an empty map and must be accepted catches a reader."""
    cases = [c for c in cases_for(manifest, "read") if "MET-03" in c.rules]
    assert len(cases) > 3
    assert {c.expect.outcome for c in cases if c.expect} == {"accept"}
    taken_for_an_entry = next(v for v in read_variants() if v.name == "reader/metadata-empty-as-tensor")
    assert fails(taken_for_an_entry, cases, tmp_path) == sorted(c.id for c in cases)


def test_each_check_has_its_own_effect() -> None:
    for check, spoiled in (
        ("trailing", file(VALID, b"abc")),
        ("past-end", file(VALID, b"a")),
        ("range-size", file(VALID.replace(b"[2]", b"[1]"))),
        ("padding", file(VALID + b"\t")),
        ("field-unknown", file(VALID.replace(b"}}", b',"x":1}}'))),
    ):
        with pytest.raises(Refused, match=check):
            READER.content(spoiled)
        assert READER.without(check).content(spoiled)["tensors"]
    assert READER.left_out == frozenset()
