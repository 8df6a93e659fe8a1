"""The single failures of a run: what each failing row says, whichever version of the suite wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from safetensors_corpus.judging.verdicts import STRICT_FAILING, badness, kind_of
from safetensors_corpus.judging.written_file import PROPERTIES

from ..record.device_checks import CHECKS
from ..record.run import Row

BLAMED = STRICT_FAILING - {"choice-inconsistent"}
"""Kinds of verdict of a row that have a cause; of a contradiction several rows are the cause together."""
PASS = badness("pass")
_LACKING = "does not hold: "
_PROPERTY = re.compile(r"\(([a-z]+(?:-[a-z]+)*)\)|^([a-z]+(?:-[a-z]+)*)$")
_BREAKS = "the file breaks rules: "
_CODE = re.compile(r"\b[A-Z]{2,3}_[A-Z0-9_]+\b")


@dataclass(frozen=True)
class Failure:
    """One thing that is wrong about one answer.

    Attributes:
        row: the row of the record.
        verdict: the verdict on this alone, ``deviation:accept`` where the written format is silent.
        rule: id of the rule charged, empty for none.
        basis: who says so: ``text``, ``official``, ``ours``, or None where the record does not tell.
        broken: demanded property of a written file that is broken, empty for none.
        check: promise of loading onto a device that is broken, empty for none.
        detail: the harness's words.
    """

    row: Row
    verdict: str
    rule: str
    basis: str | None = None
    broken: str = ""
    check: str = ""
    detail: str = ""

    @property
    def case(self) -> str:
        """Id of the case."""
        return str(self.row["case"])

    @property
    def step(self) -> str:
        """Step that failed."""
        return str(self.row["step"])

    @property
    def outcome(self) -> str:
        """What the implementation did."""
        return str(self.row["outcome"])

    @property
    def codes(self) -> list[str]:
        """Fault codes that the harness names in its words."""
        return _CODE.findall(self.detail)


def failures(row: Row) -> list[Failure]:
    """Return what is wrong about one answer: nothing, one thing, or several of one file that was written."""
    if kind_of(row["verdict"]) not in BLAMED:
        return []
    told = [_told(row, part) for part in row.get("failures") or ()]
    told = [f for f in told if kind_of(f.verdict) in BLAMED]
    broken = [c for c in row.get("checks") or () if c["status"] == "fail" and c["name"] in CHECKS]
    if not told:
        told = list(_untold(row, broken))
    named = {f.broken for f in told}
    told += [_unkept(row, check) for check in broken if check["name"] not in named]
    return [f for f in told if kind_of(f.verdict) in BLAMED]


INPUT = "input"
"""Property of a reader that leaves the file as it is, on which no rule of the format says anything."""


def _told(row: Row, part: dict[str, Any]) -> Failure:
    name = str(part.get("property") or "")
    return Failure(
        row,
        str(part.get("verdict") or row["verdict"]),
        "" if name == INPUT else str(part.get("rule") or _rule(row)),
        part.get("basis") or row.get("basis"),
        name if name in ("valid", INPUT) or name in PROPERTIES else "",
        name if name in CHECKS else "",
        str(part.get("detail") or row.get("detail") or ""),
    )


def _untold(row: Row, broken: Iterable[dict[str, Any]]) -> Iterator[Failure]:
    """Yield the failures of a row of an older record, which tells them in words."""
    detail = str(row.get("detail") or "")
    if any(detail.startswith(f"{check['name']}: ") for check in broken):
        return  # the verdict is that of the promises
    if detail.startswith(_LACKING):
        for part in detail.removeprefix(_LACKING).split(", "):
            found = _PROPERTY.search(part)
            if found:
                name = found[1] or found[2]
                yield Failure(row, row["verdict"], _rule(row), row.get("basis"), name, "", detail)
        return
    name = "valid" if detail.startswith((_BREAKS, "no file was written")) else ""
    yield Failure(row, row["verdict"], _rule(row), row.get("basis"), name, "", detail)


def _unkept(row: Row, check: dict[str, Any]) -> Failure:
    promise = CHECKS[check["name"]]
    return Failure(row, promise.verdict, promise.rule, None, "", check["name"], str(check["message"]))


def _rule(row: Row) -> str:
    return str(row.get("rule") or next(iter(row.get("rules") or ()), ""))


def all_failures(rows: Iterable[Row]) -> list[Failure]:
    """Return the failures of a run in the order of its rows.

    A broken file that is accepted at opening is no second mistake where reading it ends worse.
    """
    found = [failure for row in rows for failure in failures(row)]
    reading: dict[str, tuple[int, int]] = {}
    for f in found:
        if f.step == "read":
            reading[f.case] = min(badness(f.verdict), reading.get(f.case, PASS))
    return [
        f
        for f in found
        if not (f.step == "open" and f.outcome == "accept" and reading.get(f.case, PASS) < badness(f.verdict))
    ]
