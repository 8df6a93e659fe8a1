"""The case of the corpus that a question makes: what is handed over, written into a folder for a worker."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors_conformance.worker.outcome import STEPS
from safetensors_corpus.document import action_faults
from safetensors_corpus.manifest import ROOT_MARK, Case, DirectoryFile, Expectation, Input

KINDS = {"open": "read", "read": "read", "slice": "slice", "write": "write", "index": "index"}
"""Step -> kind of case. The other steps have no inputs that could be made by chance."""
AREAS = {"slice": "slice", "write": "writer", "index": "index"}


def case_from(
    step: str,
    files: Mapping[str, bytes],
    entry: str,
    action: Mapping[str, Any] | None,
    expectation: Mapping[str, Any],
    rules: tuple[str, ...],
    folder: Path,
) -> Case:
    """Write the files into ``folder`` and return the case that hands them over.

    Raises ValueError for a step that is not among ``KINDS`` or an expectation or action that is not in the
    manifest's form, OSError when a file cannot be written.
    """
    if step not in KINDS:
        raise ValueError(f"step {step!r} hands over no input; steps that do: {', '.join(KINDS)}")
    try:
        options = {k: Expectation.from_json(dict(v)) for k, v in expectation.get("options", {}).items()}
        expect = None if options else Expectation.from_json(dict(expectation))
    except (KeyError, TypeError, AttributeError) as err:
        raise ValueError(f"no expectation in the form of the manifest: {type(err).__name__}: {err}") from err
    for why in action_faults(KINDS[step], action) if action is not None else ():
        raise ValueError(f"no action in the form of the manifest: it {why}")
    return Case(
        id=f"{AREAS.get(step, _area(rules))}/fuzzed",
        kind=KINDS[step],
        title="",
        description="",
        rules=tuple(rules),
        level=expectation.get("level", "must"),
        importance="medium",
        features=tuple(expectation.get("features", ())),
        steps=tuple(s for s in STEPS if KINDS.get(s) == KINDS[step]),
        input=_input(step, files, entry, folder),
        action=action,
        budget=None,
        heavy=False,
        choice=expectation.get("choice") if options else None,
        expect=expect,
        options=options,
        smoke=False,
        affects=(),
        source={"kind": "fuzz"},
    )


READ_AREAS = {"FRM": "framing", "HDR": "header", "ENT": "entry", "DTY": "dtype", "SHP": "shape"}
READ_AREAS |= {"OFF": "layout", "MET": "metadata", "DAT": "data"}


def _area(rules: tuple[str, ...]) -> str:
    """Return the area of the corpus that a read case of these rules belongs to."""
    return READ_AREAS.get(rules[0][:3] if rules else "", "framing")


def _input(step: str, files: Mapping[str, bytes], entry: str, folder: Path) -> Input:
    if not files:
        return Input()
    rows = []
    for path, data in sorted(files.items()):
        target = folder / path
        if not target.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"the input's file {path!r} lies outside of its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        # A new file: whoever still has the last one mapped must not see it change.
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        template = path == entry and ROOT_MARK in data
        rows.append(DirectoryFile(target, path, hashlib.sha256(data).hexdigest(), len(data), template))
    opened = next((row for row in rows if row.path == entry), None)
    if opened is None:
        raise ValueError(f"the input has no file {entry!r} to hand over, only {', '.join(sorted(files))}")
    return Input(opened.source, (), opened.sha256, opened.size, tuple(rows) if step == "index" else (), entry)
