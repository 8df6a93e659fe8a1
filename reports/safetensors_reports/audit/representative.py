"""Which of a finding's inputs speaks for it: the smallest among those that end worst."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from safetensors_reference.rules.cwe import CWE_OF_CODE

from ..case_evidence import Evidence, case_codes, case_digest, evidence_in, evidence_of, got_text, stored_file
from .severity import OUTCOMES, SEVERITIES, outcome_class, severity, weaknesses_of
from .stable_text import stable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from safetensors_corpus import Case, Manifest

    from ..record.run import Row
    from .inputs import FuzzFinding

_OUTCOMES = list(OUTCOMES)
_SEVERITIES = list(SEVERITIES)
REQUEST = 1_000
"""Most characters told of a request."""
CARRIED = 16 << 10
"""Largest input in bytes that a report carries."""


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
            return self.item.document.codes
        return case_codes(self.case) if self.case else ()

    @property
    def size(self) -> int:
        """Size of the input in bytes."""
        if self.item is not None:
            return self.item.document.size.now
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
        return weaknesses_of(self.outcome, self.row, CWE_OF_CODE.get(self.seen.code or "", ()))

    @property
    def digest(self) -> str:
        """Digest of the input."""
        if self.item is not None:
            return self.item.digest
        return case_digest(self.case) if self.case else ""

    @property
    def got(self) -> str:
        """What the implementation did, in one line that is the same in every run."""
        return stable(got_text(self.row))

    @property
    def input(self) -> str | None:
        """SHA-256 of the input where a report carries it, None where it is too large or no single file."""
        data = self.seen.data
        return hashlib.sha256(data).hexdigest() if data is not None and len(data) <= CARRIED else None

    def _everything(self) -> dict[str, Any] | None:
        """Return the whole input as the place, where no byte of it is more at fault than another."""
        if not self.size:
            return None
        if self.row["step"] == "write":
            text = "the whole file that was there before; nothing in it is at fault"
        elif not self.codes:
            text = "the whole input: nothing in it is at fault"
        else:
            text = "the whole input: no single byte of it is at fault"
        return {"start": 0, "end": self.size, "path": None, "text": text}

    def _request(self) -> str | None:
        """Return what was asked for besides reading the file, as JSON; None for nothing."""
        action = self.item.document.action if self.item else self.case.action if self.case else None
        return stable(json.dumps(action), REQUEST) if action else None

    def document(self, manifest: Manifest) -> dict[str, Any]:
        """Return the evidence as it stands in the report."""
        return {
            "case": self.row["case"],
            "title": self.case.title if self.case else "",
            "file": stored_file(self.case, manifest) if self.case else None,
            "size": self.size,
            "code": self.seen.code,
            "where": self.seen.where or self._everything(),
            "request": self._request(),
            "layout": self.seen.layout,
            "hex": self.seen.hex,
            "input": self.input,
        }


def of_fuzz(item: FuzzFinding, selector: str, rule: str) -> Shown:
    """Return the input of a fuzzing run's finding with what one implementation answered."""
    document = item.document
    got = document.got[selector]
    row = {
        "verdict": document.verdict,
        # The answer begins with the word for the outcome: "accept, 2 tensors", "crash: killed by SIGSEGV".
        "outcome": got.replace(",", ":").partition(":")[0].strip(),
        "message": got,
        "detail": got,
        "step": document.step,
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
            # What everybody can run again comes before what takes a device.
            one.row["step"] == "device",
            one.row["step"],
        )

    return min(options, key=rank)
