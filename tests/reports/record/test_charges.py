"""Attribution of rejections and invalid files to rules, from a whole run."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_reports.record.run import RunRecord

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


def invalid(*rules: str) -> Row:
    return row(*rules, charged=rules[0], verdict="wrong-content", of="valid")


ORDER = [row("HDR-17", charged="HDR-17")] * 3
TAKEN = [row("OFF-09")] * 3
EMPTY_AND_ORDER = row("OFF-09", "HDR-17", charged="OFF-09")
COMBINED = row("FRM-11", "HDR-17", "SHP-11", charged="FRM-11")
SLICED = row("HDR-17", "API-05", charged="API-05", verdict="deviation:reject")
DTYPE = row("DTY-01", charged="DTY-01", verdict="deviation:reject")
FEW, WRITTEN = row("FRM-02", charged="FRM-02"), {**row("SHP-03", charged="SHP-03"), "step": "write"}
NO_FORMAT = row("HDR-08", "MET-04", charged="FRM-11")
ESCAPED, PLAIN = (row(rule, charged=rule, verdict="wrong-accept") for rule in ("HDR-10", "HDR-09"))


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        # A refusal goes to the rule of which most cases are refused.
        ([*ORDER, *TAKEN, EMPTY_AND_ORDER], "HDR-17"),
        # A reader that accepts other files in that order rejects this one because of its first rule.
        ([row("HDR-17"), *TAKEN, EMPTY_AND_ORDER], "OFF-09"),
        # A rule without attributed cases is not the reason.
        ([*TAKEN, EMPTY_AND_ORDER], "OFF-09"),
        # A combination is charged to a part only if most cases of it are refused.
        ([*ORDER, COMBINED], "HDR-17"),
        ([*ORDER, *[row("HDR-17")] * 2, COMBINED], "HDR-17"),
        ([*ORDER, *[row("HDR-17")] * 3, COMBINED], "FRM-11"),
        # Combinations are no evidence of their parts.
        ([COMBINED] * 9, "FRM-11"),
        # Metadata without a format are to blame where all are refused.
        ([*[row("MET-04")] * 3, NO_FORMAT], "HDR-08"),
        ([*[row("MET-04", charged="FRM-11")] * 3, NO_FORMAT], "FRM-11"),
        # A rule that only forbids is not broken by refusing.
        ([row("OFF-06", "OFF-07", charged="FRM-11")], "FRM-11"),
        ([*ORDER, row("OFF-06", "HDR-17", charged="FRM-11")], "HDR-17"),
        # A slice of a file that is refused whole says nothing of slices.
        ([*ORDER, SLICED], "HDR-17"),
        ([row("HDR-17"), SLICED], "API-05"),
        # A weaker rule takes no wrong rejection over, and no other rule takes an acceptance over.
        ([*[DTYPE] * 3, row("SHP-03", "DTY-01", charged="SHP-03")], "SHP-03"),
        ([*ORDER, row("OFF-09", "HDR-17", charged="OFF-09", verdict="wrong-accept")], "OFF-09"),
        # One refusal among many files of a rule is no matter of that rule.
        ([*[row("FRM-02")] * 7, FEW], "FRM-11"),
        ([*[row("FRM-02")] * 3, FEW], "FRM-02"),
        ([*[row("DTY-01")] * 20, DTYPE], "DTY-01"),
        ([*[{**row("SHP-03"), "step": "write"}] * 7, WRITTEN], "SHP-03"),
        # An invalid file that every call comes to breaks the rule on files.
        ([*[invalid("WRT-01")] * 5, *[invalid("WRT-05")] * 2], "WRT-01"),
        ([*[row("WRT-01")] * 5, invalid("WRT-05")], "WRT-05"),
        # A reader that accepts every repeated key compares none. One that rejects keys with the same
        # spelling compares them before it decodes them.
        ([*[PLAIN] * 3, *[ESCAPED] * 2], "HDR-09"),
        ([*[{**row("HDR-09"), "outcome": "reject"}] * 3, *[ESCAPED] * 2], "HDR-10"),
    ],
)
def test_the_whole_run_shows_which_rule_the_last_row_breaks(rows: list[Row], rule: str) -> None:
    record = RunRecord({}, rows)
    record.charge()
    found = record.results
    assert [r["failures"][0]["rule"] if r["failures"] else None for r in found] == [r["rule"] for r in found]
    assert found[-1]["rule"] == rule
