"""Baselines: the failures that are known and expected of one implementation, strict both ways.

One TOML file per implementation::

    implementation = "safetensors"

    [[expected]]
    case = "layout/hole-between-two"      # a case id, or a glob that stays within one area
    read = "wrong-accept"                 # the verdict seen, per step
    why = "what is known about it"
    issue = "https://github.com/owner/project/issues/1"   # needed for security verdicts
    review_by = 2027-06-01                # needed for security verdicts
    versions = ">=1.2,<2"                 # optional: versions of the implementation this holds for
    profile = "text"                      # only for runs under this profile; without: runs under none

A listed failure that passes, fails otherwise or is not run fails; so does an entry that matches no case.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from safetensors_reports.baseline import BaselineError, Expected, read_baseline

from ..implementations.descriptor import descriptors
from ..worker.device import kind_of_device

__all__ = [
    "Baseline",
    "BaselineError",
    "check_owner",
    "load_baseline",
    "name_in_records",
    "overdue",
    "own_baselines",
]

MAX_GLOB_CASES = 20
"""Most cases that one glob may cover."""


@dataclass(frozen=True)
class Baseline:
    """All entries of one file that hold for one run."""

    path: Path | None
    entries: tuple[Expected, ...] = ()
    _exact: dict[str, Expected] = field(default_factory=dict)

    def find(self, case_id: str) -> Expected | None:
        """Return the entry of a case: an exact one before a glob."""
        exact = self._exact.get(case_id)
        if exact is not None:
            return exact
        return next((e for e in self.entries if e.is_glob and e.covers(case_id)), None)

    def stale(self, case_ids: Iterable[str]) -> list[str]:
        """Return a complaint for each entry that covers no case, or too many."""
        ids = list(case_ids)
        out = []
        for entry in self.entries:
            covered = sum(entry.covers(i) for i in ids)
            if covered == 0:
                out.append(f"{entry.case}: matches no case of the corpus; remove the entry")
            elif covered > MAX_GLOB_CASES:
                out.append(f"{entry.case}: covers {covered} cases, one glob may cover {MAX_GLOB_CASES}")
        return out


def own_baselines() -> dict[str, Path]:
    """Return the baselines that this project keeps, by the name that records have for them."""
    known = [(d, e) for d in descriptors().values() for e in d.entries]
    named = {f"{d.selector(e).replace(':', '-')}.toml": d.expected_failures(e) for d, e in known}
    return {name: path for name, path in named.items() if path.is_file()}


def check_owner(given: object, implementations: Sequence[object]) -> None:
    """Make sure that a file of expected failures is given for one implementation. Raises BaselineError."""
    if given and len(implementations) > 1:
        raise BaselineError("--baseline belongs to one implementation; give one --impl with it")


def name_in_records(path: Path) -> str:
    """Return the name of a baseline in records: the file's, or what a file of this project goes by."""
    return next((name for name, own in own_baselines().items() if own == path), path.name)


def load_baseline(path: Path, version: str, profile: str | None, device: str | None = None) -> Baseline:
    """Load the entries of ``path`` that hold for this version, profile and device. Raises BaselineError."""
    try:
        _, entries = read_baseline(path)
    except OSError as err:
        raise BaselineError(
            f"baseline {err}; make one with: stc baseline update SELECTOR --file {shlex.quote(str(path))}"
        ) from err
    active = tuple(_on(e, device) for e in entries if e.applies(version, profile))
    exact: dict[str, Expected] = {}
    for entry in active:
        if entry.case in exact:
            raise BaselineError(f"baseline {path}: {entry.case} is listed twice")
        if not entry.is_glob:
            exact[entry.case] = entry
    return Baseline(path, active, exact)


def _on(entry: Expected, device: str | None) -> Expected:
    """Return the entry without the step ``device`` where that is about another kind of device."""
    if entry.on in ("", kind_of_device(device)):
        return entry
    return replace(entry, steps={step: v for step, v in entry.steps.items() if step != "device"})


def overdue(baseline: Baseline, today: dt.date) -> list[Expected]:
    """Return the entries whose review date has passed."""
    return [e for e in baseline.entries if e.review_by is not None and e.review_by < today]
