"""Runs with ``--device``: options, problems, records, expected failures, and pytest."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.cli.run import run
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.options import is_device
from safetensors_conformance.outcome import STEPS
from safetensors_conformance.run.baseline import failing_steps, update
from safetensors_conformance.run.driver import ImplementationResults, ImplementationRun, RunOptions
from safetensors_corpus import load_manifest
from safetensors_reports.known import KnownError, load_baseline
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.file import read_record

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
    done = CliRunner().invoke(
        run, ["--impl", selector, "--device", device, "--case", GOOD, "--report", str(tmp_path)]
    )
    assert done.exit_code == 2
    assert words in done.output
    assert "Traceback" not in done.output
    assert not list(tmp_path.glob("*.jsonl"))


def test_an_implementation_without_the_step_is_not_asked() -> None:
    chosen = ["--device", "cpu", "--case", BAD, "--no-smoke"]
    done = CliRunner().invoke(run, ["--impl", fake("AlwaysRejects"), *chosen])
    assert done.exit_code == 0
    assert "device cpu: not tested, because the implementation does not load onto devices" in done.output


def test_without_the_option_nothing_is_loaded_and_a_mere_loader_asks_for_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(run, ["--case", GOOD, "--no-smoke", "--report", str(tmp_path)])
    assert done.exit_code == 0
    record = read_record(tmp_path / "reference.jsonl")
    assert {row["step"] for row in record.results} == {"open", "read"}
    assert "device" not in (*record.header, *record.implementation["steps"])
    done = CliRunner().invoke(run, ["--impl", loader("DeviceOnly"), "--case", GOOD])
    assert done.exit_code == 2
    assert "only loads onto devices; specify one: --device cuda:0" in done.output


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:01", "cuda:٣", "CPU", " cpu", ""])
def test_other_names_are_no_devices(name: str) -> None:
    assert not is_device(name)
    done = CliRunner().invoke(run, ["--device", name, "--case", GOOD])
    assert done.exit_code == 2
    assert "a device must be cpu or a kind of accelerator" in done.output


def test_the_record_holds_device_and_checks_and_fits_its_schema(tmp_path: Path, few: Path) -> None:
    chosen = ["--device", "cpu", "--case", "framing/*", "-q", "--report", str(tmp_path)]
    done = CliRunner().invoke(run, chosen)
    assert done.exit_code == 0
    lines = (tmp_path / "reference.jsonl").read_text("utf-8").splitlines()
    check = jsonschema.Draft202012Validator(schema("record"))
    for line in lines:
        check.validate(json.loads(line))
    record = read_record(tmp_path / "reference.jsonl")
    assert record.header["device"] == "cpu"
    # Files behind servers are read by another entry.
    assert record.implementation["steps"] == [step for step in STEPS if step not in ("remote", "export")]
    rows = [row for row in record.results if row["step"] == "device"]
    reading = [c.id for c in load_manifest(few).cases if c.id.startswith("framing/") and c.kind == "read"]
    assert len(reading) > 5
    assert [row["case"] for row in rows] == reading
    assert {c["name"] for c in rows[0]["checks"]} <= CHECKS.keys()
    refused = [row for row in rows if row["outcome"] == "reject"]
    assert refused
    assert all(row["checks"] == [{"name": "untouched", "status": "pass", "message": ""}] for row in refused)
    assert f"device cpu: {len(rows)} files" in done.output
    assert f"untouched  {len(refused)} pass" in done.output


def test_a_full_run_is_complete_only_with_the_device(tmp_path: Path) -> None:
    """A corpus of reading cases needs one row per step; missing ones count as not run."""
    manifest = committed()
    subject = ImplementationRun(resolve(loader("Arrays")), RunOptions(manifest, smoke=False, device="cpu"))
    subject.close()
    assert subject.header is not None
    page = ImplementationResults(subject.target, tmp_path)
    page.header = subject.header
    page.results = [
        {"case": c.id, "step": s, "wall_ms": 1.0} for c in manifest.cases if not c.heavy for s in c.steps
    ]
    page.finish(manifest)
    assert page.footer is not None
    reading = sum(c.kind == "read" and not c.heavy for c in manifest.cases)
    assert (page.footer["complete"], page.footer["not_run"]) == (False, reading)


BOTH = 'case = "layout/two-dtypes"\nread = "wrong-reject"\ndevice = "wrong-reject"\n'


@pytest.mark.parametrize(
    ("on", "device", "loads"),
    [("", None, True), ("", "cuda:1", True), ('on = "cuda"', "cpu", False), ('on = "cuda"', "cuda:1", True)],
)
def test_expected_failures_of_the_step_can_be_of_one_kind_of_device(
    tmp_path: Path, on: str, device: str | None, loads: bool
) -> None:
    path = tmp_path / "b.toml"
    path.write_text(f"[[expected]]\n{BOTH}{on}", "utf-8")
    expected = {"read": "wrong-reject"} | ({"device": "wrong-reject"} if loads else {})
    assert steps_in(path, device) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOTH + 'on = "gpu"', "on = 'gpu': this must be"),
        ('case = "layout/two-dtypes"\nread = "wrong-reject"\non = "cpu"', "needs a verdict for device"),
    ],
)
def test_an_entry_for_no_device_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "b.toml").write_text(f"[[expected]]\n{text}", "utf-8")
    with pytest.raises(KnownError, match=says):
        load_baseline(tmp_path / "b.toml", "1", None, None)


def row(step: str, verdict: str = "wrong-reject") -> dict[str, str]:
    return {"case": TWO, "step": step, "verdict": verdict}


def steps_in(path: Path, device: str | None) -> dict[str, str]:
    entry = load_baseline(path, "1", None, device).find(TWO)
    return {} if entry is None else entry.steps


def test_rewriting_keeps_what_the_run_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    assert update(path, "x", failing_steps([row("read"), row("device")]), None, "cuda:0") == (0, 1, 0)
    assert steps_in(path, "cuda:0") == {"read": "wrong-reject", "device": "wrong-reject"}
    assert steps_in(path, "cpu") == {"read": "wrong-reject"}
    # Runs without a device, and on the other kind, in which all is well now.
    assert update(path, "x", {}, None, None) == (1, 0, 0)
    assert update(path, "x", {}, None, "cpu") == (1, 0, 0)
    assert steps_in(path, "cuda:0") == {"device": "wrong-reject"}
    # It fails on both kinds, then on none.
    assert update(path, "x", failing_steps([row("device")]), None, "cpu") == (1, 0, 0)
    assert steps_in(path, "cpu") == steps_in(path, "cuda:0") == {"device": "wrong-reject"}
    assert update(path, "x", {}, None, "cpu") == (0, 0, 1)
    assert steps_in(path, "cuda:0") == {}


ONE = ("-k", "test_device and layout/two-dtypes-")


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ((f"--impl={loader('Arrays')}", "--device=cpu", *ONE), 0, "1 passed"),
        ((f"--impl={loader('Arrays')}", *ONE), 5, "deselected"),  # nothing to run
        (("--device=gpu",), 2, "--device 'gpu': a device must be cpu or a kind of"),
        (
            ("--device=gpu", "--impl=reference"),
            4,
            "--device 'gpu': a device must be cpu or a kind of accelerator",
        ),
        (
            (f"--impl={loader('Arrays')}", "--device=cuda:9999", *ONE),
            1,
            f"problem: cannot start '{loader('Arrays')}': it cannot load onto cuda:9999",
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
    path.write_text(
        '[[expected]]\ncase = "layout/two-dtypes"\ndevice = "deviation:content"\non = "cpu"\n'
        'why = "a fake"\nissue = "unreported"\nreview_by = 2099-01-01\n',
        "utf-8",
    )
    done = suite_here(*options, f"--baseline={path}")
    assert (done.returncode, "1 xfailed" in done.stdout) == (0, True), done.stdout


def test_entries_that_only_load_are_there_and_of_their_own_version() -> None:
    for selector, version in (("prefetch", "0.9.0rc1"), ("prefetch==0.9.0", "0.9.0")):
        env = resolve(f"safetensors:{selector}").environment
        assert env is not None
        assert env.version == version
        assert f"safetensors=={version}" in env.requires
    done = CliRunner().invoke(impl, ["info", "safetensors"])
    assert "safetensors:prefetch: safe_open.prefetch onto a CUDA device" in done.output
