"""The matrix case x variant: every case can fail, every variant is caught, the committed file is current."""

from __future__ import annotations

import json
import os
import signal
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from proof.broken import matrix as matrix_module
from proof.broken.__main__ import matrix as command
from proof.broken.correct.reader import READER
from proof.broken.matrix import (
    FILE,
    Matrix,
    Row,
    cases_for,
    committed,
    compute,
    fails,
    kinds,
    light_variants,
    why,
)
from proof.broken.variant import all_variants, reading
from safetensors_corpus import Case, Manifest, load_manifest

from ...conformance.suite_runs import corpus_of

DAY = 30
"""By day every thirtieth variant meets every thirtieth case, beginning each time with another one."""
FEW = ("framing/one-tensor", "layout/trailing-4-bytes", "layout/hole-between-two")
ONE, _, HOLE = FEW


def blind(*fails: str) -> tuple[Row, ...]:
    """The only row of a matrix."""
    return (Row("reader/blind", "read", "Sees nothing.", fails),)


@pytest.fixture(scope="module")
def stored(manifest: Manifest) -> Matrix:
    return committed(manifest)


@pytest.fixture
def few(manifest: Manifest) -> list[Case]:
    return [manifest.by_id[case] for case in FEW]


@pytest.mark.parametrize("name", ["writer/random-tensor-order", "writer/random-metadata-order"])
def test_chance_does_not_decide_which_cases_a_variant_fails(
    manifest: Manifest, stored: Matrix, memory_path: Path, name: str
) -> None:
    variant = next(v for v in all_variants() if v.name == name)
    failed = next(row.fails for row in stored.rows if row.name == name)
    cases = [c for n, c in enumerate(cases_for(manifest, "write")) if c.id in failed or not n % 5]
    assert len(cases) > 40
    assert fails(variant, cases, memory_path) == fails(variant, cases, memory_path)


# What is claimed


def test_the_committed_matrix_lists_every_variant_and_has_no_gaps(stored: Matrix) -> None:
    assert [(row.name, row.about) for row in stored.rows] == [(v.name, v.about) for v in light_variants()]
    assert (stored.unproven, stored.harmless, stored.thin) == ([], [], {})


def test_cases_of_one_covering_set_have_one_topic() -> None:
    fails = ("surroundings/hole-of-one-last", "surroundings/hole-of-one-r3", "surroundings/twice-hole-of-one")
    cases = dict.fromkeys(fails, "read")
    assert Matrix(blind(*fails), cases).thin == {"reader/blind": 2}
    found = Matrix(blind(*fails, HOLE), {**cases, ONE: "read"})
    assert found.thin == {}
    assert json.loads(found.text())["cases without a failing variant"] == [ONE]


STALE = "run: python -m proof.broken --write"


def test_a_sample_of_the_committed_matrix_is_current(
    manifest: Manifest, stored: Matrix, memory_path: Path
) -> None:
    rows = {row.name: row for row in stored.rows}
    stale = {}
    for number, variant in enumerate(light_variants()[1::DAY]):
        cases = cases_for(manifest, variant.kind)[number % DAY :: DAY]
        wanted = set(rows[variant.name].fails) & {case.id for case in cases}
        if different := wanted ^ set(fails(variant, cases, memory_path)):
            stale[variant.name] = different
    assert stale == {}, STALE


@pytest.mark.nightly
def test_the_committed_matrix_is_current(manifest: Manifest, stored: Matrix) -> None:
    rows = {row.name: row for row in stored.rows}
    computed = compute(manifest, jobs=os.cpu_count() or 1)
    assert computed.rows
    assert [row.name for row in computed.rows if rows.get(row.name) != row] == [], STALE


def test_the_committed_file_has_its_form_and_no_heavy_cases(manifest: Manifest, stored: Matrix) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == stored.text()
    raw = json.loads(text)
    assert raw["cases without a failing variant"] == []
    assert raw["cases"] == {
        kind: list(stored.cases.values()).count(kind) for kind in sorted(set(stored.cases.values()))
    }
    for row in raw["variants"]:
        assert row["fails"] == sorted(set(row["fails"])), row["name"]
    assert not [c.id for c in manifest.cases if c.heavy and c.id in stored.cases]
    assert {c.kind for c in manifest.cases if c.id in stored.cases} <= kinds()


# Computing


def test_a_broken_reader_fails_what_it_does_not_see(few: list[Case], tmp_path: Path) -> None:
    broken = reading("broken", "Broken.", READER.without("trailing"))
    assert fails(broken, few, tmp_path) == ["layout/trailing-4-bytes"]


def test_a_reader_that_never_answers_is_stopped_and_the_time_limit_ends_with_the_case(
    few: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = SimpleNamespace(read=lambda _path: any(False for _ in count()))
    before = signal.getsignal(signal.SIGALRM)
    with monkeypatch.context() as patch:
        patch.setattr(matrix_module, "SECONDS", 0.05)
        begin = time.monotonic()
        assert "hang" in (why(hangs, few[1], tmp_path) or "")
    assert time.monotonic() - begin < 5
    assert why(READER, few[0], tmp_path) is None
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_processes_give_what_one_process_gives(tmp_path: Path) -> None:
    # The processes open the corpus themselves, which therefore has to lie in a folder.
    small = load_manifest(corpus_of(tmp_path, "layout/hole"))
    variants = [v for v in all_variants() if v.name in ("reader/no-hole-check", "reader/length-32-bits")]
    alone = compute(small, variants=variants)
    assert any(row.fails for row in alone.rows)
    counted: list[int] = []
    together = compute(small, variants=variants, jobs=2, done=lambda: counted.append(1))
    assert len(counted) == 2
    assert together == alone


# Command


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(args))
    return result.exit_code, result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A few cases, without a matrix."""
    return corpus_of(tmp_path, *FEW)


def store(folder: Path, *fails: str) -> None:
    (folder / FILE.name).write_text(Matrix(blind(*fails), {}).text(), encoding="utf-8")


@pytest.mark.parametrize(
    ("fails", "arguments", "status", "words"),
    [
        ((), (), 1, ["reader/blind fails no case", f"no variant fails {ONE}"]),
        ((ONE,), ("--case", ONE), 0, ["reader/blind", "Sees nothing.", f"1 of 1 variants fail {ONE}"]),
        ((HOLE,), ("--rule", "off-07"), 0, [HOLE, "cases of OFF-07, failed by 1 of 1 variants"]),
        ((), ("--rule", "OFF-99"), 1, ["no case refers to the rule 'OFF-99'"]),
        ((), ("--case", "framing/no-such"), 1, ["no case 'framing/no-such'"]),
        ((ONE,), ("--variant", "reader/blind"), 0, [ONE, "1 case"]),
        ((ONE,), ("--variant", "blind"), 0, [ONE, "1 case"]),
        ((), ("--variant", "lind"), 1, ["did you mean reader/blind?"]),
    ],
)
def test_the_command_selects_and_finds_gaps(
    fails: tuple[str, ...], arguments: tuple[str, ...], status: int, words: list[str], folder: Path
) -> None:
    store(folder, *fails)
    found, out = run("-o", str(folder), *arguments)
    assert found == status
    assert all(word in out for word in words), out


def test_check_names_what_differs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out = run("-o", str(folder))
    assert (status, "python -m proof.broken --write" in out) == (1, True), "there is no file"
    true = Matrix(blind(ONE), {ONE: "read"})
    monkeypatch.setattr("proof.broken.__main__.compute", lambda *_, **__: true)
    store(folder)
    status, out = run("-o", str(folder), "--check")
    assert status == 1
    assert "reader/blind: fails 1 more cases and 0 fewer cases than committed" in out
    assert "not current" in out
    status, out = run("-o", str(folder), "--write")
    assert status == 0
    assert "matrix written: 1 variant, 1 case" in out
    assert (folder / FILE.name).read_text(encoding="utf-8") == true.text()
    status, out = run("-o", str(folder), "--check")
    assert status == 0
    assert "matrix is current" in out
