"""Runs with ``--device``: options, problems, records, expected failures, and pytest."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.cli.run import run
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.options import is_device
from safetensors_conformance.outcome import STEPS
from safetensors_conformance.run.baseline_update import failing_steps, update
from safetensors_conformance.run.driver import ImplementationResults, ImplementationRun, RunOptions
from safetensors_corpus import load_manifest
from safetensors_reports.known_failures import KnownError, load_baseline
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.run import read_record

from ...published_schemas import schema
from ..suite_runs import corpus_of, load_once, suite_here
from ..support import HERE, committed, fake
from ..support import device_loader as loader

GOOD, BAD = "framing/one-tensor", "framing/no-bytes"
TWO = "layout/two-dtypes"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("corpus"), GOOD, BAD, TWO, "framing/length-prefix")


@pytest.fixture(autouse=True)
def corpus(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_once(monkeypatch, few)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(run, arguments)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("selector", "device", "words"),
    [
        (loader("NeedsCuda"), "cpu", "it cannot load onto cpu: RuntimeError: this loader needs CUDA"),
        (loader("Arrays"), "cuda:0", "it cannot load onto cuda:0: its tensors are buffers in CPU memory"),
        (loader("OddMemory"), "cpu", "device_memory must be one of torch, buffers, not 'jax'"),
        (f"py:{HERE / 'no_torch_fakes.py'}:NoTorch", "cpu", "it needs torch, which cannot be imported"),
        ("reference", "cuda:9999", "it cannot load onto cuda:9999: torch"),
    ],
)
def test_a_device_that_cannot_be_taken_is_a_problem_and_no_result(
    selector: str, device: str, words: str, tmp_path: Path
) -> None:
    done = call("--impl", selector, "--device", device, "--case", GOOD, "--report", str(tmp_path))
    assert (done.exit_code, words in done.output, "Traceback" in done.output) == (2, True, False)
    assert not list(tmp_path.glob("*.jsonl"))


def test_without_step_or_option_nothing_is_loaded(tmp_path: Path) -> None:
    done = call("--impl", fake("AlwaysRejects"), "--device", "cpu", "--case", BAD, "--no-smoke")
    assert done.exit_code == 0
    assert "device cpu: not tested, because the implementation does not load onto devices" in done.output
    assert call("--case", GOOD, "--no-smoke", "--report", str(tmp_path)).exit_code == 0
    record = read_record(tmp_path / "reference.jsonl")
    assert {row["step"] for row in record.results} == {"open", "read"}
    assert "device" not in (*record.header, *record.implementation["steps"])
    done = call("--impl", loader("DeviceOnly"), "--case", GOOD)
    assert done.exit_code == 2
    assert "only loads onto devices; specify one: --device cuda:0" in done.output


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:01", "cuda:٣", "CPU", " cpu", ""])
def test_other_names_are_no_devices(name: str) -> None:
    assert not is_device(name)
    done = call("--device", name, "--case", GOOD)
    assert (done.exit_code, "a device must be cpu or a kind of accelerator" in done.output) == (2, True)


def test_the_record_holds_device_and_checks_and_fits_its_schema(tmp_path: Path, few: Path) -> None:
    done = call("--device", "cpu", "--case", "framing/*", "-q", "--report", str(tmp_path))
    assert done.exit_code == 0
    for line in (tmp_path / "reference.jsonl").read_text("utf-8").splitlines():
        jsonschema.validate(json.loads(line), schema("record"))
    record = read_record(tmp_path / "reference.jsonl")
    assert record.header["device"] == "cpu"
    # Files behind servers are read by another entry.
    assert record.implementation["steps"] == [step for step in STEPS if step not in ("remote", "export")]
    rows = [row for row in record.results if row["step"] == "device"]
    reading = [c.id for c in load_manifest(few).cases if c.id.startswith("framing/") and c.kind == "read"]
    assert len(reading) > 5
    assert [row["case"] for row in rows] == reading
    assert {c["name"] for c in rows[0]["checks"]} <= CHECKS.keys()
    refused = [row["checks"] for row in rows if row["outcome"] == "reject"]
    assert len(refused) > 1
    assert refused == [[{"name": "untouched", "status": "pass", "message": ""}]] * len(refused)
    assert f"device cpu: {len(rows)} files" in done.output
    assert f"untouched  {len(refused)} pass" in done.output


def test_a_full_run_is_complete_only_with_the_device(tmp_path: Path) -> None:
    """A corpus of reading cases needs one row per step; missing ones count as not run."""
    manifest = committed()
    subject = ImplementationRun(resolve(loader("Arrays")), RunOptions(manifest, smoke=False, device="cpu"))
    subject.close()
    light = [case for case in manifest.cases if not case.heavy]
    page = ImplementationResults(subject.target, tmp_path)
    page.header = subject.header or {}
    page.results = [{"case": c.id, "step": s, "wall_ms": 1.0} for c in light for s in c.steps]
    page.finish(manifest)
    assert page.footer is not None
    reading = sum(case.kind == "read" for case in light)
    assert (page.footer["complete"], page.footer["not_run"]) == (False, reading)


BOTH = '[[expected]]\ncase = "layout/two-dtypes"\nread = "wrong-reject"\ndevice = "wrong-reject"\n'


def steps_in(path: Path, device: str | None) -> dict[str, str]:
    entry = load_baseline(path, "1", None, device).find(TWO)
    return {} if entry is None else entry.steps


def failing(*steps: str) -> dict[str, dict[str, str]]:
    return failing_steps([{"case": TWO, "step": step, "verdict": "wrong-reject"} for step in steps])


def test_expected_failures_of_the_step_can_be_of_one_kind_of_device(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    both = dict.fromkeys(("read", "device"), "wrong-reject")
    for on, devices in (("", (None, "cuda:1")), ('on = "cuda"', ("cuda:1",))):
        path.write_text(f"{BOTH}{on}", "utf-8")
        assert all(steps_in(path, device) == both for device in devices)
    assert steps_in(path, "cpu") == {"read": "wrong-reject"}
    for text, says in (
        (BOTH + 'on = "gpu"', "on = 'gpu': this must be"),
        (BOTH.replace("device", 'on = "cpu" #'), "needs a verdict for device"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(KnownError, match=says):
            load_baseline(path, "1", None, None)


def test_rewriting_keeps_what_the_run_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    assert update(path, "x", failing("read", "device"), None, "cuda:0") == (0, 1, 0)
    assert steps_in(path, "cuda:0") == {"read": "wrong-reject", "device": "wrong-reject"}
    assert steps_in(path, "cpu") == {"read": "wrong-reject"}
    # Runs without a device, and on the other kind, in which all is well now.
    assert update(path, "x", {}, None, None) == (1, 0, 0)
    assert update(path, "x", {}, None, "cpu") == (1, 0, 0)
    assert steps_in(path, "cuda:0") == {"device": "wrong-reject"}
    # It fails on both kinds, then on none.
    assert update(path, "x", failing("device"), None, "cpu") == (1, 0, 0)
    assert steps_in(path, "cpu") == steps_in(path, "cuda:0") == {"device": "wrong-reject"}
    assert update(path, "x", {}, None, "cpu") == (0, 0, 1)
    assert steps_in(path, "cuda:0") == {}


ONE = ("-k", "test_device and layout/two-dtypes-")
ARRAYS = f"--impl={loader('Arrays')}"


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ((ARRAYS, "--device=cpu", *ONE), 0, "1 passed"),
        ((ARRAYS, *ONE), 5, "deselected"),  # nothing to run
        (("--device=gpu",), 4, "--device 'gpu': a device must be cpu or a kind of"),
        (
            (ARRAYS, "--device=cuda:9999", *ONE),
            1,
            f"start '{loader('Arrays')}': it cannot load onto cuda:9999",
        ),
    ],
)
def test_pytest_has_the_step_with_the_option_only(options: tuple[str, ...], status: int, words: str) -> None:
    done = suite_here(*options)
    assert (done.returncode, words in done.stdout + done.stderr) == (status, True), done.stdout


def test_pytest_shows_a_broken_promise(tmp_path: Path) -> None:
    options = (f"--impl={loader('ClearedArrays')}", "--device=cpu", "--no-smoke", *ONE)
    done = suite_here(*options)
    assert (done.returncode, "accept, but lifetime: tensor" in done.stdout) == (1, True)
    path = tmp_path / "known.toml"
    known = 'device = "deviation:content"\non = "cpu"\nwhy = "a fake"\nissue = "unreported"\n'
    path.write_text(f'[[expected]]\ncase = "{TWO}"\n{known}review_by = 2099-01-01\n', "utf-8")
    done = suite_here(*options, f"--baseline={path}")
    assert (done.returncode, "1 xfailed" in done.stdout) == (0, True), done.stdout


def test_entries_that_only_load_are_there_and_of_their_own_version() -> None:
    for selector, version in (("prefetch", "0.9.0rc1"), ("prefetch==0.9.0", "0.9.0")):
        env = resolve(f"safetensors:{selector}").environment
        assert env is not None
        assert (env.version, f"safetensors=={version}" in env.requires) == (version, True)
    done = CliRunner().invoke(impl, ["info", "safetensors"])
    assert "safetensors:prefetch: safe_open.prefetch onto a CUDA device" in done.output
