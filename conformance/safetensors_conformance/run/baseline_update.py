"""Rewriting a baseline from a full run. Comments, reasons and everything that is still true are kept."""

from __future__ import annotations

import datetime as dt
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT, Table

from safetensors_corpus.judging.verdicts import SECURITY, fails
from safetensors_reference.source import read_whole
from safetensors_reference.writing.atomic import write_file
from safetensors_reports.known_failures import (
    MAX_BYTES,
    ExpectedFailure,
    KnownError,
    existing_baseline,
    kind_of_device,
    read_baseline,
)

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


def check_baseline_option(given: Path, implementations: Sequence[object], *, read: bool = True) -> None:
    """Check the ``--baseline`` file. If ``read`` is false, the run only writes it. Raises KnownError."""
    if len(implementations) > 1:
        raise KnownError("--baseline applies to a single implementation; give exactly one --impl with it")
    if read:
        existing_baseline(given)
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
    new = NEW.format(today=today, review_by=review_by)
    document = _document(path) if path.exists() else tomlkit.parse(new)
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
        if SECURITY.intersection(steps.values()):
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
