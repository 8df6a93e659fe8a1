"""The step ``device``: requests, results for faulty loaders and on a simulated accelerator, runs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.case_verdict import StepVerdict, explain_failure, only_checks, result_row
from safetensors_conformance.cli.impl import impl
from safetensors_conformance.cli.run import run
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.options import is_device
from safetensors_conformance.outcome import STEPS
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.protocol_check.conversation import SCHEMA, validate
from safetensors_conformance.run.baseline_update import failing_steps, update
from safetensors_conformance.run.driver import ImplementationResults, ImplementationRun, RunOptions
from safetensors_conformance.run.session import Session, smoke
from safetensors_conformance.worker.worker import Limits, StartError
from safetensors_corpus import load_manifest
from safetensors_reports.known_failures import KnownError, load_baseline
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.file import read_record

from ...published_schemas import schema
from ..suite_runs import corpus_of, load_once, suite_here
from ..support import NEIGHBOURS, cases, committed, fake, stdio
from ..support import device_loader as loader

GOOD, BAD = "framing/one-tensor", "framing/no-bytes"
TWO = "layout/two-dtypes"


class OneProcess:
    """Fakes that load through torch, in one process: its import takes longer than all that they do."""

    def __init__(self, session: Session, name: Path) -> None:
        self.session, self._name = session, name

    def choose(self, name: str) -> Session:
        """Return the session, in which the fake of this name answers now."""
        self._name.write_text(name, encoding="utf-8")
        self.session._verdicts.clear()
        return self.session

    def judged(self, name: str, case: str) -> StepVerdict:
        return self.choose(name).judge(cases(case)[0]).steps["device"]


@contextmanager
def one_process(folder: Path, device: str, seconds: float, *env: str) -> Iterator[OneProcess]:
    name = folder / "name"
    name.write_text("Right", encoding="utf-8")
    limits = Limits(seconds, confinement=Confinement(env=("STC_CHOSEN", *env)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STC_CHOSEN", str(name))
        with Session(resolve(loader("Chosen")), limits, device=device) as session:
            yield OneProcess(session, name)


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    with one_process(tmp_path_factory.mktemp("chosen"), "cpu", 10.0) as process:
        yield process


def judged(selector: str, case: str) -> StepVerdict:
    """Judge one case in a process of its own."""
    with Session(resolve(selector), Limits(10.0), device="cpu") as session:
        return session.judge(cases(case)[0]).steps["device"]


def statuses(verdict: StepVerdict) -> dict[str, str]:
    return {check.name: check.status for check in verdict.result.checks}


def told(verdict: StepVerdict, name: str) -> str:
    return next(check.message for check in verdict.result.checks if check.name == name)


KNOWN_ON_THE_CPU = dict.fromkeys(("alignment", "kept", "lifetime", "threads", "stopped"), "pass")
KNOWN_ON_THE_CPU |= dict.fromkeys(("stream", "peak", "returned"), "unknown")


def test_a_loader_that_is_right_passes_and_what_the_cpu_does_not_show_is_not_known(fakes: OneProcess) -> None:
    for verdict in (fakes.judged("Right", TWO), judged(loader("Arrays"), TWO)):
        assert verdict.verdict == "pass"
        assert statuses(verdict) == KNOWN_ON_THE_CPU
        assert told(verdict, "stream") == "the CPU has no streams"
    (case,) = cases(TWO)
    assert case.expect is not None
    assert case.expect.content is not None
    assert fakes.judged("Right", TWO).result.tensors == case.expect.content["tensors"]


REPEATED = ("kept", "lifetime", "threads", "stopped")


@pytest.mark.parametrize(
    ("name", "case", "verdict", "failed", "words"),
    [
        ("Unaligned", TWO, "not-strict", ("alignment",), "not a multiple of"),
        ("ClearedAtTheEnd", TWO, "deviation:content", ("lifetime",), "different bytes after the rest of its"),
        ("OneBuffer", TWO, "deviation:content", ("threads",), "different bytes when two threads load at the"),
        ("OneThread", TWO, "deviation:content", ("threads",), "fails (RuntimeError: load from the main"),
        ("OnceOnly", TWO, "deviation:content", REPEATED, "loading the file again failed (OSError: the file"),
        ("OtherBytes", TWO, "wrong-content", (), "other bytes than the file contains"),
        ("AcceptsAll", BAD, "wrong-accept", (), "accept, 0 tensors"),
        ("NoTensor", GOOD, "harness-error", (), "tensor 'w' is str"),
    ],
)
def test_a_broken_promise_is_named_and_counts_what_it_is_worth(
    fakes: OneProcess, name: str, case: str, verdict: str, failed: tuple[str, ...], words: str
) -> None:
    found = fakes.judged(name, case)
    assert (found.verdict, only_checks(found)) == (verdict, bool(failed))
    assert words in found.detail
    if failed:
        assert found.result.outcome == "accept"
        assert statuses(found) == {**KNOWN_ON_THE_CPU, **dict.fromkeys(failed, "fail")}
        assert words in told(found, failed[0])
        assert found.detail.startswith(f"{failed[0]}: ")


def test_a_refused_file_must_not_have_taken_memory(fakes: OneProcess) -> None:
    found = fakes.judged("TakesFirst", NEIGHBOURS[1])
    assert found.result.outcome == "reject"
    assert found.verdict == "not-strict"
    assert "bytes of device memory were allocated before the file was rejected" in found.detail
    clean = fakes.judged("Right", NEIGHBOURS[1])
    assert (clean.verdict, statuses(clean)) == ("pass", {"untouched": "pass"})
    assert statuses(judged(loader("DeviceOnly"), BAD)) == {"untouched": "unknown"}  # it does not count


@pytest.mark.parametrize(
    ("name", "words", "last"),
    [
        ("Dies", "crash", ""),
        ("LosesDevice", "crash", "CUDA error: an illegal memory access"),
        ("NoRoom", "exhausted: MemoryError: OutOfMemoryError: tried to allocate 2 GiB", ""),
    ],
)
def test_what_takes_the_process_down_says_so_and_leaves_the_other_files_alone(
    name: str, words: str, last: str
) -> None:
    with Session(resolve(loader(name)), Limits(10.0), device="cpu") as session:
        wanted = cases(NEIGHBOURS[0], GOOD, NEIGHBOURS[1], TWO)
        session.plan(wanted)
        verdicts = [session.judge(case).steps["device"] for case in wanted]
    assert [found.verdict for found in verdicts] == ["pass", "unsafe", "pass", "pass"]
    assert words in verdicts[1].detail
    assert not only_checks(verdicts[1])
    assert last in verdicts[1].result.stderr


def test_a_broken_promise_is_not_blamed_on_the_adapter(fakes: OneProcess) -> None:
    for name, complains in (("ClearedAtTheEnd", False), ("OtherBytes", True)):
        assert (smoke(fakes.choose(name), committed().cases) is not None) is complains


def test_the_failure_shows_rule_words_and_device(fakes: OneProcess) -> None:
    session = fakes.choose("OneBuffer")
    verdict = session.judge(cases(TWO)[0])
    row = result_row(verdict, "device", expected_failure=False)
    text = explain_failure(session.start(), verdict.case, row, None, "cpu")
    assert "API-16 (must): Threads that read at the same time" in text
    assert "got       accept, but threads: tensor" in text
    assert text.endswith(f"--case {TWO} --device cpu")


def test_a_program_is_told_the_device_and_tells_what_it_looked_into() -> None:
    checks = [{"name": "lifetime", "status": "fail", "message": "gone"}]
    answer = json.dumps({"outcome": "accept", "tensors": [], "checks": checks})
    selector = stdio("device", shlex.quote(answer), isolated=True)
    with Session(resolve(selector), Limits(10.0), device="cpu") as session:
        assert session.start().version == "cpu"
        found = session.judge(cases("framing/empty-container-bare")[0]).steps["device"]
    assert (found.verdict, found.detail) == ("deviation:content", "lifetime: gone")
    with (
        Session(resolve(selector), device="cuda:0") as session,
        pytest.raises(StartError, match="no cuda:0 here"),
    ):
        session.start()
    with Session(resolve(selector)) as session:
        who = session.start()
        assert (who.version, who.steps, who.loads) == ("none", (), True)


def test_the_schema_knows_all_checks() -> None:
    schema = json.loads(SCHEMA.read_bytes())
    assert schema["$defs"]["check"]["properties"]["name"]["enum"] == list(CHECKS)
    validate({"cmd": "start", "protocol": 1, "profile": None, "device": "cuda:1"}, "startRequest", b"")


# On a simulated accelerator, in the process of the reader as on a real one


CASE = "entry/names-of-fields"
FULL = KNOWN_ON_THE_CPU | dict.fromkeys(("stream", "peak", "returned"), "pass")
SIMULATED = {
    "framing/one-tensor": FULL | {"kept": "unknown"},
    "layout/two-dtypes": FULL,
    "framing/no-bytes": {"untouched": "pass"},
    "layout/hole-between-two": {"untouched": "pass"},
}


ENV = ("SIMULATED_TYPE", "SIMULATED_DELAY")


@pytest.fixture(scope="module")
def accelerator(simulated_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from ...simulated_device import install

    folder = tmp_path_factory.mktemp("backend")
    install(simulated_library, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("SIMULATED_TYPE", "npu")  # a name that the official library accepts
        patch.setenv("SIMULATED_DELAY", "10000")
        yield "npu:1"


@pytest.fixture(scope="module")
def simulated_fakes(accelerator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    with one_process(tmp_path_factory.mktemp("chosen"), accelerator, 30.0, *ENV) as process:
        yield process


@pytest.mark.parametrize(
    "selector", ["reference", pytest.param("safetensors:torch", marks=pytest.mark.nightly)]
)
def test_readers_pass_every_check(selector: str, accelerator: str) -> None:
    limits = Limits(30.0, confinement=Confinement(env=ENV))
    with Session(resolve(selector), limits, device=accelerator) as session:
        for case, expected in SIMULATED.items():
            verdict = session.judge(committed().by_id[case]).steps["device"]
            assert (case, verdict.verdict, statuses(verdict)) == (case, "pass", expected), verdict


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("ReusedBuffer", {"lifetime": "after the rest of its file was dropped", "kept": "loader continued"}),
        ("ThreeCopies", {"peak": "the load needed"}),
        ("Interrupted", {"stopped": "bytes of device memory remain in use after an early stop"}),
        ("KeepsMemory", {"returned": "bytes of device memory remain in use after everything was dropped"}),
    ],
)
def test_a_broken_promise_is_noticed(name: str, broken: dict[str, str], simulated_fakes: OneProcess) -> None:
    verdict = simulated_fakes.judged(name, CASE)
    failed = {item.name: item.message for item in verdict.result.checks if item.status == "fail"}
    for check, words in broken.items():
        assert words in failed[check], verdict


def test_copies_that_nothing_waits_for_are_wrong_content(simulated_fakes: OneProcess) -> None:
    assert simulated_fakes.judged("LateCopies", CASE).verdict == "wrong-content"


# Runs with ``--device``: options, problems, records, expected failures, and pytest


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
        ("reference", "cuda:9999", "it cannot load onto cuda:9999: torch"),
    ],
)
def test_a_device_that_is_not_there_is_a_problem(
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
        ((ARRAYS, "--device=cuda:9999", *ONE), 1, f"'{loader('Arrays')}': it cannot load onto cuda:9999"),
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
