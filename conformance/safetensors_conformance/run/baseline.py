"""Baselines: the known, expected failures of one implementation, which are strict in both directions.

The run fails if a listed failure passes, fails differently or does not run, or if an entry matches no case.
An update from a full run keeps comments, reasons and everything that is still true.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from tomlkit.items import AoT, Table

from safetensors_corpus.judging.verdicts import SECURITY, fails
from safetensors_reference.source import read_whole
from safetensors_reference.writing.atomic import write_file
from safetensors_reports.known import (
    MAX_BYTES,
    BaselineFile,
    ExpectedFailure,
    KnownError,
    read_baseline,
)

from ..implementations.descriptor import descriptors
from ..outcome import STEPS

DAYS_TO_REVIEW = 90
"""Days until the review date of a newly created baseline."""
NEW = """\
# Entries without their own why, issue or review_by use these defaults.
# After the review_by date, every run fails until you review the entries and set a new date.
implementation = ""
why = "failed on {today}, when this list was created; not analysed yet"
issue = "unreported"
review_by = {review_by}
"""


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
        exact = self._exact.get(case_id)
        if exact is not None:
            return exact
        return next((entry for entry in self._globs if entry.covers(case_id)), None)

    def assess(self, case_id: str, step: str, verdict: str) -> Expectation | None:
        """Decide whether the verdict was expected. Returns None if no entry lists this step of the case."""
        entry = self.find(case_id)
        listed = None if entry is None else entry.steps.get(step)
        if entry is None or listed is None:
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


def own_baselines() -> dict[str, Path]:
    known = [(d, e) for d in descriptors().values() for e in d.entries]
    named = {f"{d.selector(e).replace(':', '-')}.toml": d.expected_failures(e) for d, e in known}
    return {name: path for name, path in named.items() if path.is_file()}


def check_baseline_option(given: Path, implementations: Sequence[object], *, read: bool = True) -> None:
    """Check the ``--baseline`` file. If ``read`` is false, the run only writes it. Raises KnownError."""
    if len(implementations) > 1:
        raise KnownError("--baseline applies to a single implementation; give exactly one --impl with it")
    if read:
        _read(given)
        return
    if given.exists():
        _document(given)
    try:
        given.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=given.parent):
            pass
    except OSError as err:
        raise _unwritable(given, err) from err


def _unwritable(path: Path, err: OSError) -> KnownError:
    return KnownError(f"baseline {path}: cannot be written ({err.strerror or err})")


def name_in_records(path: Path) -> str:
    """Return the name that records use for a baseline. Baselines of this project have fixed names."""
    return next((name for name, own in own_baselines().items() if own == path), path.name)


def load_baseline(path: Path, version: str, profile: str | None, device: str | None = None) -> Baseline:
    """Load the entries that apply to this version, profile and device. Raises KnownError."""
    _, entries, inconsistent = _read(path)
    active = tuple(
        entry.for_device(kind_of_device(device)) for entry in entries if entry.applies(version, profile)
    )
    for case, number in Counter(entry.case for entry in active if not entry.is_glob).items():
        if number > 1:
            raise KnownError(f"baseline {path}: {case} is listed twice")
    return Baseline(path, active, frozenset(inconsistent))


def _read(path: Path) -> BaselineFile:
    try:
        return read_baseline(path)
    except OSError as err:
        raise KnownError(
            f"baseline {err}; create one with: stc baseline update SELECTOR --file {shlex.quote(str(path))}"
        ) from err


def kind_of_device(name: str | None) -> str:
    return (name or "").partition(":")[0]


def overdue_entries(baseline: Baseline, today: dt.date) -> list[ExpectedFailure]:
    return [entry for entry in baseline.entries if entry.is_overdue(today)]


def failing_steps(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
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
    inconsistent: Sequence[str] = (),
) -> tuple[int, int, int]:
    """Rewrite ``path`` to list these failures. Returns the numbers of kept, added and removed entries.

    Globs, entries for other profiles and entries with ``versions`` are kept. Expectations for the ``device``
    step are kept unless the run used a device of that kind. In a file without default values, new security
    entries lack an issue and a review date, and the baseline is rejected until someone adds them.
    """
    today = dt.datetime.now(dt.UTC).date()
    review_by = today + dt.timedelta(DAYS_TO_REVIEW)
    document = (
        _document(path) if path.exists() else tomlkit.parse(NEW.format(today=today, review_by=review_by))
    )
    document["implementation"] = implementation
    document.pop("inconsistent", None)
    if inconsistent:
        document["inconsistent"] = sorted(inconsistent)
    has_defaults = bool(document.get("issue") and document.get("review_by"))
    kept = tomlkit.aot()
    done: set[str] = set()
    removed = 0
    for entry in document.get("expected", tomlkit.aot()):
        case = str(entry["case"])
        mine = str(entry.get("profile", "")) == (profile or "")
        if mine and any(c in case for c in "*?["):
            same = {step: str(entry[step]) for step in STEPS if step in entry}
            done.update(
                name for name in failing if ExpectedFailure(case, {}).covers(name) and failing[name] == same
            )
        elif mine and (case in failing or ("versions" not in entry and _other_device(entry, device))):
            _set_steps(entry, failing.get(case, {}), device)
            done.add(case)
        elif mine and "versions" not in entry:
            removed += 1
            continue
        kept.append(entry)
    added = [case for case in sorted(failing) if case not in done]
    for case in added:
        _append(kept, case, failing[case], profile, device, bare=has_defaults)
    document.pop("expected", None)  # added again last, after any new top-level keys
    if kept:
        document["expected"] = kept
    # tomlkit adds a blank line whenever a table moves to another list, so reduce them to one.
    text = re.sub(r"\n{3,}", "\n\n", tomlkit.dumps(document)).rstrip("\n") + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, [text.encode()])
    except OSError as err:
        raise _unwritable(path, err) from err
    return len(kept) - len(added), len(added), removed


def _other_device(entry: Table, device: str | None) -> bool:
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
                entry.pop("on", None)  # the verdict is the same on every kind of device
            entry[step] = steps[step]
        elif step in entry and not (step == "device" and other):
            del entry[step]
    if "device" not in entry:
        entry.pop("on", None)


def _append(
    entries: AoT, case: str, steps: Mapping[str, str], profile: str | None, device: str | None, *, bare: bool
) -> None:
    """Add an entry. ``bare`` means that the file has defaults for the reason, issue and review date."""
    table = tomlkit.table()
    table["case"] = case
    for step, verdict in steps.items():
        table[step] = verdict
    if "device" in steps:
        table["on"] = kind_of_device(device)
    if profile:
        table["profile"] = profile
    if not bare:
        table["why"] = ""
    if not bare and SECURITY.intersection(steps.values()):
        table["issue"] = ""
        table.add(tomlkit.comment("review_by = YYYY-MM-DD"))
    table.add(tomlkit.nl())
    entries.append(table)


def _document(path: Path) -> tomlkit.TOMLDocument:
    """Read a file that will be rewritten. Its entries may still lack reasons. Raises KnownError."""
    try:
        read_baseline(path, complete=False)  # refuse dotted keys, on which tomlkit spends minutes
        document = tomlkit.parse(read_whole(path, MAX_BYTES).decode())
        entries = document.get("expected", tomlkit.aot())
    except (OSError, ValueError, RecursionError) as err:
        raise KnownError(f"baseline {path}: not readable as TOML ({err}); is it truncated?") from err
    if not isinstance(entries, AoT) or not all(isinstance(entry.get("case"), str) for entry in entries):
        raise KnownError(f"baseline {path}: each entry must be an [[expected]] table with a 'case'")
    return document


def due_by(path: Path) -> str:
    return str(_document(path).get("review_by", ""))


def unexplained(path: Path) -> list[str]:
    document = _document(path)
    out = []
    for entry in document.get("expected", ()):
        verdicts = {str(entry[s]) for s in STEPS if s in entry}
        said = all(entry.get(key) or document.get(key) for key in ("issue", "review_by"))
        if SECURITY & verdicts and not said:
            out.append(str(entry["case"]))
    return out
