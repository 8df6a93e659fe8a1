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
Rewritten from a full run, a file keeps comments, reasons and everything still true.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tomlkit
from msgspec.structs import replace
from tomlkit.items import AoT, Table

from safetensors_corpus.judging.verdicts import SECURITY, fails
from safetensors_reference.source import read_whole
from safetensors_reports.baseline import MAX_BYTES, BaselineError, Expected, read_baseline

from ..implementations.descriptor import descriptors
from ..worker.outcome import STEPS

__all__ = [
    "Baseline",
    "BaselineError",
    "check_owner",
    "failing_steps",
    "load_baseline",
    "name_in_records",
    "overdue",
    "own_baselines",
    "unexplained",
    "update",
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
        return next((entry for entry in self._globs if entry.covers(case_id)), None)

    @cached_property
    def _globs(self) -> list[Expected]:
        return [entry for entry in self.entries if entry.is_glob]

    def stale(self, case_ids: Iterable[str]) -> list[str]:
        """Return a complaint for each entry that covers no case, or too many."""
        ids = set(case_ids)
        out = []
        for entry in self.entries:
            covered = sum(map(entry.covers, ids)) if entry.is_glob else int(entry.case in ids)
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


def kind_of_device(name: str | None) -> str:
    """Return ``cpu`` or ``cuda``, empty for no device."""
    return (name or "").partition(":")[0]


def _on(entry: Expected, device: str | None) -> Expected:
    """Return the entry without the step ``device`` where that is about another kind of device."""
    if entry.on in ("", kind_of_device(device)):
        return entry
    return replace(entry, steps={step: v for step, v in entry.steps.items() if step != "device"})


def overdue(baseline: Baseline, today: dt.date) -> list[Expected]:
    """Return the entries whose review date has passed."""
    return [e for e in baseline.entries if e.review_by is not None and e.review_by < today]


def failing_steps(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return case -> step -> verdict for the failing rows of a run; harness errors are no expectations."""
    out: dict[str, dict[str, str]] = {}
    for row in rows:
        if fails(row["verdict"]) and row["verdict"] != "harness-error":
            out.setdefault(row["case"], {})[row["step"]] = row["verdict"]
    return out


def update(
    path: Path,
    implementation: str,
    failing: Mapping[str, Mapping[str, str]],
    profile: str | None = None,
    device: str | None = None,
) -> tuple[int, int, int]:
    """Rewrite ``path`` so that it lists exactly ``failing``. Returns (kept, added, removed) entries.

    Entries that are still true keep their comments and reasons. Globs, and entries for other profiles or for
    a range of versions, are left as they are; delete them by hand. What is expected of the step ``device``
    stays unless the run was on a device of that kind. New security entries lack an issue and a review date
    until someone has looked: the baseline is refused until then.
    """
    document = _document(path) if path.exists() else tomlkit.document()
    document["implementation"] = implementation
    kept = tomlkit.aot()
    done: set[str] = set()
    removed = 0
    for entry in document.get("expected", tomlkit.aot()):
        case = str(entry["case"])
        mine = str(entry.get("profile", "")) == (profile or "")
        if mine and any(c in case for c in "*?["):
            done.update(name for name in failing if Expected(case, {}).covers(name))
        elif mine and (case in failing or ("versions" not in entry and _other_device(entry, device))):
            _set_steps(entry, failing.get(case, {}), device)
            done.add(case)
        elif mine and "versions" not in entry:
            removed += 1
            continue
        kept.append(entry)
    added = [case for case in sorted(failing) if case not in done]
    for case in added:
        _append(kept, case, failing[case], profile, device)
    document["expected"] = kept
    temporary = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    # tomlkit adds a blank line whenever a table is moved to another list; one is enough.
    text = re.sub(r"\n{3,}", "\n\n", tomlkit.dumps(document)).rstrip("\n") + "\n"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return len(kept) - len(added), len(added), removed


def _other_device(entry: Table, device: str | None) -> bool:
    """Tell whether an entry expects something of a device that the run was not on."""
    if "device" not in entry:
        return False
    return device is None or str(entry.get("on", "")) not in ("", kind_of_device(device))


def _set_steps(entry: Table, steps: Mapping[str, str], device: str | None) -> None:
    other = _other_device(entry, device)
    for step in STEPS:
        if step in steps:
            if step == "device" and not (other and str(entry[step]) == steps[step]):
                entry["on"] = kind_of_device(device)
            elif step == "device":
                entry.pop("on", None)  # it is the same on every kind
            entry[step] = steps[step]
        elif step in entry and not (step == "device" and other):
            del entry[step]
    if "device" not in entry:
        entry.pop("on", None)


def _append(
    entries: AoT, case: str, steps: Mapping[str, str], profile: str | None, device: str | None
) -> None:
    table = tomlkit.table()
    table["case"] = case
    for step, verdict in steps.items():
        table[step] = verdict
    if "device" in steps:
        table["on"] = kind_of_device(device)
    if profile:
        table["profile"] = profile
    table["why"] = ""
    if SECURITY.intersection(steps.values()):
        table["issue"] = ""
        table.add(tomlkit.comment("review_by = YYYY-MM-DD"))
    table.add(tomlkit.nl())
    entries.append(table)


def _document(path: Path) -> tomlkit.TOMLDocument:
    return tomlkit.parse(read_whole(path, MAX_BYTES).decode())


def unexplained(path: Path) -> list[str]:
    """Return the cases of security entries that still lack an issue or a review date."""
    document = _document(path)
    out = []
    for entry in document.get("expected", ()):
        verdicts = {str(entry[s]) for s in STEPS if s in entry}
        if SECURITY & verdicts and not (entry.get("issue") and entry.get("review_by")):
            out.append(str(entry["case"]))
    return out
