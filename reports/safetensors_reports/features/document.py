"""``features.json``: the features of all programs by version, and the page that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, to_builtins

from safetensors_corpus import Manifest
from safetensors_corpus.typed import MisfitError, typed
from safetensors_reference.source import read_whole

from ..audit.inputs import AuditError
from ..history.ledger import MAX_LEDGER
from ..templates import render
from ..text import is_prerelease, label_key, version_key, visible
from .observed import FeatureRun, State
from .table import FEATURES

JSON, PAGE = "features.json", "features.md"
FORMAT: Final = 1


class FeatureRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A feature, with the cases that a program must pass to support it."""

    id: str
    title: str
    group: str
    cases: tuple[str, ...]


class FeatureCell(Struct, frozen=True, forbid_unknown_fields=True):
    """One feature of one program.

    Attributes:
        state: State in the newest version.
        first: For ``yes``, the first version of the latest unbroken series of tested versions that support
            the feature; otherwise the newest version that was tested.
        after: For ``yes``, the newest version before ``first`` that does not support the feature; empty if
            no such version was tested.
        cases: The cases that the program ran.
    """

    state: State
    first: str
    after: str
    cases: tuple[str, ...]


class EntryFeatures(Struct, frozen=True, forbid_unknown_fields=True):
    """The features of one entry point; ``versions`` are the tested versions, oldest first.

    A feature has no cell if no run tested it on the program.
    """

    program: str
    entry: str
    kind: str
    versions: tuple[str, ...]
    cells: dict[str, FeatureCell]

    def has(self, features: Iterable[FeatureRow]) -> bool:
        return any(feature.id in self.cells for feature in features)

    def supported(self, prefix: str) -> int:
        """Return the number of supported features with ids that begin with ``prefix``."""
        return sum(name.startswith(prefix) and cell.state == "yes" for name, cell in self.cells.items())

    def mark(self, feature: str) -> str:
        """Return the text of a cell: ``0.7.0``, ``≤ 0.3.0``, ``in 0.4.2`` or ``no``; empty without a cell."""
        cell = self.cells.get(feature)
        if cell is None or cell.state != "yes":
            return cell.state if cell is not None else ""
        if len(self.versions) == 1:
            return f"in {cell.first}"
        return cell.first if cell.after else f"≤ {cell.first}"


class FeatureDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """Features by version: the observed runs, and the table that follows from them."""

    schema: Literal[1]
    features: tuple[FeatureRow, ...]
    table: tuple[EntryFeatures, ...]
    runs: tuple[FeatureRun, ...]

    @property
    def text(self) -> str:
        """The document as JSON, with one line for each feature, program and run."""
        parts = to_builtins(self)
        lists = [
            f'"{name}": [\n'
            + ",\n".join(json.dumps(row, separators=(",", ":")) for row in parts[name])
            + "\n]"
            for name in ("features", "table", "runs")
        ]
        return ",\n".join([f'{{"schema": {self.schema}', *lists]) + "}\n"

    @property
    def groups(self) -> dict[str, list[FeatureRow]]:
        return {name: list(rows) for name, rows in groupby(self.features, key=lambda row: row.group)}


def document(runs: Iterable[FeatureRun], manifest: Manifest) -> FeatureDocument:
    """Return the document of runs. Later runs replace earlier runs of the same version. Raises AuditError."""
    newest = {run.key: run for run in runs}
    for run in newest.values():
        if run.states.keys() != {one.id for one in FEATURES if run.cases(one, manifest)}:
            raise AuditError(
                f"{visible(run.entry)} {visible(run.version)}: the run does not match the features of "
                "this suite; run it again with stc publish --features"
            )
    by_entry: dict[str, list[FeatureRun]] = {}
    for run in sorted(newest.values(), key=lambda run: (label_key(run.entry), version_key(run.version))):
        by_entry.setdefault(run.entry, []).append(run)
    return FeatureDocument(
        schema=FORMAT,
        features=tuple(FeatureRow(*feature) for feature in FEATURES),
        table=tuple(_entry(runs, manifest) for runs in by_entry.values()),
        runs=tuple(run for runs in by_entry.values() for run in runs),
    )


def _entry(runs: list[FeatureRun], manifest: Manifest) -> EntryFeatures:
    newest = ([run for run in runs if not is_prerelease(run.version)] or runs)[-1]
    older = runs[: runs.index(newest)]
    cells = {}
    for feature in FEATURES:
        if state := newest.states.get(feature.id):
            cells[feature.id] = FeatureCell(
                state, *_since(feature.id, newest, older), newest.cases(feature, manifest)
            )
    return EntryFeatures(newest.program, newest.entry, newest.kind, tuple(r.version for r in runs), cells)


def _since(feature: str, newest: FeatureRun, older: list[FeatureRun]) -> tuple[str, str]:
    first = newest.version
    for run in reversed(older) if newest.states[feature] == "yes" else ():
        state = run.states.get(feature)
        if state != "yes":
            return first, run.version if state in ("no", "partly") else ""
        first = run.version
    return first, ""


def load_features(path: Path) -> FeatureDocument:
    """Read ``features.json``. Raises AuditError."""
    try:
        return typed(json.loads(read_whole(path, MAX_LEDGER)), FeatureDocument)
    except OSError as err:
        raise AuditError(visible(str(err), 300)) from err
    except (MisfitError, ValueError, RecursionError) as err:
        raise AuditError(
            f"{visible(str(path))}: {visible(str(err), 200)}; restore the committed file"
        ) from err


def feature_texts(made: FeatureDocument) -> Mapping[str, str]:
    return {JSON: made.text, PAGE: render("features.md", made=made)}
