"""Attribution of rejections and invalid files to rules, from a whole run."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_reports.record.run import RunRecord, recharge

Row = dict[str, Any]


def row(*rules: str, charged: str = "", verdict: str = "wrong-reject", of: str = "outcome") -> Row:
    """Return a row of a valid file with these rules; it is accepted unless a rule is ``charged``."""
    basis = "text" if verdict.startswith("wrong") else "official"
    failure = {"verdict": verdict, "rule": charged, "basis": basis, "property": of, "detail": ""}
    refused = charged and of == "outcome"
    return {
        "step": "read",
        "outcome": "reject" if refused else "accept",
        "verdict": verdict if charged else "pass",
        "rules": list(rules),
        "failures": [failure] if charged else [],
        "rule": charged or None,
    }


def rules_of(rows: list[Row]) -> list[str | None]:
    record = RunRecord({}, rows)
    record.charge()
    found = record.results
    assert [r["failures"][0]["rule"] if r["failures"] else None for r in found] == [r["rule"] for r in found]
    return [r["rule"] for r in found]


ORDER = [row("HDR-17", charged="HDR-17")] * 3
TAKEN = [row("OFF-09")] * 3
EMPTY_AND_ORDER = row("OFF-09", "HDR-17", charged="OFF-09")


def test_a_refusal_goes_to_the_rule_of_which_most_cases_are_refused() -> None:
    assert rules_of([*ORDER, *TAKEN, EMPTY_AND_ORDER])[-1] == "HDR-17"
    # A reader that accepts other files in that order rejects this one because of its first rule.
    assert rules_of([row("HDR-17"), *TAKEN, EMPTY_AND_ORDER])[-1] == "OFF-09"
    # A rule without attributed cases is not the reason.
    assert rules_of([*TAKEN, EMPTY_AND_ORDER])[-1] == "OFF-09"


@pytest.mark.parametrize(("taken", "rule"), [(0, "HDR-17"), (2, "HDR-17"), (3, "FRM-11")])
def test_a_combination_is_charged_to_a_part_only_if_most_cases_of_it_are_refused(
    taken: int, rule: str
) -> None:
    combined = row("FRM-11", "HDR-17", "SHP-11", charged="FRM-11")
    assert rules_of([*ORDER, *[row("HDR-17")] * taken, combined])[-1] == rule
    # Combinations are no evidence of their parts.
    assert rules_of([combined] * 9) == ["FRM-11"] * 9


@pytest.mark.parametrize(("texts", "rule"), [("taken", "HDR-08"), ("refused", "FRM-11")])
def test_metadata_without_a_format_are_to_blame_where_all_are_refused(texts: str, rule: str) -> None:
    any_text = row("MET-04", charged="FRM-11" if texts == "refused" else "")
    assert rules_of([*[any_text] * 3, row("HDR-08", "MET-04", charged="FRM-11")])[-1] == rule


def test_a_rule_that_only_forbids_is_not_broken_by_refusing() -> None:
    assert rules_of([row("OFF-06", "OFF-07", charged="FRM-11")]) == ["FRM-11"]
    assert rules_of([*ORDER, row("OFF-06", "HDR-17", charged="FRM-11")])[-1] == "HDR-17"


def test_a_failure_is_charged_only_to_a_rule_that_it_can_break() -> None:
    # A slice of a file that is refused whole says nothing of slices.
    sliced = row("HDR-17", "API-05", charged="API-05", verdict="deviation:reject")
    assert rules_of([*ORDER, sliced])[-1] == "HDR-17"
    assert rules_of([row("HDR-17"), sliced])[-1] == "API-05"
    # A weaker rule takes no wrong rejection over, and no other rule takes an acceptance over.
    dtype = [row("DTY-01", charged="DTY-01", verdict="deviation:reject")] * 3
    assert rules_of([*dtype, row("SHP-03", "DTY-01", charged="SHP-03")])[-1] == "SHP-03"
    rows = [*ORDER, row("OFF-09", "HDR-17", charged="OFF-09", verdict="wrong-accept")]
    assert recharge(rows)[-1] is rows[-1]


def test_one_refusal_among_many_files_of_a_rule_is_no_matter_of_that_rule() -> None:
    taken, refused = [row("FRM-02")] * 7, row("FRM-02", charged="FRM-02")
    assert rules_of([*taken, refused])[-1] == "FRM-11"
    assert rules_of([*taken[:3], refused])[-1] == "FRM-02"
    dtype = row("DTY-01", charged="DTY-01", verdict="deviation:reject")
    assert rules_of([*[row("DTY-01")] * 20, dtype])[-1] == "DTY-01"
    written = {**row("SHP-03", charged="SHP-03"), "step": "write"}
    assert rules_of([*[{**row("SHP-03"), "step": "write"}] * 7, written])[-1] == "SHP-03"


def test_an_invalid_file_that_every_call_comes_to_breaks_the_rule_on_files() -> None:
    def invalid(*rules: str) -> Row:
        return row(*rules, charged=rules[0], verdict="wrong-content", of="valid")

    assert rules_of([*[invalid("WRT-01")] * 5, *[invalid("WRT-05")] * 2])[-1] == "WRT-01"
    assert rules_of([*[row("WRT-01")] * 5, invalid("WRT-05")])[-1] == "WRT-05"


def test_who_takes_every_repeated_key_compares_none() -> None:
    escaped, plain = (row(rule, charged=rule, verdict="wrong-accept") for rule in ("HDR-10", "HDR-09"))
    refused = {**row("HDR-09"), "outcome": "reject"}
    assert rules_of([*[plain] * 3, *[escaped] * 2])[-1] == "HDR-09"
    # A reader that rejects keys with the same spelling compares them before it decodes them.
    assert rules_of([*[refused] * 3, *[escaped] * 2])[-1] == "HDR-10"
