"""Which of a finding's inputs speaks for it: the smallest among those that end worst."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from safetensors_reference.cwe import CWE_OF_CODE

from ..verdicts import kind_of
from .evidence import Evidence, case_codes, case_digest, evidence_in, evidence_of, stored_file
from .severity import OUTCOMES, SEVERITIES, outcome_class, outcome_weaknesses, severity
from .stable import stable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from safetensors_corpus import Case, Manifest

    from ..record import Row
    from .inputs import FuzzFinding

_OUTCOMES = list(OUTCOMES)
_SEVERITIES = list(SEVERITIES)
NO_WEAKNESS = frozenset({"reject", "strictness", "contradiction"})
"""Classes of outcome in which nothing got past the reader."""
CRASHING = frozenset({125, 130, 131, 190, 191, 674, 770, 787, 789, 1284, 1285})
"""Weaknesses by which a process can die."""


@dataclass(frozen=True)
class Shown:
    """A case, or an input of a fuzzing run, with the result that an implementation gave.

    Attributes:
        row: the result, as in run records.
        rule: the rule that the finding is about.
        case: of the corpus; None for a case it does not have, and for fuzzing.
        item: the finding of a fuzzing run.
    """

    row: Row
    rule: str
    case: Case | None = None
    item: FuzzFinding | None = None

    @property
    def outcome(self) -> str:
        """Class of the outcome."""
        return outcome_class(self.row)

    @property
    def severity(self) -> str:
        """Severity of this one result."""
        numbers = [n for code in self.codes[:1] for n in CWE_OF_CODE.get(code, ())]
        return severity(self.outcome, self.row["step"], numbers)

    @property
    def codes(self) -> tuple[str, ...]:
        """Fault codes expected of a strict reader, the one that speaks for the input first."""
        if self.item is not None:
            return tuple(self.item.document["codes"])
        return case_codes(self.case) if self.case else ()

    @property
    def size(self) -> int:
        """Size of the input in bytes."""
        if self.item is not None:
            return int(self.item.document["size"]["now"])
        return self.case.size if self.case else 0

    @cached_property
    def seen(self) -> Evidence:
        """The input looked at."""
        if self.case is not None:
            return evidence_of(self.case, self.rule)
        # An index and its shards are no single file to explain.
        if self.item is not None and self.item.entry is not None and self.row["step"] != "index":
            return evidence_in(self.item.entry, self.codes, self.rule)
        return Evidence(self.codes[0] if self.codes else None)

    @property
    def weaknesses(self) -> tuple[int, ...]:
        """CWE numbers, the primary one first."""
        if self.outcome in NO_WEAKNESS:
            return ()
        of_code = CWE_OF_CODE.get(self.seen.code or "", ())
        if self.outcome in ("memory", "crash"):
            # That a file could also have been misread is not why a process died.
            of_code = tuple(n for n in of_code if n in CRASHING)
        return tuple(dict.fromkeys((*outcome_weaknesses(self.outcome, self.row), *of_code)))

    @property
    def digest(self) -> str:
        """Digest of the input."""
        if self.item is not None:
            return self.item.digest
        return case_digest(self.case) if self.case else ""

    @property
    def got(self) -> str:
        """What the implementation did, in one line that is the same in every run."""
        detail = self.row.get("detail") or ""
        if not detail:
            message = self.row.get("message") or ""
            detail = f"{self.row['outcome']}: {message}" if message else self.row["outcome"]
        elif kind_of(self.row["verdict"]) == "wrong-content" and self.row["outcome"] == "accept":
            detail = f"accept, but {detail}"
        return stable(detail)

    def document(self, manifest: Manifest) -> dict[str, Any]:
        """Return the evidence as it stands in the report."""
        return {
            "case": self.row["case"],
            "title": self.case.title if self.case else "",
            "file": stored_file(self.case, manifest) if self.case else None,
            "size": self.size,
            "code": self.seen.code,
            "where": self.seen.where,
            "layout": self.seen.layout,
            "hex": self.seen.hex,
        }


def of_fuzz(item: FuzzFinding, selector: str, rule: str) -> Shown:
    """Return the input of a fuzzing run's finding with what one implementation answered."""
    document = item.document
    got = document["got"][selector]
    row = {
        "verdict": document["verdict"],
        # The answer begins with the word for the outcome: "accept, 2 tensors", "crash: killed by SIGSEGV".
        "outcome": got.replace(",", ":").partition(":")[0].strip(),
        "message": got,
        "detail": got,
        "step": document["step"],
        "case": item.slug,
    }
    return Shown(row, rule, item=item)


def worst(options: Iterable[Shown]) -> Shown:
    """Return the smallest input among those of the worst outcome. There must be one."""

    def rank(one: Shown) -> tuple[Any, ...]:
        # A small file comes before a call without a file, which leaves nothing to look at.
        size = (one.size == 0, one.size)
        return (
            _SEVERITIES.index(one.severity),
            _OUTCOMES.index(one.outcome),
            size,
            one.row["case"],
            one.row["step"],
        )

    return min(options, key=rank)
