"""Cases of one choice belong together: the same options, told apart, and answered alike by one reader."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest
from safetensors_corpus.manifest import Expectation
from safetensors_reference import rule_book
from safetensors_reference.rules.book import Choice

from .file_features import true, unusual

BOOK = rule_book()
ASKED = {choice.id: choice for choice in BOOK.choices.values() if not choice.settled}
SETTLED = [choice for choice in BOOK.choices.values() if choice.settled]
ONE_CASE = {
    "big-endian-view": "forms of views and element types have choices of their own; here they only meet",
    "index-bom": "a mark can stand in one place only",
    "index-empty-map": "there is one empty map",
    "index-flat-map": "there is one way to leave out the member",
    "tensor-like-metadata": "one form of entry has strings only; what differs from it is refused or plain",
}
"""Choices for which one case says everything, and why."""


def of_choice(manifest: Manifest, choice: str) -> list[Case]:
    """All cases of a choice, heavy ones too."""
    return [case for case in manifest.cases if case.choice == choice]


def test_a_choice_has_several_cases_or_says_why_one_is_enough(manifest: Manifest) -> None:
    for choice in ASKED:
        cases = of_choice(manifest, choice)
        assert cases, choice
        assert (len(cases) == 1) == (choice in ONE_CASE), [case.id for case in cases]
    assert set(ONE_CASE) <= set(ASKED)


@pytest.mark.parametrize("choice", SETTLED, ids=lambda choice: choice.id)
def test_a_settled_choice_is_shown_by_ordinary_cases_of_its_rules(manifest: Manifest, choice: Choice) -> None:
    assert not of_choice(manifest, choice.id)
    for rule in choice.settled:
        shown = [case for case in manifest.cases if rule in case.rules and case.expect is not None]
        assert shown, f"{choice.id}: no case of {rule} demands anything"


def observable(expectation: Expectation) -> tuple[Any, ...]:
    """What of an expectation can be seen in an answer: codes do not count."""
    return expectation.outcome, repr(expectation.content), expectation.properties


def test_every_option_of_a_case_can_be_told_from_another(manifest: Manifest) -> None:
    for case in manifest.cases:
        seen = {option: observable(expectation) for option, expectation in case.options.items()}
        for option, answer in seen.items():
            differs = any(answer != other for other in seen.values())
            assert differs, f"{case.id}: {option} looks like all other options"


def test_two_options_of_a_choice_are_told_apart_by_some_case(manifest: Manifest) -> None:
    for choice in ASKED.values():
        cases = of_choice(manifest, choice.id)
        for one, two in combinations(choice.options, 2):
            differing = [c for c in cases if observable(c.options[one]) != observable(c.options[two])]
            assert differing, f"{choice.id}: nothing tells {one} from {two}"


def test_only_the_type_of_the_error_can_be_wrong_in_a_case_about_foreign_errors(manifest: Manifest) -> None:
    """API-14 is charged for a refusal by an undocumented type, so each clean answer must be permitted."""
    cases = of_choice(manifest, "foreign-errors")
    assert {case.kind for case in cases} == {"slice", "index"}
    for case in cases:
        assert case.rules[0] == "API-14"
        assert {e.outcome for e in case.options.values()} == {"accept", "reject"}


# ---- a case of a choice is about that choice alone, or readers look inconsistent that are not ----
#
# Whether a reader always gives the same answer to a choice is judged over all of its cases. A case that holds
# something else besides, which a reader may refuse or read otherwise, makes its answers differ for that.

LARGEST = 2 << 20
"""Largest file in bytes that is looked at; larger ones are the same recipes with larger numbers."""
SMALLER = 1 << 19
"""The same by day, which leaves out one case in thirty that take half of the time."""
IGNORED = {"unknown-field"}
NUMBERS = {"unknown-number-form", "unknown-number-large"}

ABOUT: dict[str, set[str]] = {
    "leading-whitespace": {"before-brace"},
    "trailing-whitespace": {"behind-brace"},
    # Which entry counts shows in the bytes that are covered; equal names may be spelled in two ways (HDR-10).
    "duplicate-tensor-names": {"name-twice", "coverage", "order", "escape", "many-tensors"},
    "duplicate-metadata-keys": {"metadata", "metadata-key-twice", "escape"},
    # Strings stand in names and in metadata, and nothing else can hold one.
    "lone-surrogates": {"escape", "name", "metadata", "metadata-text"},
    # What no reader uses can stand in unknown fields only, so that these cases need one.
    "deep-nesting": IGNORED | {"deep", "unknown-nested"},
    "number-range": IGNORED | NUMBERS | {"unknown-nested"},
    "long-number": IGNORED | NUMBERS,
    "large-ignored-field": IGNORED | {"unknown-nested", "unknown-number-form"},
    "rare-ignored-values": {*IGNORED, *NUMBERS, "unknown-nested", "unknown-long", "deep", "escape",
                            "space-between-tokens"},
    "unknown-entry-fields": IGNORED | {"unknown-nested"},
    "entry-as-array": {"entry-form", "many-tensors"},
    "dtype-as-object": {"dtype-form"},
    # Only an empty tensor can have dimensions that large.
    "zero-dim-overflow": {"empty", "dimension-large", "product-large"},
    "large-dimension": {"empty", "dimension-large"},
    "high-rank": {"rank"},
    "metadata-null": {"metadata", "metadata-form"},
    # The texts in the map are those of a shape and of offsets, with their brackets.
    "tensor-like-metadata": {"metadata", "metadata-text"},
    "bool-bytes": {"dtype-bool"},
    "long-name": {"name"},
    "names-as-paths": {"name", "escape", "non-ascii"},
    "much-metadata": {"metadata", "much-metadata"},
    "slice-zero-dimension": {"empty"},
    "slice-packed": {"dtype-rare"},
    "big-endian": {"big-endian", "dtype"},
    "big-endian-view": {"big-endian", "strides"},
    "non-contiguous": {"strides"},
    "shared-memory": {"shared"},
    "missing-folder": {"target"},
    "sharded-earlier-save": {"folder"},
    "sharded-text": {"dtype"},
    "sharded-total-size": {"metadata"},
}  # fmt: skip
"""Choice -> what its cases are about, in words of ``unusual`` and ``unusual_given``; others: nothing."""

BESIDES: dict[str, tuple[set[str], str]] = {
    "header/name-twice-escaped-pair": (
        {"name", "non-ascii"},
        "a pair of escapes stands for a character beyond ASCII, which is then spelled plainly as well",
    ),
    "metadata/null-under-escaped-key": ({"escape"}, "a key is the same however it is spelled (MET-06)"),
    "metadata/null-without-tensors": ({"no-tensors"}, "a file without tensors is valid (FRM-09)"),
    **{
        f"shape/many-{slug}": ({"empty"}, "a dimension of zero is valid (SHP-04), which leaves no choice")
        for slug in ("zero", "one-to-nine")
    },
    **{
        case: ({"space-between-tokens"}, "spaces between tokens are JSON (HDR-07), which leaves no choice")
        for case in ("shape/many-two-between-spaces", "header/ignored-long-value-large-between-spaces")
    },
    "writer/view-complex-every-second": ({"dtype"}, "the parts of complex numbers must stay together"),
}
"""Cases with something besides that their permanent id names, and why no reader differs for it."""

TO_WRITE = {"F32", "F64", "U8", "I16", "I32", "I64"}
"""Dtypes that every writer has."""


def unusual_given(action: Mapping[str, Any]) -> set[str]:
    """Return what is unusual about the things that a writer is given."""
    tensors = action["tensors"]
    shapes = [tensor["shape"] for tensor in tensors]
    return true(
        {
            "big-endian": any(tensor["byteorder"] == "big" for tensor in tensors),
            "strides": any(tensor["strides"] is not None for tensor in tensors),
            "dtype": {tensor["dtype"] for tensor in tensors} - TO_WRITE,
            "shape": any(0 in shape or not shape for shape in shapes),
            "name": not all(isinstance(t["name"], str) and t["name"].isidentifier() for t in tensors),
            "shared": len({tensor["storage"] for tensor in tensors}) != len(tensors),
            "metadata": action["metadata"] is not None,
            "target": action.get("target", "new") != "new",
        }
    )


def features(case: Case) -> set[str]:
    """Return what is unusual about the input of a case: its file, its shards, or what is to be written."""
    if case.kind in ("write", "sharded"):
        assert case.action is not None
        return unusual_given(case.action) | true({"folder": case.kind == "sharded" and case.input.files})
    if case.kind == "index":
        shards = [file.source for file in case.input.files if file.path.endswith(".safetensors")]
        return set().union(*(unusual(shard.read_bytes()) for shard in shards))
    data = case.read_input()
    case.discard()
    return unusual(data)


Seen = tuple[int, list[tuple[Case, set[str]]]]


@pytest.fixture(scope="module", params=[SMALLER, pytest.param(LARGEST, marks=pytest.mark.nightly)])
def looked_at(manifest: Manifest, request: pytest.FixtureRequest) -> Seen:
    """A size in bytes, all cases of a choice up to it, and what is unusual about the input of each."""
    limit: int = request.param
    return limit, [(c, features(c)) for c in manifest.cases if c.choice and c.size <= limit]


def test_a_case_of_a_choice_is_about_nothing_else(looked_at: Seen) -> None:
    _, seen = looked_at
    assert len(seen) > 300
    for case, found in seen:
        # What stands besides is really there.
        assert found - ABOUT.get(case.choice or "", set()) == BESIDES.get(case.id, (set(), ""))[0], case.id


def test_everything_that_is_allowed_is_found_in_some_case(manifest: Manifest, looked_at: Seen) -> None:
    limit, seen = looked_at
    # What is not seen by day may stand in a case that only the night looks at.
    larger = {case.choice for case in manifest.cases if limit < case.size <= LARGEST}
    expected = {(choice, thing) for choice in ABOUT.keys() - larger for thing in ABOUT[choice]}
    assert len(expected) >= 20
    assert expected - {(case.choice, thing) for case, found in seen for thing in found} == set()
