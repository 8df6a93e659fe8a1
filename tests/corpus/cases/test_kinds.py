"""Cases by kind: a correct implementation passes, and what only runs of a kind can show.

The matrix of broken implementations shows that each case can fail, except for heavy cases.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from proof.broken.correct.exporter import SmallExporter
from proof.broken.correct.fetcher import Fetcher
from proof.broken.correct.holder import SmallHolder
from proof.broken.correct.loader import LOADER
from proof.broken.correct.sharder import SmallSharder
from proof.broken.correct.slicer import SLICER
from proof.broken.correct.writer import SmallWriter
from proof.broken.keepers import Keeper
from proof.broken.rivals import Rival
from proof.broken.variant import all_variants
from proof.broken.visitors import Visitor
from proof.planted import Planted
from safetensors_cases.framing import CAP
from safetensors_cases.resource.budgets import PREFETCH, SLACK
from safetensors_conformance.implementations.reference.adapter import Reference
from safetensors_conformance.programs.launcher import folder_in_memory
from safetensors_corpus import Case, Manifest
from safetensors_corpus.author.file import HEAVY
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.judging.answer import Answer, Refused
from safetensors_corpus.server import BEHAVIOURS
from safetensors_reference.model.read import InvalidIndexError
from safetensors_reference.rules.errors import SafetensorsError

CORRECT: dict[str, Callable[[], Any]] = {
    "slice": lambda: SLICER,
    "write": SmallWriter,
    "index": lambda: LOADER,
    "sharded": SmallSharder,
    "export": SmallExporter,
    "lifecycle": SmallHolder,
    "remote": Fetcher,
    "concurrent": SmallHolder,
    "placed": Visitor,
    "repeated": Keeper,
    "contended": Rival,
}
"""Maps each kind, except files to read, to an implementation that shares no code with the reference."""


def of_kind(manifest: Manifest, kind: str) -> list[Case]:
    return [case for case in manifest.cases if case.kind == kind]


def done(case: Case, implementation: Any) -> tuple[Answer, str | None]:
    """Do a case in a folder of its own; return the result and why it fails."""
    with TemporaryDirectory(dir=None if case.heavy else folder_in_memory()) as folder:
        result = run_case(case, implementation, Path(folder))
    return result, mismatch(case, result)


def failures(cases: Iterable[Case], make: Callable[[], Any]) -> dict[str, str]:
    """Return the cases that an implementation fails, id -> why."""
    found = {case.id: done(case, make())[1] for case in cases}
    return {case: why for case, why in found.items() if why is not None}


@pytest.fixture
def cases(manifest: Manifest, kind: str) -> list[Case]:
    return [case for case in of_kind(manifest, kind) if not case.heavy]


@pytest.mark.parametrize("kind", CORRECT)
def test_a_correct_implementation_passes_everything(cases: list[Case], kind: str) -> None:
    assert failures(cases, CORRECT[kind]) == {}


@pytest.mark.parametrize("kind", ["lifecycle", "remote", "concurrent", "placed", "repeated", "contended"])
def test_no_two_cases_are_the_same(cases: list[Case], kind: str) -> None:
    known = [(case.sha256, json.dumps(case.action, sort_keys=True), case.choice) for case in cases]
    assert [case.id for case, what in zip(cases, known, strict=True) if known.count(what) > 1] == []


LARGE = "index/as-large-as-real-ones"
CAUGHT = {
    f"{LARGE}-20-1-mb": {"loader/small-indexes", "loader/slice-of-index"},
    f"{LARGE}-13-5-mb": {"loader/small-indexes"},
    "writer/header-of-24-million-bytes": {"writer/small-cap"},
    "writer/header-over-the-cap": {"writer/no-cap"},
    f"{LARGE}-23-5-mb": {"loader/small-indexes", "loader/slice-of-index"},
}
"""Heavy case -> the variants that it catches."""


def test_each_heavy_case_has_its_variants(manifest: Manifest) -> None:
    kinds = ("index", "write")
    assert {case.id for kind in kinds for case in of_kind(manifest, kind) if case.heavy} == set(CAUGHT)
    assert {v.name for v in all_variants() if v.heavy and v.kind in kinds} == set().union(*CAUGHT.values())


@pytest.mark.by_day(2)
@pytest.mark.parametrize("case_id", CAUGHT)
def test_a_heavy_case_catches_its_variants_alone(manifest: Manifest, case_id: str) -> None:
    case = manifest.by_id[case_id]
    makers = {v.name: v.make for v in all_variants() if v.heavy and v.kind == case.kind}
    makers |= {"right": CORRECT[case.kind], "reference": Reference}
    assert {name for name, make in makers.items() if failures([case], make)} == CAUGHT[case_id]


class Recording(Reference):
    """Notes the codes of what the reference raises, and the rule of the first."""

    codes: frozenset[str] = frozenset()
    rule: str | None = None

    def index(self, path: str | Path) -> Any:
        return self.note(super().index, path)

    def write(self, path: str | Path, *given: Any) -> None:
        self.note(super().write, path, *given)

    def save_sharded(self, folder: str | Path, *given: Any) -> None:
        self.note(super().save_sharded, folder, *given)

    def note(self, do: Callable[..., Any], path: str | Path, *given: Any) -> Any:
        try:
            return do(str(path), *given)
        except SafetensorsError as err:
            faults = err.explanation.faults if isinstance(err, InvalidIndexError) else [err]
            self.codes, self.rule = frozenset(fault.code for fault in faults), err.rule
            raise


@pytest.mark.parametrize("kind", ["slice", "index", "write", "sharded"])
def test_the_reference_passes_and_refuses_for_the_reasons_declared(cases: list[Case], kind: str) -> None:
    refused = 0
    for case in cases:
        reference = Recording()
        answer, why = done(case, reference)
        assert why is None, (case.id, why)
        if answer.outcome == "reject" and kind != "slice":
            assert reference.codes & {code for demand in case.demands for code in demand.codes}, case.id
            assert kind != "write" or reference.rule in case.rules, case.id
            refused += 1
    assert (refused > 10) == (kind != "slice")


class Run:
    """Unpickled carelessly it makes a folder, as a hostile one would start a program."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


def test_the_loader_of_pickles_runs_nothing_that_a_corpus_of_others_holds(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(pickle.dumps(Run(tmp_path / "MARK"), protocol=2))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"b": "x.safetensors"}}')
    loader: Any = next(v for v in all_variants() if v.name == "loader/loads-pickles").make()
    with pytest.raises(Refused, match="mkdir"):
        loader.index(index)
    assert not (tmp_path / "MARK").exists()
    (tmp_path / "x.safetensors").write_bytes(pickle.dumps({"b": [1.0, 2.0]}, protocol=2))
    assert loader.index(index)["tensors"]


# ---- remote ----


def test_every_behaviour_of_the_server_has_a_case_and_so_have_the_lengths_of_a_report(
    manifest: Manifest,
) -> None:
    cases = of_kind(manifest, "remote")
    assert {case.action["server"] for case in cases if case.action} == set(BEHAVIOURS)
    shown = {case.id for case in cases if any(bug["bug"] == "FB-93" for bug in case.affects)}
    lengths = {int(case.rpartition("-")[2]) for case in shown if case.rpartition("-")[2].isdigit()}
    assert (min(lengths), max(lengths)) == (99_994, 100_000)
    assert {"remote/header-of-99993", "remote/header-of-100001"} <= {case.id for case in cases} - shown


def test_what_the_server_sent_is_told(manifest: Manifest) -> None:
    case = manifest.by_id["remote/one-tensor"]
    result, why = done(case, Fetcher())
    assert (why, result.message) == (None, f"3 requests; the server sent {case.size} of {case.size} bytes")


# ---- resources: runs of the suite measure what readers use ----


def test_resource_cases_have_budgets_that_files_can_keep_and_headers_of_the_size_named(
    manifest: Manifest,
) -> None:
    sizes = {"1mb": 1_000_000, "5mb": 5_000_000, "25mb": 25_000_000, "100mb": CAP}
    cases, named = of_kind(manifest, "resource"), 0
    for case in cases:
        assert case.budget is not None, case.id
        assert set(case.budget) == {"seconds", "peak_bytes", "read_bytes"}
        header = int.from_bytes(bytes.fromhex(case.input.recipe[0]["hex"])[:8], "little")
        assert case.budget["peak_bytes"] in (SLACK, SLACK + 20 * header), case.id
        assert case.budget["read_bytes"] in (PREFETCH, PREFETCH + 2 * header), case.id
        assert header <= CAP or case.budget["peak_bytes"] == SLACK
        size = sizes.get(case.id.rpartition("-")[2])
        if size and "digits" not in case.id and "decimals" not in case.id:
            assert header == size, case.id
            named += 1
    assert named > 30
    light = [case.size for case in cases if not case.heavy]
    assert max(light) <= HEAVY, "what runs every time is small"
    assert len([size for size in light if size > 1000]) <= 25


# ---- several readers at a time ----

SHARERS = [v for v in all_variants() if v.kind == "concurrent"]
SLOW = "sharer/closed-under-reading"
"""Waits for the file to be closed in every case in which nobody closes it."""
ONE = "threads-unknown-name-one"
SAMPLE = (
    ONE, "threads-same-tensor-eight", "threads-another-tensor-each-two", "threads-closed-meanwhile-small",
    "forked-another-tensor-each-two", "forked-parent-closes-meanwhile-small",
)  # fmt: skip


def concurrent(manifest: Manifest, *names: str) -> list[Case]:
    """Return the cases with these names, or all without any."""
    return [c for c in of_kind(manifest, "concurrent") if not names or c.id.partition("/")[2] in names]


def test_there_are_cases_of_threads_and_of_processes(manifest: Manifest) -> None:
    ways = [((c.action or {})["by"], (c.action or {})["opened"]) for c in concurrent(manifest)]
    assert (len(ways) >= 20, len(SHARERS) >= 8) == (True, True)
    assert set(ways) == {(by, opened) for by in ("threads", "processes") for opened in ("once", "each")}


@pytest.mark.parametrize("names", [[ONE], pytest.param([], marks=pytest.mark.nightly)], ids=len)
def test_a_correct_handle_passes_fifty_times(manifest: Manifest, names: list[str]) -> None:
    for _ in range(50):
        assert failures(concurrent(manifest, *names), SmallHolder) == {}


def test_a_file_that_is_closed_under_a_reader_gives_other_bytes(manifest: Manifest) -> None:
    (variant,) = (v for v in SHARERS if v.name == SLOW)
    (why,) = failures(concurrent(manifest, "threads-closed-meanwhile-small"), variant.make).values()
    assert "other bytes than the file contains" in why


@pytest.mark.by_day(3)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("variant", SHARERS, ids=lambda v: v.name)
def test_a_fault_shows_every_time_or_never(variant: Planted, manifest: Manifest, every: bool) -> None:
    """Nothing is left to luck: several runs fail the same cases."""
    if every or variant.name != SLOW:
        cases, times = concurrent(manifest, *() if every else SAMPLE), 10 if every else 3
        first, *others = (failures(cases, variant.make).keys() for _ in range(times))
        assert others == [first] * (times - 1)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("variant", SHARERS, ids=lambda v: v.name)
def test_no_other_case_of_an_open_file_notices(variant: Planted, manifest: Manifest) -> None:
    """One reader in one process is told what is right: only the cases of several readers show the fault."""
    assert failures(of_kind(manifest, "lifecycle"), variant.make) == {}
