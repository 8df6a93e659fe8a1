"""Runs on the CPU, with real loaders and with broken ones.

Importing torch takes a process longer than everything else, so that by day most loaders work in this one.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from benchmarks.device import command, limits, limits_run, session
from benchmarks.device import document as documents
from benchmarks.device import files as bench_files
from benchmarks.device.client import Client, LoaderError
from benchmarks.device.command import device
from benchmarks.device.loader_process import Server
from benchmarks.device.loaders import NotHere
from benchmarks.device.machine import describe
from safetensors_reference.writing.atomic import NotSavedError

from ..reference.device.support import at_turn

HERE = str(Path(__file__).parent)
FAKES = ("right", "flipped", "refusing")
START = 120.0


class Here:
    """Stands for ``Client``: the loader works in this process."""

    def __init__(self, name: str, device: str, target: str | None, *_: object) -> None:
        self.asked = (name, device, target)
        self.version: str | None = None
        self.server: Server | None = None

    def ready(self) -> None:
        try:
            self.server = Server(*self.asked)
        except NotHere as err:
            raise LoaderError("missing", str(err)) from err
        self.version = self.server.version

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.server is not None
        try:
            return self.server.answer(request)
        except ValueError as err:
            raise LoaderError("failed", f"ValueError: {str(err).splitlines()[0]}") from err

    def close(self) -> None:
        self.server = None


@contextmanager
def working_here() -> Iterator[None]:
    """Let loaders work and limits be measured in this process."""
    # Every load collects garbage, which is fast when all that is here already is left out.
    importlib.import_module("safetensors_reference.device")
    importlib.import_module("safetensors.torch")
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        patch.setattr(session, "Client", Here)
        patch.setattr(limits, "CHUNK", 1 << 16)
        patch.setattr(limits_run, "run", lambda path, device, _limit: limits.measure(path, device))
        yield


@pytest.fixture
def here() -> Iterator[None]:
    with working_here():
        yield


@pytest.fixture
def bare(tmp_path: Path) -> list[str]:
    """Import paths of a process that finds the loaders and, so that it starts at once, an empty torch."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "torch.py").write_text("")
    return [HERE, str(tmp_path / "bare")]


def call(*args: str) -> Result:
    return CliRunner().invoke(device, ["--device", "cpu", *args])


@pytest.fixture(scope="module", params=["here", pytest.param("processes", marks=pytest.mark.nightly)])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A run over two files; at night every loader has a process of its own."""
    folder = tmp_path_factory.mktemp("bench")
    report = folder / "report"
    args = ["--megabytes", "2", "--small", "50", "--warm", "2", "--report", str(report)]
    args += ["--folder", str(folder), "--file", "llm", "--file", "small", "--check-all", "1"]
    for name in ("safetensors", "safetensors-pread", "torch-load", "instanttensor"):
        args += ["--loader", name]
    for name in (*FAKES, "dying") if request.param == "processes" else FAKES:
        args += ["--add", f"{name}=fakes:{name}", "--path", f"{name}={HERE}"]
    with working_here() if request.param == "here" else nullcontext():
        return call(*args), report


@pytest.mark.nightly
def test_dry_run_measures_real_loaders_and_lists_the_others(ran: tuple[Result, Path]) -> None:
    result, report = ran
    assert result.exit_code == 0, result.output
    document = documents.read(report / "device-bench.json")
    assert document["complete"] is True
    assert {row["what"] for row in document["limits"]} == {"page-cache-to-staging", "staging-to-device"}
    for file, how in zip(document["files"], ("sum of every page", "all bytes"), strict=True):
        entries = {entry["name"]: entry for entry in file["loaders"]}
        for name in ("reference", "safetensors", "safetensors-pread", "torch-load", "right"):
            assert entries[name]["status"] == "ok", entries[name]
            assert how in entries[name]["check"]["how"]
            kinds = [s["kind"] for s in file["samples"] if s["loader"] == name]
            assert kinds == ["first", "warm", "warm"]
        assert entries["safetensors"]["version"].startswith("0.")
        assert entries["reference"]["memory"]["host_growth"] >= 0
        assert entries["instanttensor"]["reason"] == "this loader supports only CUDA devices"
        assert entries["flipped"]["status"] == "wrong"
        assert entries["flipped"]["check"]["wrong"] == 1
        assert "differs" in entries["flipped"]["reason"]
        why = f"ValueError: cannot load stc-bench-{file['kind']}.safetensors"
        assert (entries["refusing"]["status"], entries["refusing"]["reason"]) == ("failed", why)
        if "dying" in entries:
            assert entries["dying"]["reason"] == DIED


@pytest.mark.usefixtures("simulated", "here")
def test_the_run_on_a_gpu_is_complete_on_a_simulated_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, report = tmp_path / "page.md", tmp_path / "report"
    page.write_text("# Page\n<!-- goals -->\nold\n<!-- end of goals -->\nrest\n", "utf-8")
    monkeypatch.setattr(command, "PAGE", page)
    monkeypatch.setattr(command, "REPORT", report)
    for name in ("BLOCK", "PINNED"):
        monkeypatch.setattr(limits, name, 1 << 21)
    args = ["--device", "simulated:1", "--write", "--megabytes", "1", "--small", "50", "--warm", "1"]
    result = CliRunner().invoke(
        device, [*args, "--loader", "torch-load", "--loader", "instanttensor", "--folder", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    document = documents.read(report / "device-bench.json")
    assert document["complete"] is True
    assert {row["what"] for row in document["limits"]} == {
        "page-cache-to-staging", "staging-to-device", "pageable-to-device", "pin"
    }  # fmt: skip
    assert [file["kind"] for file in document["files"]] == ["large", "llm", "small"]
    for file in document["files"]:
        entries = {entry["name"]: entry for entry in file["loaders"]}
        for name in ("reference", "torch-load"):
            assert (entries[name]["status"], entries[name]["check"]["how"]) == ("ok", "all bytes")
        assert entries["reference"]["memory"]["device_torch"] > 0
        assert entries["instanttensor"]["reason"] == "this loader supports only CUDA devices"
    text = page.read_text("utf-8")
    assert text.startswith("# Page\n<!-- goals -->\n\n| goal |")
    assert text.endswith("\n<!-- end of goals -->\nrest\n")
    assert f"torch {document['machine']['torch']}" in text
    assert str(tmp_path) not in text


DIED = "the process ended (exit status 3): out of luck"
ASKED = {"path": "x.safetensors", "content": "x.safetensors"}
Start = Callable[..., Client]


@pytest.fixture
def start(bare: list[str]) -> Iterator[Start]:
    """Starts clients, and closes them after the test."""
    clients: list[Client] = []

    def client(target: str, given: dict[str, str] | None = None) -> Client:
        clients.append(Client("x", "cpu", target, bare, START, given))
        return clients[-1]

    yield client
    for one in clients:
        one.close()


@pytest.mark.parametrize(
    ("target", "status", "reason"),
    [
        ("fakes:dying", "failed", DIED),
        ("fakes:refusing", "failed", "ValueError: cannot load x.safetensors"),
        # What the user set holds.
        ("fakes:tells_environment", "failed", "RuntimeError: ours theirs"),
        ("no_such_module:load", "missing", "no_such_module"),
    ],
)
def test_a_loader_that_gives_nothing_says_why(
    start: Start, monkeypatch: pytest.MonkeyPatch, target: str, status: str, reason: str
) -> None:
    monkeypatch.setenv("STC_FAKE_B", "theirs")
    client = start(target, {"STC_FAKE_A": "ours", "STC_FAKE_B": "ours"})
    with pytest.raises(LoaderError, match=re.escape(reason)) as caught:  # noqa: PT012 - some fail at once
        client.ready()
        client.ask(ASKED)
    assert caught.value.status == status


def test_a_loader_that_hangs_is_cut_off_and_what_one_prints_is_no_answer(start: Start) -> None:
    client = start("fakes:quiet")
    client.ready()
    assert all(client.ask(ASKED)["seconds"] >= 0 for _ in range(2))
    client = start("fakes:hanging")
    client.ready()
    client.limit = 0.5
    began = time.monotonic()
    with pytest.raises(LoaderError, match=r"took more than 0\.5 s for a single load") as caught:
        client.ask(ASKED)
    assert time.monotonic() - began < 10
    assert caught.value.status == "timeout"


def test_samples_take_turns_and_nothing_of_the_machine_remains(ran: tuple[Result, Path]) -> None:
    document = documents.read(ran[1] / "device-bench.json")
    warm = [(s["round"], s["loader"]) for s in document["files"][0]["samples"] if s["kind"] == "warm"]
    rounds = [[name for number, name in warm if number == n] for n in (1, 2)]
    assert sorted({*rounds[0]}) == sorted(rounds[0]) == sorted(rounds[1])
    assert rounds[0][0] != rounds[1][0]
    report = ran[1]
    for path in report.iterdir():
        for private in (str(report.parent), os.uname().nodename):
            assert private not in path.read_text("utf-8"), path
    assert sorted(path.name for path in report.parent.iterdir()) == ["report"]
    assert {p.suffix for p in report.iterdir()} == {".json", ".md", ".svg"}


def test_rendering_again_gives_the_same(ran: tuple[Result, Path], tmp_path: Path) -> None:
    source = ran[1] / "device-bench.json"
    result = call("--render", str(source), "--report", str(tmp_path))
    assert result.exit_code == 0
    for suffix in ("json", "md", "svg"):
        name = f"device-bench.{suffix}"
        assert (tmp_path / name).read_bytes() == (ran[1] / name).read_bytes()
    assert "flipped: wrong" in result.stdout
    twice = call("--render", str(source), "--render", str(source), "--json")
    assert len(json.loads(twice.stdout)["files"]) == 4


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (["--budget", "inf"], "inf is not a number of seconds", 2),
        (["--limit", "nan"], "nan is not a number of seconds", 2),
        (["--skip", "reference"], "all other loaders are compared with the reference", 2),
        (["--add", "reference-x=json:dumps"], "a loader with this name already exists", 2),
        (["--add", "x=json:dumps", "--add", "x=json:loads"], "a loader with this name already exists", 2),
        (["--add", "x"], "'x': expected NAME=VALUE", 2),
        (["--path", "typo=/nope"], "there is no loader with this name", 2),
        (["--loader", "nobody"], "there is no loader 'nobody'; available loaders: reference,", 2),
        (["--device", "cuda:²"], "device must be 'cpu' or an accelerator", 2),
        (["--device", "tpu"], "device must be 'cpu' or an accelerator", 2),
        (["--device", "cuda:99"], "device 'cuda:99' does not exist", 2),
        (["--folder", "no/such"], "--folder no/such is not a folder", 2),
        (["--megabytes", "999999999"], "GB", 2),
        (["--render", "none.json"], "none.json: cannot be read", 1),
    ],
)
def test_unusable_options_are_explained(arguments: list[str], words: str, status: int) -> None:
    result = call("--no-limits", *([] if "--megabytes" in arguments else ["--megabytes", "1"]), *arguments)
    assert (result.exit_code, words in result.output) == (status, True), result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("here")
def test_a_file_that_cannot_be_made_costs_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench_files.make

    def full(kind: str, *more: Any) -> Any:
        if kind == "llm":
            raise NotSavedError("x.safetensors: not saved: No space left on device")
        return real(kind, *more)

    monkeypatch.setattr(bench_files, "make", full)
    result = call("--megabytes", "1", "--warm", "1", "--no-limits", "--loader", "reference")
    assert result.exit_code == 1
    assert "Incomplete: failed: x.safetensors: not saved: No space left on device" in result.output
    assert "large, 4 GB or more" in result.output
    assert re.search(r"reference .* all bytes", result.output)


@pytest.mark.parametrize(
    ("visible", "index", "known_as"),
    [(None, 1, "1"), ("", 0, "0"), ("3,5", 1, "5"), ("GPU-1a, GPU-2b", 0, "GPU-1a"), ("2", 1, "1")],
)
def test_a_device_is_named_as_its_driver_names_it(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, index: int, known_as: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    run = Mock(side_effect=FileNotFoundError)
    monkeypatch.setattr(subprocess, "run", run)
    assert describe(f"cuda:{index}")["gpu"] is None
    assert f"--id={known_as}" in run.call_args_list[0].args[0]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_middle_of_a_load_keeps_what_was_measured(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = partial(os.kill, os.getpid(), number)
    monkeypatch.setattr(Here, "ask", at_turn(Here.ask, 4, interrupt))
    result = call("--file", "small", "--small", "20", "--warm", "1000", "--no-limits",
                  "--loader", "reference", "--folder", str(tmp_path), "--json")  # fmt: skip
    assert result.exit_code == 130
    document = json.loads(result.stdout)
    assert (document["complete"], document["stopped"]) == (False, "interrupted")
    assert [sample["kind"] for sample in document["files"][0]["samples"]] == ["first", "warm"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_time_that_is_used_up_is_told(tmp_path: Path) -> None:
    result = call("--file", "small", "--small", "20", "--budget", "1", "--no-limits", "--json",
                  "--loader", "reference", "--warm", "1000000", "--folder", str(tmp_path))  # fmt: skip
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["stopped"] == "the time budget of 1 seconds was used up"
    assert documents.invalid(document) is None


def test_limits_that_fail_say_why(tmp_path: Path, bare: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (Path(bare[1]) / "torch.py").write_text(
        "uint8 = 0\nclass empty:\n    __init__ = fill_ = lambda *_, **__: None"
    )
    monkeypatch.setenv("PYTHONPATH", bare[1])
    (row,) = limits_run.run(tmp_path / "none", "cpu", START)
    assert row["what"] == "failed"
    assert row["reason"] == "FileNotFoundError: [Errno 2] No such file or directory: 'none'"
