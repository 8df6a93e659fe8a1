"""Rewriting a baseline from a full run, keeping comments, reasons and everything still true."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT, Table

from safetensors_corpus.judging.verdicts import SECURITY, fails
from safetensors_reference.source import read_whole
from safetensors_reports.baseline import MAX_BYTES, Expected

from ..worker.device import kind_of_device
from ..worker.outcome import STEPS


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
