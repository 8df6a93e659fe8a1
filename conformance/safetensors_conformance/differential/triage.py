"""Triage: a list of known disagreements, so that a gate reports only new ones.

One TOML file::

    [[known]]
    signature = "HDR_DUP_KEY: accept mylib; reject reference"   # as `stc diff` prints it; * and ? work
    reason = "keeps the last of two entries with one name"
    issue = "https://github.com/me/mylib/issues/1"   # a URL, or "unreported" with a `why`
    review_by = 2027-06-01
    between = ["mylib", "reference"]   # optional: only for runs that compare exactly these implementations

The report lists entries that match nothing. An entry past its review date no longer silences anything.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from safetensors_corpus.typed import typed
from safetensors_reports.baseline import UNREPORTED, read_toml
from safetensors_reports.differences.report import TriageState
from safetensors_reports.differences.signatures import Signature


class TriageError(Exception):
    """The triage file cannot be used. The message names the file, the entry and the remedy."""


class TriageEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry, for runs that compare exactly the implementations in ``between``, or for all runs."""

    signature: str
    reason: str
    issue: str
    review_by: dt.date
    why: str = ""
    between: frozenset[str] = frozenset()

    def matches(self, signature: str) -> bool:
        """Return whether the pattern matches a signature. Brackets are literal."""
        pattern = self.signature.replace("[", "[[]")
        return signature == self.signature or fnmatch.fnmatchcase(signature, pattern)

    def standing(self, today: dt.date) -> TriageState:
        status: Any = "expired" if today > self.review_by else "known"
        return TriageState(status, self.reason, self.issue, self.review_by.isoformat())


@dataclass(frozen=True)
class Triage:
    """The entries of one file that apply to one run."""

    path: Path | None = None
    entries: tuple[TriageEntry, ...] = ()

    def weigh(self, signatures: Iterable[Signature], today: dt.date) -> dict[str, TriageState]:
        """Return signature -> standing. A current entry takes precedence over an overdue one."""
        found: dict[str, TriageState] = {}
        for signature in signatures:
            if signature.sort == "choice":
                continue
            rows = [e.standing(today) for e in self.entries if e.matches(signature.text)]
            if rows:
                found[signature.text] = min(rows, key=lambda s: s.status == "expired")
        return found

    def unmatched(self, signatures: Iterable[Signature]) -> list[str]:
        texts = [s.text for s in signatures if s.sort != "choice"]
        return [e.signature for e in self.entries if not any(e.matches(t) for t in texts)]


def shipped() -> Path:
    return Path(__file__).with_name("triage.toml")


def load_triage(path: Path, names: Sequence[str]) -> Triage:
    try:
        raw = read_toml(path)
    except OSError as err:
        raise TriageError(str(err)) from err
    except ValueError as err:
        raise TriageError(f"{path}: {err}") from err
    unknown = sorted(set(raw) - {"known"})
    if unknown:
        raise TriageError(f"{path}: unknown key {unknown[0]!r}; entries are written as [[known]]")
    rows = raw.get("known", [])
    if not isinstance(rows, list) or any(not isinstance(row, dict) for row in rows):
        raise TriageError(f"{path}: write each entry as [[known]]")
    entries = []
    for number, row in enumerate(rows, 1):
        try:
            entry = typed(row, TriageEntry)
            _check(entry)
        except ValueError as err:
            name = str(row.get("signature", "without signature"))[:60]
            raise TriageError(f"{path}, entry {number} ({name!r}): {err}") from err
        if entry.between in (frozenset(), frozenset(names)):
            entries.append(entry)
    return Triage(path, tuple(entries))


def _check(entry: TriageEntry) -> None:
    for key in ("signature", "reason", "issue"):
        if not getattr(entry, key).strip():
            raise ValueError(f"needs {key!r} as a string")
    if set(entry.signature) <= set("*? "):
        raise ValueError("this pattern matches everything; name the known signatures")
    if entry.issue == UNREPORTED and not entry.why.strip():
        raise ValueError(f"issue \"{UNREPORTED}\" needs a 'why'")
    if entry.issue != UNREPORTED and not entry.issue.startswith(("https://", "http://")):
        raise ValueError(f'issue must be a URL or "{UNREPORTED}"')
