"""``features.json``: the features of all programs by version, the page that shows them, and their cases.

A run of the cases of the features shows the state of each feature, as published pages may show it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from safetensors_corpus import Manifest
from safetensors_corpus.judging.verdicts import effect_of, fails, kind_of
from safetensors_corpus.typed import MisfitError, typed
from safetensors_reference.source import read_whole

from .audit.disclosure import published_run
from .audit.inputs import AuditError
from .history.comparable import misfits_of
from .history.ledger import DIGEST, MAX_LEDGER, CorpusName
from .record.run import Row, RunRecord, row_failures
from .templates import render
from .text import is_prerelease, label_key, listed, version_key, visible


class Feature(Struct, frozen=True, forbid_unknown_fields=True):
    """A feature, with the cases that a program must pass to support it."""

    id: str
    title: str
    group: str
    cases: tuple[str, ...]


_DTYPES = {
    "Integers": "BOOL U8 I8 U16 I16 U32 I32 U64 I64",
    "Floats": "F16 BF16 F32 F64 C64",
    "Floats of 8 bits and less": "F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ F6_E2M3 F6_E3M2 F4",
}


def _dtype(code: str, group: str) -> Feature:
    name = code.lower().replace("_", "-")
    values = "every-byte" if "_" in code or code == "F4" else "known-values"
    return Feature(f"dtype-{name}", code, group, (f"dtype/eight-elements-{name}", f"data/{values}-{name}"))


def _of(id: str, title: str, group: str, area: str, names: str) -> Feature:  # noqa: A002 - as the field
    return Feature(id, title, group, tuple(f"{area}/{name}" for name in names.split()))


_SHAPES, _HEADER, _ACCESS = "Shapes and layout", "Names and metadata", "Access"

FEATURES = (
    *(_dtype(code, group) for group, codes in _DTYPES.items() for code in codes.split()),
    _of("empty", "empty tensors", _SHAPES, "shape",
        "zero-dimension-0 zero-dimension-0x0 zero-dimension-0x5 zero-dimension-5x0x3"),
    _of("rank-0", "rank 0", _SHAPES, "shape", "scalar-f16 scalar-f32 scalar-u8"),
    _of("high-rank", "8 and 32 dimensions", _SHAPES, "shape", "eight-dimensions thirty-two-dimensions"),
    _of("no-tensors", "no tensors", _SHAPES, "framing", "empty-container-bare empty-container-padded"),
    _of("unaligned", "unaligned data", _SHAPES, "layout",
        "unaligned-f16-at-1 unaligned-f32-at-1 unaligned-f64-at-4 unaligned-i64-at-3"),
    _of("unsorted", "header in another order", _SHAPES, "layout",
        "header-order-reversed header-order-rotated header-order-swapped"),
    _of("many-tensors", "1,000 tensors, long names", _HEADER, "entry",
        "thousand-tensors name-length-1-kib name-length-60-kb"),
    _of("unicode-names", "Unicode in names", _HEADER, "entry",
        "name-with-beyond-bmp name-with-three-byte-characters name-with-zero-width-joiner"),
    _of("escaped-names", "escapes in names", _HEADER, "header",
        "escape-in-name-code-point escape-in-name-pair escape-in-name-short"),
    _of("metadata", "metadata", _HEADER, "metadata",
        "text-non-ascii text-escaped text-empty-key text-empty-value meaning-format-pt"),
    _of("metadata-empty", "empty metadata", _HEADER, "metadata", "empty-map empty-map-without-tensors"),
    _of("metadata-place", "metadata not first", _HEADER, "metadata", "place-middle place-last"),
    _of("metadata-large", "large metadata", _HEADER, "metadata", "amount-many-keys amount-one-value"),
    _of("slice-ranges", "slices: ranges", _ACCESS, "slice",
        "span-all span-from span-to span-first-row span-last-row span-of-both span-of-inner-dimension"),
    _of("slice-integers", "slices: integers", _ACCESS, "slice",
        "integer-first integer-last integer-minus-1 integer-both integer-before-range integer-behind-range"),
    _of("large-file", "files over 4 GiB", _ACCESS, "resource",
        "opened-only-2p32 tensor-behind-2p32 tensor-behind-2p32-and-8 tensor-behind-2p32-less-4"),
    _of("threads", "threads share a file", _ACCESS, "concurrent",
        "threads-same-tensor-two threads-same-tensor-eight threads-another-tensor-each-two"
        " threads-another-tensor-each-eight threads-all-tensors-rotated-two"),
    _of("threads-apart", "threads open the file", _ACCESS, "concurrent",
        "threads-opening-each-two threads-opening-each-five threads-opening-each-eight"),
    _of("processes", "processes open the file", _ACCESS, "concurrent",
        "processes-opening-each-two processes-opening-each-eight processes-opening-each-large"),
    _of("sharded", "shards with an index", _ACCESS, "index",
        "two-shards one-tensor-per-shard-1 one-tensor-per-shard-3 one-tensor-per-shard-5"),
    _of("remote", "files on a web server", _ACCESS, "remote",
        "one-tensor three-tensors-short three-tensors-long metadata"),
    _of("write", "saving", _ACCESS, "writer",
        "two-tensors-and-metadata one-tensor-no-metadata dtype-f32 dtype-u8"),
    _of("write-sharded", "saving shards", _ACCESS, "sharded", "two-shards everything-fits metadata"),
)  # fmt: skip

JSON, PAGE = "features.json", "features.md"
FORMAT: Final = 1
State = Literal["yes", "partly", "no", "unknown"]


class FeatureRun(Struct, frozen=True, forbid_unknown_fields=True):
    """The features of one entry point in one version.

    Attributes:
        program: Name of the program.
        entry: Value for --impl, without the version.
        date: Day on which the run began.
        kind: Kind of entry point, as in its descriptor.
        steps: Steps that were run.
        areas: Areas that the program claims; empty if it claims all.
        lacks: Features that the program declares missing.
        states: Feature -> state. It is ``yes`` if no case failed, ``no`` if all were rejected, ``partly`` if
            some failed or returned wrong content, and ``unknown`` if the adapter does not fit this version or
            cannot call the function here. A feature that was not tested has no state.
    """

    program: str
    entry: str
    version: str
    date: str
    kind: str
    corpus: CorpusName
    steps: tuple[str, ...]
    areas: tuple[str, ...]
    lacks: tuple[str, ...]
    states: dict[str, State]

    @property
    def key(self) -> tuple[str, str]:
        return self.entry, self.version

    def cases(self, feature: Feature, manifest: Manifest) -> tuple[str, ...]:
        """Return the cases of a feature that were run, except cases that need another missing feature."""
        others = {*self.lacks} - {feature.id}
        cases = (manifest.by_id[name] for name in feature.cases)
        fit = (case for case in cases if case.steps_for(self.steps, self.areas))
        return tuple(case.id for case in fit if others.isdisjoint(case.features))


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

    def has(self, features: Iterable[Feature]) -> bool:
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
    features: tuple[Feature, ...]
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
    def groups(self) -> dict[str, list[Feature]]:
        return {name: list(rows) for name, rows in groupby(self.features, key=lambda row: row.group)}


def feature_run(record: RunRecord, manifest: Manifest) -> FeatureRun:
    """Return the features that a run shows. Raises AuditError if it lacks cases of the features."""
    who, corpus = record.implementation, record.header["corpus"]
    run = FeatureRun(
        program=visible(record.name, 80),
        entry=visible(record.selector.partition("==")[0] if who.get("kind") else record.selector, 200),
        version=visible(record.version, 80),
        date=str(record.header.get("started") or "")[:10],
        kind=str(who.get("kind") or ""),
        corpus=CorpusName(corpus["version"], corpus["digest"][:DIGEST]),
        steps=tuple(who["steps"]),
        areas=tuple(who.get("areas") or ()),
        lacks=tuple(who.get("lacks") or ()),
        states={},
    )
    asked = {one.id: cases for one in FEATURES if (cases := run.cases(one, manifest))}
    wanted = {case for cases in asked.values() for case in cases}
    missing = sorted(wanted - record.case_verdicts.keys())
    if missing or record.left_out or record.footer is None:
        raise AuditError(
            f"{visible(record.label, 80)}: the run is not complete or lacks {listed(missing, 3) or 'lines'}; "
            "run it again with stc publish --features"
        )
    # Nothing is missing from these cases, so they can be published like a complete run.
    part = dataclasses.replace(
        record,
        header={**record.header, "corpus": {**corpus, "cases": 0}},
        results=[row for row in record.results if row["case"] in wanted or manifest.by_id[row["case"]].smoke],
        footer={**record.footer, "complete": True, "not_run": 0},
    )
    shown = published_run(part, manifest, (), reported=False).results
    by_case: dict[str, list[Row]] = {}
    for row in shown:
        by_case.setdefault(row["case"], []).append(row)
    for case in misfits_of(shown, manifest):
        by_case[case] = [{**row, "verdict": "harness-error"} for row in by_case[case]]
    states = {name: _state(name, [by_case[case] for case in cases]) for name, cases in asked.items()}
    return replace(run, states=states)


def _state(feature: str, cases: Sequence[Sequence[Row]]) -> State:
    if not feature.startswith("dtype-"):  # the adapter cannot make calls that it does not declare missing
        cases = [rows for rows in cases if all(kind_of(row["verdict"]) != "unsupported" for row in rows)]
    verdicts = [row["verdict"] for rows in cases for row in rows]
    if not cases or "harness-error" in verdicts:
        return "unknown"
    if all(_passes(row) for rows in cases for row in rows):
        return "yes"
    # Wrong content is not a missing feature.
    failed = [[row["verdict"] for row in rows if not _passes(row)] for rows in cases]
    refused = (any(kind_of(v) == "unsupported" or effect_of(v) == "reject" for v in vs) for vs in failed)
    return "no" if all(refused) else "partly"


def _passes(row: Row) -> bool:
    """Return whether a step handled a feature, regardless of the time and memory that it used."""
    failures = [failed["verdict"] for failed in row_failures(row) if failed.get("property") != "cost"]
    return kind_of(row["verdict"]) != "unsupported" and not any(map(fails, failures))


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
        features=FEATURES,
        table=tuple(_entry(runs, manifest) for runs in by_entry.values()),
        runs=tuple(run for runs in by_entry.values() for run in runs),
    )


def _entry(runs: list[FeatureRun], manifest: Manifest) -> EntryFeatures:
    newest = ([run for run in runs if not is_prerelease(run.version)] or runs)[-1]
    older = runs[: runs.index(newest)]
    cells = {}
    for feature in FEATURES:
        if state := newest.states.get(feature.id):
            first, after = newest.version, ""
            for run in reversed(older) if state == "yes" else ():
                before = run.states.get(feature.id)
                if before != "yes":
                    after = run.version if before in ("no", "partly") else ""
                    break
                first = run.version
            cells[feature.id] = FeatureCell(state, first, after, newest.cases(feature, manifest))
    return EntryFeatures(newest.program, newest.entry, newest.kind, tuple(r.version for r in runs), cells)


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
