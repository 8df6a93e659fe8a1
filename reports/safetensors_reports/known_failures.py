"""What is known about implementations: expected failures (baselines) and known disagreements (triage files).

Both are TOML files with one table per entry, which may be preceded by defaults for ``why``, ``issue`` and
``review_by``::

    why = "not analysed yet"

    [[expected]]                          # in a baseline
    case = "layout/hole-between-two"      # a case id, or a glob within one area
    read = "wrong-accept"                 # the verdict, per step
    issue = "https://github.com/me/mylib/issues/1"   # a URL, or "unreported" with a why
    review_by = 2027-03-01

    [[known]]                             # in a triage file
    signature = "HDR_DUP_KEY*: accept mylib; reject reference"   # as ``stc diff`` prints it; * and ? work
    issue = "https://github.com/me/mylib/issues/2"
    review_by = 2027-03-01
    between = ["mylib", "reference"]      # only for runs that compare exactly these implementations

A baseline is strict in both directions: the run fails if a listed failure passes, fails differently or does
not run, or if an entry matches no case. ``safetensors_conformance.run.baseline_update`` rewrites baselines.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from safetensors_corpus.judging.verdicts import SECURITY
from safetensors_corpus.steps import STEPS
from safetensors_corpus.typed import read_toml, typed
from safetensors_reference.text import shown

from .differences.report import Status, TriageState
from .differences.signatures import Signature
from .record.file import VERDICT
from .text import affects_version, visible

SHIPPED_TRIAGE = Path(__file__).with_name("triage.toml")
MAX_BYTES = 64 << 20
MAX_VERSIONS = 1000
UNREPORTED = "unreported"
"""Value of ``issue`` for an entry without a public report; the entry then also needs a ``why``."""

_STEPS = "a step"
"""Key that collects the steps of an entry during decoding; it does not occur in files."""


class KnownError(Exception):
    """A baseline or triage file cannot be used; the message names the file, the entry and the fix."""


class _Entry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields that both kinds of entry share, and their defaults."""

    why: str = ""
    issue: str = ""
    review_by: dt.date | None = None

    @classmethod
    def decode(cls, row: dict[str, Any]) -> Self:
        return typed(row, cls)

    def check(self) -> None:
        """Check an entry to which the defaults were applied. Raises ValueError."""

    def check_issue(self, what: str) -> None:
        linked = self.issue.startswith(("https://", "http://"))
        explained = self.issue == UNREPORTED and bool(self.why.strip())
        if not (linked or explained) or self.review_by is None:
            raise ValueError(
                f"{what} needs a review_by date and an issue: a URL, or {UNREPORTED!r} with a why"
            )

    def is_overdue(self, today: dt.date) -> bool:
        return self.review_by is not None and self.review_by < today


Entry = TypeVar("Entry", bound=_Entry)


class ExpectedFailure(_Entry, frozen=True, forbid_unknown_fields=True):
    """Verdicts expected for the steps of one case, or of all cases that match a glob pattern.

    ``on`` limits the expectation for the ``device`` step to ``cpu`` or ``cuda``.
    """

    case: str
    steps: dict[str, str] = field(name=_STEPS)
    versions: str = ""
    profile: str = ""
    on: str = ""
    since: Any = None

    @classmethod
    def decode(cls, row: dict[str, Any]) -> Self:
        steps = {step: row[step] for step in STEPS if step in row}
        others = {key: value for key, value in row.items() if key not in STEPS}
        return typed({**others, "case": visible(row["case"], 2000), _STEPS: steps}, cls)

    @property
    def is_glob(self) -> bool:
        return any(char in self.case for char in "*?[")

    def covers(self, case_id: str) -> bool:
        """Return whether the entry applies to a case. A star does not match a slash."""
        parts, globs = case_id.split("/"), self.case.split("/")
        return len(parts) == len(globs) and all(map(fnmatch.fnmatchcase, parts, globs))

    def applies(self, version: str, profile: str | None) -> bool:
        return self.profile == (profile or "") and affects_version(self.versions, version)

    def for_device(self, kind: str) -> ExpectedFailure:
        """Return the entry for runs on this kind of device, or for runs without a device."""
        others = {step: verdict for step, verdict in self.steps.items() if step != "device"}
        return self if self.on in ("", kind) else replace(self, steps=others)

    def check(self) -> None:
        if not self.steps:
            raise ValueError('has no verdict; write, for example, read = "wrong-accept"')
        for step, verdict in self.steps.items():
            if verdict == "pass" or not re.fullmatch(VERDICT, verdict):
                raise ValueError(f"{step} = {verdict!r} is not a failing verdict")
        if self.on and (self.on not in ("cpu", "cuda") or "device" not in self.steps):
            raise ValueError(
                f'on = {self.on!r}: this must be "cpu" or "cuda", and the entry needs a verdict for device'
            )
        try:
            # the value may contain numbers that are too long for Python to convert
            if len(self.versions) > MAX_VERSIONS:
                raise InvalidSpecifier
            SpecifierSet(self.versions)
        except InvalidSpecifier as err:
            raise ValueError(f"versions = {shown(self.versions)} is not a version specifier") from err
        # One line must not silence an audit, so security entries need an issue and a review date.
        if SECURITY & set(self.steps.values()):
            self.check_issue("a security verdict")


class KnownDisagreement(_Entry, frozen=True, forbid_unknown_fields=True):
    """A signature to silence in runs that compare exactly the implementations in ``between``, or in all runs.

    Older files have a ``reason`` in each entry, and a ``why`` only in unreported entries.
    """

    signature: str
    reason: str = ""
    between: frozenset[str] = frozenset()

    def covers(self, signature: str) -> bool:
        """Return whether the pattern matches a signature. Brackets are literal."""
        return fnmatch.fnmatchcase(signature, self.signature.replace("[", "[[]"))

    def check(self) -> None:
        if set(self.signature) <= set("*? "):
            raise ValueError("this pattern matches everything; name the known signatures")
        if not (self.reason or self.why).strip():
            raise ValueError("needs a 'why'")
        self.check_issue("an entry")


class _BaselineHead(_Entry, frozen=True, forbid_unknown_fields=True):
    implementation: str = ""
    inconsistent: tuple[str, ...] = ()


class Expectation(NamedTuple):
    """Whether a verdict is the one that the baseline lists, and the message about it."""

    met: bool
    message: str


@dataclass(frozen=True)
class Baseline:
    """The entries of one file that apply to one run, and the choices with contradictory answers."""

    path: Path
    entries: tuple[ExpectedFailure, ...] = ()
    inconsistent: frozenset[str] = frozenset()

    @cached_property
    def _exact(self) -> dict[str, ExpectedFailure]:
        return {entry.case: entry for entry in self.entries if not entry.is_glob}

    @cached_property
    def _globs(self) -> list[ExpectedFailure]:
        return [entry for entry in self.entries if entry.is_glob]

    def find(self, case_id: str) -> ExpectedFailure | None:
        """Return the entry for a case. An exact entry takes precedence over a glob."""
        globs = (entry for entry in self._globs if entry.covers(case_id))
        return self._exact.get(case_id) or next(globs, None)

    def assess(self, case_id: str, step: str, verdict: str) -> Expectation | None:
        """Decide whether the verdict was expected. Returns None if no entry lists this step of the case."""
        entry = self.find(case_id)
        if entry is None or (listed := entry.steps.get(step)) is None:
            return None
        if listed == verdict:
            about = ", ".join(text for text in (entry.why, entry.issue) if text)
            return Expectation(True, f"known failure, {listed}: {about or 'no reason given'}")
        what = "passes now" if verdict == "pass" else f"is {verdict} now"
        return Expectation(
            False,
            f"{case_id} · {step}: the baseline lists {listed}, but it {what}\n"
            f"  remove or correct the entry in {self.path}, or rewrite it with --update-baseline",
        )

    def stale(self, case_ids: Iterable[str]) -> list[str]:
        ids = set(case_ids)
        lost = [name for name in self._exact if name not in ids]
        lost += [glob.case for glob in self._globs if not any(map(glob.covers, ids))]
        return [f"{name}: matches no case in the corpus; remove the entry" for name in lost]

    def overdue(self, today: dt.date) -> list[ExpectedFailure]:
        return [entry for entry in self.entries if entry.is_overdue(today)]


class Triage(NamedTuple):
    """The entries of one triage file that apply to one run."""

    entries: tuple[KnownDisagreement, ...] = ()

    def weigh(self, signatures: Iterable[Signature], today: dt.date) -> dict[str, TriageState]:
        """Return signature -> state. A current entry takes precedence over an overdue one."""
        found: dict[str, TriageState] = {}
        current_first = sorted(self.entries, key=lambda entry: entry.is_overdue(today))
        for text in _graded(signatures):
            if entry := next((entry for entry in current_first if entry.covers(text)), None):
                status: Status = "expired" if entry.is_overdue(today) else "known"
                why = entry.reason or entry.why
                found[text] = TriageState(status, why, entry.issue, str(entry.review_by))
        return found

    def unmatched(self, signatures: Iterable[Signature]) -> list[str]:
        texts = _graded(signatures)
        return [entry.signature for entry in self.entries if not any(map(entry.covers, texts))]

    def is_known(self, signature: str, today: dt.date) -> bool:
        return any(entry.covers(signature) and not entry.is_overdue(today) for entry in self.entries)


def _graded(signatures: Iterable[Signature]) -> list[str]:
    return [signature.text for signature in signatures if signature.sort != "choice"]


BaselineFile = tuple[str, tuple[ExpectedFailure, ...], tuple[str, ...]]
"""The name of the implementation, the entries, and the choices with known contradictions."""


def read_baseline(path: Path, *, complete: bool = True) -> BaselineFile:
    """Read a baseline. Raises KnownError and OSError.

    If ``complete`` is false, entries may lack fields that ``ExpectedFailure.check`` requires.
    """
    keys = ("expected", "case")
    head, entries = _read(f"baseline {path}", path, keys, ExpectedFailure, _BaselineHead, complete=complete)
    return head.implementation, tuple(entries), head.inconsistent


def existing_baseline(path: Path) -> BaselineFile:
    """Read a baseline, which must exist. Raises KnownError."""
    try:
        return read_baseline(path)
    except OSError as err:
        raise KnownError(
            f"baseline {err}; create one with: stc baseline update SELECTOR --file {shlex.quote(str(path))}"
        ) from err


def load_baseline(path: Path, version: str, profile: str | None, device: str | None = None) -> Baseline:
    """Load the entries that apply to this version, profile and device. Raises KnownError."""
    _, entries, inconsistent = existing_baseline(path)
    active = tuple(
        entry.for_device(kind_of_device(device)) for entry in entries if entry.applies(version, profile)
    )
    for case, number in Counter(entry.case for entry in active if not entry.is_glob).items():
        if number > 1:
            raise KnownError(f"baseline {path}: {case} is listed twice")
    return Baseline(path, active, frozenset(inconsistent))


def kind_of_device(name: str | None) -> str:
    return (name or "").partition(":")[0]


def load_triage(path: Path, names: Sequence[str]) -> Triage:
    """Read the entries that apply to a run with implementations of these names. Raises KnownError."""
    try:
        _, entries = _read(f"triage file {path}", path, ("known", "signature"), KnownDisagreement, _Entry)
    except OSError as err:
        raise KnownError(str(err)) from err
    return Triage(tuple(e for e in entries if e.between in (frozenset(), frozenset(names))))


Head = TypeVar("Head", bound=_Entry)


def _read(
    label: str,
    path: Path,
    keys: tuple[str, str],
    kind: type[Entry],
    head_type: type[Head],
    *,
    complete: bool = True,
) -> tuple[Head, list[Entry]]:
    """Read a list with its defaults. ``keys`` are the names of the table and of an entry's first field."""
    table, key = keys
    try:
        raw = read_toml(path, MAX_BYTES)
    except ValueError as err:
        raise KnownError(f"{label}: cannot be read as TOML ({err}); it may be truncated") from err
    rows = raw.pop(table, [])
    try:
        head = typed(raw, head_type)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{table} must be an array of tables")
    except ValueError as err:
        known = ", ".join(f"{name!r}" for name in head_type.__struct_fields__)
        raise KnownError(f"{label}: {err}; the known keys are {known} and [[{table}]]") from err
    entries = []
    for row in rows:
        name = row.get(key)
        if not isinstance(name, str):
            raise KnownError(f"{label}: an entry has no {key!r}")
        try:
            own = kind.decode(row)
            entry = replace(
                own,
                # These strings are shown in many places that do not escape them.
                why=visible(own.why or head.why, 2000),
                issue=visible(own.issue or head.issue, 2000),
                review_by=own.review_by or head.review_by,
            )
            if complete:
                entry.check()
        except ValueError as err:
            raise KnownError(f"{label}, {visible(name, 100)}: {err}") from err
        entries.append(entry)
    return head, entries
