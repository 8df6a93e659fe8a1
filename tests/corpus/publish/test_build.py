"""The built corpus: the same bytes every time, and expectations that hold in the bytes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest
from safetensors_corpus.author.case import ACCEPT, Accept, CaseFunction, Reject
from safetensors_corpus.author.file import HEAVY, LONG_RECIPE, MAX_FILE, USUAL_FILE, FileBuilder
from safetensors_corpus.document import CHECKSUM, MANIFEST, parsed
from safetensors_corpus.manifest import COMBINED, Expectation
from safetensors_corpus.publish import build as build_module
from safetensors_corpus.publish.build import BUILDERS, BuiltCorpus, build, lost_ids
from safetensors_corpus.recipe import expand
from safetensors_reference import PROFILES, explain, rule_book
from safetensors_reference.rules.book import ProfileName


def test_a_choice_is_demanded_only_where_its_text_is_clear(manifest: Manifest) -> None:
    """Or where its rule is a must, so that an answer outside of the options breaks it."""
    book = rule_book()
    for case in manifest.cases:
        if case.choice is not None and not book.choices[case.choice].required and case.level == "must":
            assert book.rules[book.choices[case.choice].rule].level == "must", case.id


def demanded(case: Case, profile: ProfileName) -> Expectation:
    """What ``profile`` demands; where it leaves the choice open, what hardened demands."""
    if case.expect is not None:
        return case.expect
    assert case.choice is not None
    positions = rule_book().choices[case.choice].positions
    return case.options[positions[profile] or positions["hardened"] or ""]


@pytest.mark.parametrize("every", [pytest.param(True, marks=pytest.mark.nightly), False], ids=["all", "some"])
def test_the_strict_reader_agrees_with_every_expectation(manifest: Manifest, every: bool) -> None:
    """By day, every fortieth case of the covering sets stands for all of them."""
    combined = [case for case in manifest.reading if case.area == COMBINED]
    cases = [case for case in manifest.reading if case.area != COMBINED] + combined[:: 1 if every else 40]
    for case in cases:
        data = case.read_input()
        for profile in PROFILES:
            expectation = demanded(case, profile)
            codes = {fault.code for fault in explain(data, profile).faults}
            if expectation.outcome == "accept":
                assert not codes, (case.id, profile)
            else:
                wanted = expectation.codes[:1] if profile == "hardened" else expectation.codes
                assert codes & set(wanted), (case.id, profile)


MORE_TENSORS_THAN_BYTES = "entry/thousand-tensors"


def test_tensors_that_could_be_mistaken_for_each_other_hold_different_bytes(manifest: Manifest) -> None:
    """A reader that returns the wrong tensor is seen only by its bytes."""
    for case in manifest.reading:
        for expectation in case.demands:
            rows = (expectation.content or {}).get("tensors", ())
            seen = [(row["dtype"], *row["shape"], row["sha256"]) for row in rows if row["nbytes"]]
            assert len(set(seen)) == len(seen) or case.id == MORE_TENSORS_THAN_BYTES, case.id


SOUND = CaseFunction(
    id="framing/x",
    title="A title.",
    rules=("FRM-01",),
    options={"": ACCEPT},
    body=lambda f: f.tensor("w", "U8", [4]),
    steps=("open",),
    source={"kind": "hand"},
)


def build_one(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Build the sound case with changes; return its row and all files."""
    monkeypatch.setattr(build_module, "all_cases", lambda: [replace(SOUND, **changes)])
    files = build().files
    (row,) = parsed(Path("corpus.json"), files["corpus.json"])["cases"]
    return row, files


WHITESPACE: dict[str, Accept | Reject] = {"accept": ACCEPT, "reject": Reject(("HDR_BAD_START",))}
LEADING = {"choice": "leading-whitespace", "options": WHITESPACE}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rules": ("NOP-01",)}, "unknown or missing rules"),
        ({"rules": ()}, "unknown or missing rules"),
        ({"options": {"": Reject(("NO_SUCH",))}}, "NO_SUCH"),
        ({"options": {"": Reject(())}}, "missing fault codes"),
        ({"choice": "no-such", "options": WHITESPACE}, "unknown choice"),
        ({**LEADING, "options": {"accept": ACCEPT}}, "options must be exactly"),
        ({**LEADING, "options": {**WHITESPACE, "": ACCEPT}}, "options must be exactly"),
        ({**LEADING, "rules": ("NOP-01",)}, "NOP-01"),
        ({"importance": "enormous"}, "enormous"),
    ],
)
def test_a_case_that_contradicts_the_rules_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        build_one(monkeypatch, **changes)
    assert "framing/x" in str(caught.value) or words == "enormous"


@pytest.mark.parametrize(
    ("size", "literal", "stored"),
    [
        (USUAL_FILE, 0, True),
        (USUAL_FILE + 1, 0, False),
        (USUAL_FILE + 1, LONG_RECIPE, True),
        (MAX_FILE, LONG_RECIPE, True),
        (MAX_FILE + 1, LONG_RECIPE, False),
    ],
)
def test_files_up_to_the_limit_are_stored_and_larger_ones_described(
    monkeypatch: pytest.MonkeyPatch, size: int, literal: int, stored: bool
) -> None:
    rendered = []

    def body(f: FileBuilder) -> None:
        f.tensor("w", "U8", [1 + literal], data=bytes(i * i % 251 for i in range(1 + literal)))
        f.gap(size - len(f.render()))
        rendered.append(f.render())

    row, files = build_one(monkeypatch, body=body)
    given = row["input"]
    assert (given["size"], given["sha256"]) == (size, hashlib.sha256(rendered[0]).hexdigest())
    if stored:
        assert files["files/framing/x.safetensors"] == rendered[0]
    else:
        assert list(files) == [MANIFEST, CHECKSUM]
        assert expand(given["recipe"]) == rendered[0]


def test_a_large_file_without_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(f: FileBuilder) -> None:
        f.tensor("w", "U8", [MAX_FILE], data=bytes(i * i % 251 for i in range(MAX_FILE)))

    with pytest.raises(ValueError, match=r"framing/x.*have no runs that are long enough for a recipe"):
        build_one(monkeypatch, body=body)


def test_a_kind_without_a_builder_is_an_error_that_names_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(BUILDERS, "read")
    with pytest.raises(ValueError, match="case framing/x: cases of kind 'read' have no builder"):
        build_one(monkeypatch)


ARRAY = {"choice": "entry-as-array", "options": {**WHITESPACE, "reject": Reject(("ENT_NOT_OBJECT",))}}


@pytest.mark.parametrize(
    ("changes", "level", "heavy"),
    [
        ({}, "must", False),
        ({"rules": ("HDR-16", "FRM-01")}, "may", False),
        ({"level": "should", "heavy": True}, "should", True),
        ({**LEADING, "body": lambda f: (f.tensor("w", "U8", [1]), f.gap(HEAVY))}, "may", True),
        (ARRAY, "must", False),
    ],
)
def test_the_level_comes_from_the_first_rule_or_the_choice_and_the_weight_from_the_case_or_its_size(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], level: str, heavy: bool
) -> None:
    row, _ = build_one(monkeypatch, **changes)
    assert (row["level"], row["heavy"]) == (level, heavy)


SMALL = BuiltCorpus({"files/a/b.safetensors": b"x", "corpus.json": b'{"cases": [{"id": "a/b"}]}'}, 1)


@pytest.mark.parametrize(
    ("old", "lost"),
    [
        ('{"cases": [{"id": "a/b"}, {"id": "a/gone"}, {"id": "a/away"}]}', ["a/away", "a/gone"]),
        *(
            (old, [])
            for old in ('{"cases": [{"id": "a/b"}]}', '{"cases": []}', "no json", "[]", '{"cases": [1]}')
        ),
    ],
)
def test_ids_that_would_disappear_are_found(tmp_path: Path, old: str, lost: list[str]) -> None:
    assert lost_ids(SMALL, tmp_path) == []
    (tmp_path / "corpus.json").write_text(old)
    assert lost_ids(SMALL, tmp_path) == lost
