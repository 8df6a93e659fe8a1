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
import fnmatch
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from safetensors_corpus.judging.verdicts import SECURITY, VERDICTS, kind_of
from safetensors_reference.source import read_whole

from ..implementations.descriptor import descriptors
from ..worker.device import kind_of_device
from ..worker.outcome import STEPS

MAX_BYTES = 64 << 20
"""Most bytes of a file of expected failures or known disagreements."""
MAX_GLOB_CASES = 20
"""Most cases that one glob may cover."""
UNREPORTED = "unreported"
"""Value of ``issue`` for a security failure that has no public report yet; it then needs a ``why``."""

_KEYS = {"case", "why", "issue", "review_by", "versions", "profile", "since", "on", *STEPS}


class BaselineError(Exception):
    """The baseline cannot be used; the text names the file, the entry and what to do."""


@dataclass(frozen=True)
class Expected:
    """One entry: the verdicts expected of the steps of one case (or of the cases of a glob).

    ``on`` limits what is expected of the step ``device`` to ``cpu`` or ``cuda``.
    """

    case: str
    steps: dict[str, str]
    why: str = ""
    issue: str = ""
    review_by: dt.date | None = None
    versions: str = ""
    profile: str = ""
    on: str = ""

    @property
    def is_glob(self) -> bool:
        """True when the entry names cases by pattern."""
        return any(c in self.case for c in "*?[")

    def covers(self, case_id: str) -> bool:
        """True when the entry speaks of this case. A star never crosses the slash."""
        if not self.is_glob:
            return self.case == case_id
        area, _, name = self.case.partition("/")
        case_area, _, case_name = case_id.partition("/")
        return fnmatch.fnmatchcase(case_area, area) and fnmatch.fnmatchcase(case_name, name)

    def applies(self, version: str, profile: str | None) -> bool:
        """True when the entry holds for this version of the implementation and this profile."""
        if self.profile != (profile or ""):
            return False
        if not self.versions:
            return True
        try:
            return SpecifierSet(self.versions).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False


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
        raw = tomllib.loads(read_whole(path, MAX_BYTES).decode())
    except OSError as err:
        raise BaselineError(
            f"baseline {err}; make one with: stc baseline update SELECTOR --file {shlex.quote(str(path))}"
        ) from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise BaselineError(f"baseline {path}: not readable as TOML ({err}); is it truncated?") from err
    rows = raw.get("expected", [])
    unknown = set(raw) - {"implementation", "expected"}
    if unknown or not isinstance(rows, list):
        raise BaselineError(
            f"baseline {path}: only 'implementation' and [[expected]] are known, not {unknown}"
        )
    entries = [_entry(path, row) for row in rows]
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


def _entry(path: Path, row: Any) -> Expected:
    name = row.get("case") if isinstance(row, dict) else None
    if not isinstance(name, str):
        raise BaselineError(f"baseline {path}: an entry has no 'case'")
    where = f"baseline {path}, {name}"
    unknown = set(row) - _KEYS
    if unknown:
        raise BaselineError(f"{where}: unknown keys {', '.join(sorted(unknown))}")
    steps: dict[str, str] = {step: row[step] for step in STEPS if step in row}
    if not steps:
        raise BaselineError(f'{where}: says no verdict; write e.g. read = "wrong-accept"')
    for step, verdict in steps.items():
        if not isinstance(verdict, str) or kind_of(verdict) not in VERDICTS or verdict == "pass":
            raise BaselineError(f"{where}: {step} = {verdict!r} is no failing verdict")
    review_by = row.get("review_by")
    if review_by is not None and not isinstance(review_by, dt.date):
        raise BaselineError(f"{where}: review_by must be a date like 2027-06-01")
    entry = Expected(
        name,
        steps,
        str(row.get("why", "")),
        str(row.get("issue", "")),
        review_by,
        str(row.get("versions", "")),
        str(row.get("profile", "")),
        str(row.get("on", "")),
    )
    if entry.on and (entry.on not in ("cpu", "cuda") or "device" not in steps):
        raise BaselineError(f'{where}: on = {entry.on!r} must be "cpu" or "cuda", beside a verdict of device')
    _check_versions(where, entry)
    _check_security(where, entry)
    return entry


def _check_versions(where: str, entry: Expected) -> None:
    try:
        SpecifierSet(entry.versions)
    except InvalidSpecifier as err:
        raise BaselineError(f"{where}: versions = {entry.versions!r} is no version specifier") from err


def _check_security(where: str, entry: Expected) -> None:
    """One line must not silence an audit: security entries name an issue and a date to look again."""
    if not SECURITY.intersection(entry.steps.values()):
        return
    linked = entry.issue.startswith("https://")
    explained = entry.issue == UNREPORTED and bool(entry.why.strip())
    if not (linked or explained) or entry.review_by is None:
        raise BaselineError(
            f"{where}: a security verdict needs a review_by date and an issue: "
            f"a URL, or {UNREPORTED!r} with a why"
        )


def overdue(baseline: Baseline, today: dt.date) -> list[Expected]:
    """Return the entries whose review date has passed."""
    return [e for e in baseline.entries if e.review_by is not None and e.review_by < today]
