"""Models and a reader for files that list expected failures; each file applies to a single implementation.

``safetensors_conformance.run.baseline`` documents the format and applies the entries to runs.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from safetensors_corpus.judging.verdicts import SECURITY, VERDICTS, kind_of
from safetensors_corpus.steps import STEPS
from safetensors_corpus.typed import typed
from safetensors_reference.rules.faults import shown
from safetensors_reference.source import read_whole

from .text import visible
from .versions import affects_version

MAX_BYTES = 64 << 20
MAX_VERSIONS = 1000
UNREPORTED = "unreported"
"""Value of ``issue`` for a security failure without a public report; the entry then also needs a ``why``."""

_STEPS = "a step"
"""Key that collects the steps of an entry during decoding; it does not occur in files."""


class BaselineError(Exception):
    """A baseline cannot be used; the message names the file, the entry and the fix."""


class ExpectedFailure(Struct, frozen=True, forbid_unknown_fields=True):
    """Verdicts expected for the steps of one case, or of all cases that match a glob pattern.

    ``on`` limits the expectation for the ``device`` step to ``cpu`` or ``cuda``.
    """

    case: str
    steps: dict[str, str] = field(name=_STEPS)
    why: str = ""
    issue: str = ""
    review_by: dt.date | None = None
    versions: str = ""
    profile: str = ""
    on: str = ""
    since: Any = None

    @property
    def is_glob(self) -> bool:
        return "*" in self.case or "?" in self.case or "[" in self.case

    def covers(self, case_id: str) -> bool:
        """Return whether the entry applies to a case. A star does not match a slash."""
        if not self.is_glob:
            return self.case == case_id
        area, _, name = self.case.partition("/")
        case_area, _, case_name = case_id.partition("/")
        return fnmatch.fnmatchcase(case_area, area) and fnmatch.fnmatchcase(case_name, name)

    def applies(self, version: str, profile: str | None) -> bool:
        return self.profile == (profile or "") and affects_version(self.versions, version)


class BaselineDefaults(Struct, frozen=True, forbid_unknown_fields=True):
    """Defaults for the entries of a file that do not set these fields."""

    why: str = ""
    issue: str = ""
    review_by: dt.date | None = None

    def apply_to(self, entry: ExpectedFailure) -> ExpectedFailure:
        return replace(
            entry,
            why=entry.why or self.why,
            issue=entry.issue or self.issue,
            review_by=entry.review_by or self.review_by,
        )


class BaselineFile(NamedTuple):
    """Content of a baseline file; ``inconsistent`` lists choices with known contradictions."""

    implementation: str
    entries: tuple[ExpectedFailure, ...]
    inconsistent: tuple[str, ...]


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_whole(path, MAX_BYTES).decode())
    except RecursionError as err:
        raise ValueError("nested too deeply") from err


def read_baseline(path: Path) -> BaselineFile:
    try:
        raw = read_toml(path)
    except ValueError as err:
        raise BaselineError(f"baseline {path}: cannot be read as TOML ({err}); it may be truncated") from err
    rows = raw.pop("expected", [])
    try:
        name = typed(raw.pop("implementation", ""), str)
        inconsistent = typed(raw.pop("inconsistent", []), tuple[str, ...])
        defaults = typed(raw, BaselineDefaults)
        if not isinstance(rows, list):
            raise ValueError("expected must be an array of tables: [[expected]]")
    except ValueError as err:
        known = (
            "the known keys are 'implementation', 'inconsistent', 'why', 'issue', 'review_by' and "
            "[[expected]]"
        )
        raise BaselineError(f"baseline {path}: {err}; {known}") from err
    return BaselineFile(name, tuple(_entry(path, row, defaults) for row in rows), inconsistent)


def _entry(path: Path, row: Any, defaults: BaselineDefaults) -> ExpectedFailure:
    name = row.get("case") if isinstance(row, dict) else None
    if not isinstance(name, str):
        raise BaselineError(f"baseline {path}: an entry has no 'case'")
    try:
        steps = {step: row[step] for step in STEPS if step in row}
        own = typed({**{k: v for k, v in row.items() if k not in STEPS}, _STEPS: steps}, ExpectedFailure)
        entry = defaults.apply_to(own)
        _check(entry)
        # These strings are shown in many places that do not escape them.
        entry = replace(entry, **{k: visible(getattr(entry, k), 2000) for k in ("case", "why", "issue")})
    except ValueError as err:
        raise BaselineError(f"baseline {path}, {name}: {err}") from err
    return entry


def _check(entry: ExpectedFailure) -> None:
    if not entry.steps:
        raise ValueError('has no verdict; write for example read = "wrong-accept"')
    for step, verdict in entry.steps.items():
        if kind_of(verdict) not in VERDICTS or verdict == "pass":
            raise ValueError(f"{step} = {verdict!r} is not a failing verdict")
    if entry.on and (entry.on not in ("cpu", "cuda") or "device" not in entry.steps):
        raise ValueError(f'on = {entry.on!r} must be "cpu" or "cuda" and requires a verdict for device')
    try:
        # the value may contain numbers that are too long for Python to convert
        if len(entry.versions) > MAX_VERSIONS:
            raise InvalidSpecifier
        SpecifierSet(entry.versions)
    except InvalidSpecifier as err:
        raise ValueError(f"versions = {shown(entry.versions)} is not a version specifier") from err
    # One line must not silence an audit, so security entries need an issue and a review date.
    linked = entry.issue.startswith("https://")
    explained = entry.issue == UNREPORTED and bool(entry.why.strip())
    if SECURITY & set(entry.steps.values()) and (not (linked or explained) or entry.review_by is None):
        raise ValueError(
            f"a security verdict needs a review_by date and an issue, which is a URL or {UNREPORTED!r} "
            "with a why"
        )
