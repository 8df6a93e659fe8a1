"""The features that one run shows, as the published pages may show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from safetensors_corpus import Manifest
from safetensors_corpus.judging.verdicts import effect_of, fails, kind_of

from ..audit.disclosure import published_run
from ..audit.inputs import AuditError
from ..history.comparable import misfits_of
from ..history.ledger import DIGEST, CorpusName
from ..record.run import Row, RunRecord, row_failures
from ..text import listed, visible
from .table import FEATURES, Feature

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
        return tuple(
            case
            for case in feature.cases
            if manifest.by_id[case].steps_for(self.steps, self.areas)
            and others.isdisjoint(manifest.by_id[case].features)
        )


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
    refused = (any(not _passes(row) and _is_refused(row) for row in rows) for rows in cases)
    return "no" if all(refused) else "partly"


def _passes(row: Row) -> bool:
    """Return whether a step handled a feature, regardless of the time and memory that it used."""
    failures = [failed["verdict"] for failed in row_failures(row) if failed.get("property") != "cost"]
    return kind_of(row["verdict"]) != "unsupported" and not any(map(fails, failures))


def _is_refused(row: Row) -> bool:
    return kind_of(row["verdict"]) == "unsupported" or effect_of(row["verdict"]) == "reject"
