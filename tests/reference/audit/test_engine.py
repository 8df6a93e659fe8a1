"""Engines give the same rows; who kills a worker is named, and nobody else is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from safetensors_reference.audit import cli
from safetensors_reference.audit import engine as engines
from safetensors_reference.audit.cli import audit
from safetensors_reference.audit.engine import Dask, Engine, Pool, run
from safetensors_reference.audit.work import AuditOptions, Batch, make_batches
from safetensors_reference.files.names import FileInput
from safetensors_reference.files.walk import find_folders

from .support import BROKEN, DISPUTED, MODEL, VALID, all_alike, long_file, read_row, rows_of, write_tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with forty files of all sorts, and a model."""
    files = {
        f"{n // 10}/{n:02d}.safetensors": [VALID, BROKEN, DISPUTED, long_file(900)][n % 4] for n in range(40)
    }
    return write_tree(tmp_path_factory.mktemp("tree"), files | {f"model/{k}": v for k, v in MODEL.items()})


@pytest.fixture(params=["pool", "dask"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return an engine of two processes on this machine."""
    with ExitStack() as stack:
        if request.param == "pool":
            made: Any = Pool(2)
        else:
            distributed = pytest.importorskip("distributed")
            cluster = distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
            )
            made = Dask(stack.enter_context(cluster).scheduler_address)
            assert made.dashboard().startswith(", dashboard at http")
        yield made
        made.close(at_once=False)


@pytest.mark.parametrize("engine", ["pool"], indirect=True)
def test_a_pool_that_breaks_while_it_starts_a_worker_is_replaced(tree: Path, engine: Any) -> None:
    engine._pool.submit = Mock(side_effect=OSError(9, "Bad file descriptor"))
    assert len(b"".join(run(batches(tree), AuditOptions(), engine)).splitlines()) == 43


def kill_at_bad(item: FileInput) -> None:
    if "bad" in item.address:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")  # of dask, about the machine
def test_an_engine_gives_the_rows_of_a_loop_also_when_workers_are_killed(tree: Path, engine: Any) -> None:
    rows: list[bytes] = []
    for number, part in enumerate(run(batches(tree), AuditOptions(), engine)):
        rows += part.splitlines()
        if number in (1, 9):
            dask = isinstance(engine, Dask)
            pids = engine._client.run(os.getpid).values() if dask else engine._pool._processes
            os.kill(next(iter(pids)), signal.SIGKILL)
    looped = rows_of([tree])
    assert all_alike(map(read_row, rows)) == all_alike(looped)
    assert {row.verdict for row in looped} == {"valid", "invalid", "per-profile"}
    assert len(looped) == 43


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["dask"], indirect=True)
def test_a_file_that_kills_workers_of_dask_is_named(tmp_path: Path, engine: Any) -> None:
    names = [*(f"{n}.safetensors" for n in range(5)), "bad.safetensors"]
    write_tree(tmp_path, dict.fromkeys(names, VALID))
    engine._client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    rows = rows_of([tmp_path], engine=engine, options=AuditOptions(before=kill_at_bad))
    assert [row.verdict for row in rows] == ["valid"] * 5 + ["kills-worker"]


def batches(tree: Path) -> Iterator[Batch]:
    return make_batches(find_folders([str(tree)], []), 2, lambda _: False)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://127.0.0.1:9", "no dask scheduler responds: "),
        ("foo://x\x1b", "this is not the address of a dask scheduler: "),
    ],
)
def test_no_scheduler_is_an_error_in_one_line(
    address: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cli, "Dask", partial(Dask, timeout=0.2))
    run = CliRunner().invoke(audit, [str(tmp_path), "--scheduler", address, "-o", str(tmp_path / "x.jsonl")])
    assert (run.exit_code, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert run.stderr.startswith(f"{address}: {why}".replace("\x1b", "\\u001b"))
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.filterwarnings("ignore")  # of dask, about the machine
def test_a_cluster_without_workers_is_waited_for_and_not_for_ever(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(engines, "WORKER_TIMEOUT", 0.2)
    results = tmp_path / "rows.jsonl"
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty:
        name = empty.scheduler_address
        # dask has an address for a dashboard even where there is none.
        monkeypatch.setattr(distributed.Client, "dashboard_link", "http://127.0.0.1:9/status")
        run = CliRunner().invoke(audit, [str(tree), "--scheduler", name, "-o", str(results)])
    said = "".join(
        f"dask at {name}{s}\n" for s in ("", ": waiting for workers", ": no worker was available for 0 s")
    )
    assert (run.exit_code, run.output) == (2, said)
    assert not results.exists()


@pytest.mark.parametrize("engine", ["pool"], indirect=True)
def test_files_that_kill_are_named_and_all_others_have_their_rows(tmp_path: Path, engine: Any) -> None:
    killing = ["07bad.safetensors", "20bad.safetensors"]
    write_tree(tmp_path, dict.fromkeys([*(f"{n:02d}.safetensors" for n in range(20)), *killing], VALID))
    shards = {f"model/{k.replace('00002-of', 'bad00002-of')}": v for k, v in MODEL.items()}
    index = shards["model/model.safetensors.index.json"].replace(b"00002-of", b"bad00002-of")
    write_tree(tmp_path, shards | {"model/model.safetensors.index.json": index})
    rows = rows_of([tmp_path], engine=engine, options=AuditOptions(before=kill_at_bad), batch=8)
    assert len(rows) == 20 + len(killing) + len(MODEL)
    killed = [r for r in rows if "bad" in r.address or r.kind == "model"]
    assert len(killed) == len(killing) + 2, "a model whose shard kills has no verdict"
    assert {r.verdict for r in killed} == {"kills-worker"}
    assert {r.verdict for r in rows if r not in killed} == {"valid"}


def test_a_file_at_which_this_program_fails_costs_its_own_row_alone(tmp_path: Path) -> None:
    def fail_at_bad(item: FileInput) -> None:
        if "bad" in item.address:
            raise KeyError("x")

    write_tree(tmp_path, dict.fromkeys(["a.safetensors", "bad.safetensors", "c.safetensors"], VALID))
    rows = rows_of([tmp_path], options=AuditOptions(before=fail_at_bad))
    assert [row.verdict for row in rows] == ["valid", "unreadable", "valid"]
    assert rows[1].note == "this program failed: KeyError: 'x'"


class _Six(Engine):
    """Runs batches in this process, and keeps six of them in flight."""

    capacity = 6


def test_few_batches_are_taken_ahead_of_the_workers() -> None:
    taken = given = 0

    def endless() -> Iterator[Batch]:
        nonlocal taken
        for n in range(500):
            taken += 1
            assert taken - given <= _Six.capacity
            yield Batch(None, (FileInput(f"no/{n}"),))

    for part in run(endless(), AuditOptions(), _Six()):
        given += part.count(b"\n")
    assert given == 500
