"""The first rule of a case is the one that it is about: it heads a failure, and gives the case its level.

Of a file that must be refused that is a rule which the file breaks, of one that must be accepted the
permission that the file uses. What the explaining reader finds in a file is a second opinion here, never
the authority.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from safetensors_corpus import Case, Manifest
from safetensors_corpus.manifest import COMBINED
from safetensors_reference import explain, rule_book

from .file_features import unusual

RULES = rule_book().rules
LARGEST = 1 << 20
"""Largest file in bytes that is looked at; larger ones are the same recipes with larger numbers."""

SPECIAL: dict[str, tuple[set[str], str]] = {
    "FRM-01": ({"FRM-04", "FRM-06"}, "what stands in place of the length comes out as one too large"),
    "FRM-02": ({"FRM-04", "FRM-06"}, "a length read wrongly would fit; read rightly it is too large"),
    "FRM-04": ({"FRM-06"}, "the reader compares the length with the cap before it compares it with the file"),
    "FRM-05": ({"FRM-06"}, "a length that is below zero when read with a sign is too large without one"),
    "HDR-05": ({"HDR-03"}, "a byte-order mark behind the object is no padding"),
    "HDR-06": ({"HDR-03"}, "a second value behind the object is no padding"),
    "HDR-07": ({"HDR-16"}, "the reader stops at its depth limit before it comes to the fault"),
    "HDR-10": ({"HDR-09"}, "a name repeated with an escape is a repeated name"),
    "ENT-05": ({"ENT-03", "ENT-04"}, "a field name in other letters is an unknown field, and one is missing"),
    "DTY-05": ({"OFF-05"}, "a wrong width shows in the size of the range"),
    "DTY-10": ({"OFF-05"}, "elements counted otherwise show in the size of the range"),
    "SHP-03": ({"OFF-05"}, "a scalar taken for nothing, or for more, shows in the size of the range"),
    "SHP-04": ({"OFF-05", "SHP-06"}, "bytes of an empty tensor show in the size of its range"),
    "OFF-04": ({"OFF-02"}, "an offset beyond 64 bits lies beyond any buffer; the reader names its spelling"),
    "OFF-05": ({"SHP-07"}, "a dimension beyond 64 bits fits no range; the reader names the number"),
    "OFF-09": ({"OFF-04", "OFF-06", "OFF-07"}, "an empty range in the wrong place is a hole, or the like"),
    "OFF-12": ({"OFF-07"}, "padding between tensors is a hole"),
    "OFF-13": ({"OFF-04"}, "a position that would wrap lies beyond the buffer"),
    "MET-05": ({"ENT-03"}, "a key near to the reserved one is a tensor name, and its map no entry"),
    "MET-07": ({"MET-01"}, "the fields of a tensor are no strings"),
    "LIM-05": ({"OFF-06"}, "many names for one range overlap; the case is about what finding it costs"),
}
"""Rule -> rules that the explaining reader names in files about it, and why that is the same fault."""

PERMITTED: dict[str, set[str]] = {
    "no-tensors": {"FRM-09"},
    # An unpadded header: any length is readable, data may begin anywhere, padding is optional; or a length
    # that is given for what it looks like, or for how far a first request reaches.
    "header-length": {"FRM-08", "OFF-11", "HDR-03", "FRM-01", "FRM-02", "LIM-10"},
    "misaligned": {"OFF-11"},
    "space-between-tokens": {"HDR-08", "LIM-10"},
    "order": {"HDR-17", "OFF-06"},
    "field-order": {"ENT-06"},
    "escape": {"HDR-15", "DTY-04"},
    "metadata": {"MET-01", "MET-03", "MET-04", "MET-08", "MET-10", "HDR-09", "HDR-12", "HDR-17"},
    "name": {"ENT-01", "ENT-07", "ENT-09", "ENT-10", "HDR-19"},
    "many-tensors": {"ENT-11"},
    "empty": {"SHP-04", "OFF-09"},
    "scalar": {"SHP-03"},
    "rank": {"SHP-10", "SHP-11"},
    "rare dtype": {"DTY-01", "DTY-05", "DTY-08", "DTY-09", "DTY-12", "DTY-14", "DTY-15"},
}
"""The only unusual thing about a valid file -> rules that permit it."""

OTHERWISE = {
    "shape/zeros-at-end-of-numbers",  # the 0 is there as a number without digits in front of it
    # What is asked for is the other tensor, of a common dtype.
    *("slice/beside-f8-e4m3fnuz", "slice/beside-f8-e8m0"),
}
"""Cases whose one unusual thing is not what they are about."""
COMMON = {"dtype-f16", "dtype-bf16", "dtype-f64", "dtype-i64", "dtype-bool"}


def refused(manifest: Manifest) -> list[Case]:
    """Cases, of all kinds, that must be refused."""
    return [case for case in manifest.cases if case.expect is not None and case.expect.outcome == "reject"]


def test_the_first_rule_of_a_refusal_fits_what_is_reported(manifest: Manifest) -> None:
    for case in refused(manifest):
        assert case.expect is not None
        assert set(RULES[case.rules[0]].codes) & set(case.expect.codes), case.id
        reported = {code for rule in case.rules for code in RULES[rule].codes}
        assert case.expect.codes[0] in reported, case.id


@pytest.fixture(scope="module", params=[6, pytest.param(1, marks=pytest.mark.nightly)], ids=["some", "all"])
def broken(manifest: Manifest, request: pytest.FixtureRequest) -> list[tuple[Case, set[str]]]:
    """Cases of one file that must be refused as a file, and the rules that the explaining reader names.

    By day, every sixth case of the covering sets stands for all of them.
    """
    cases = refused(manifest)
    combined = [case for case in cases if case.area == COMBINED]
    found = []
    for case in [case for case in cases if case.area != COMBINED] + combined[:: request.param]:
        if case.kind in ("read", "resource", "slice") and case.size <= LARGEST:
            rules = {fault.rule for fault in explain(case.read_input()).faults}
            case.discard()
            # A slice may be refused for the request, with nothing wrong about the file.
            if rules or case.kind != "slice":
                found.append((case, rules))
    return found


def test_the_first_rule_of_a_refusal_is_one_that_the_file_breaks(
    broken: list[tuple[Case, set[str]]],
) -> None:
    assert len(broken) > 850
    unused = {(rule, other) for rule, (shown, _) in SPECIAL.items() for other in shown}
    for case, rules in broken:
        if case.rules[0] not in rules:
            assert rules & SPECIAL.get(case.rules[0], (set(), ""))[0], (case.id, case.rules, rules)
            unused -= {(case.rules[0], rule) for rule in rules}
    assert unused == set()


def test_what_the_format_demands_is_charged_before_what_only_we_or_the_library_demand(
    broken: list[tuple[Case, set[str]]],
) -> None:
    """Unless the official list of dtypes is needed to see that the file is wrong.

    The elements of an array (ENT-02) are fields with faults only to a reader that takes them by position. An
    empty range (OFF-09) shares and uncovers no byte, so that the text forbids it nowhere; the explaining
    reader calls it what it looks like in the chain of ranges.
    """
    for case, rules in broken:
        first = RULES[case.rules[0]]
        if first.basis != "text" and not first.id.startswith(("DTY-", "ENT-02", "OFF-09")):
            assert not {rule for rule in rules if RULES[rule].basis == "text"}, case.id


def test_the_rules_on_ranges_are_charged_only_where_a_range_with_bytes_breaks_them(
    broken: list[tuple[Case, set[str]]],
) -> None:
    """An empty range shares and uncovers no byte: it is a matter of OFF-09."""
    checked = 0
    for case, _ in broken:
        if case.rules[0] not in ("OFF-04", "OFF-06", "OFF-07", "OFF-08"):
            continue
        data = case.read_input()
        case.discard()
        start = 8 + int.from_bytes(data[:8], "little")
        try:
            entries = json.loads(data[8:start])
            entries.pop("__metadata__", None)
            ranges = sorted((*entry["data_offsets"],) for entry in entries.values())
        except (ValueError, KeyError, TypeError):
            continue
        filled = [(begin, end) for begin, end in ranges if begin != end]
        ends = [0, *(end for _, end in filled)]
        assert [begin for begin, _ in filled] != ends[:-1] or ends[-1] != len(data) - start, case.id
        checked += 1
    assert checked > 150


def plain_but_for(manifest: Manifest) -> Iterator[tuple[Case, str]]:
    """Cases of a valid file with just one thing unusual about it, and that thing."""
    for case in manifest.cases:
        valid = case.expect is not None and case.expect.outcome == "accept"
        if not valid or case.heavy or case.kind not in ("read", "slice"):
            continue
        things = {
            "rare dtype" if thing.startswith("dtype-") else "metadata" if "metadata" in thing else thing
            for thing in unusual(case.read_input()) - COMMON
        }
        if "header-length" in things:
            things.discard("misaligned")  # where the data begins follows from it
        if len(things) == 1:
            yield case, things.pop()


def test_a_file_with_one_unusual_thing_is_about_the_rule_that_permits_it(manifest: Manifest) -> None:
    found = list(plain_but_for(manifest))
    assert len(found) > 200
    unused = {(thing, rule) for thing, rules in PERMITTED.items() for rule in rules}
    for case, thing in found:
        # What a slice must give is the matter of a slice; API-05 permits nothing unusual.
        permitted = PERMITTED[thing] | ({"API-05"} if case.kind == "slice" else set())
        # Covering sets vary what is no feature of a file either, such as where among others a tensor stands.
        permitted = permitted | ({"FRM-11"} if case.area == COMBINED else set())
        assert (case.rules[0] not in permitted) == (case.id in OTHERWISE), (case.id, case.rules, thing)
        unused.discard((thing, case.rules[0]))
    assert unused == set()
    assert {case.id for case, _ in found} >= OTHERWISE
