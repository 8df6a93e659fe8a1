"""The atheris engine, which runs libFuzzer targets in separate processes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors_conformance.implementations.selectors import SelectorError
from safetensors_conformance.worker.worker import StartError

from ...finding import DOCUMENT, Finding, bare, load
from ..campaign import Tally
from ..run import FuzzConfig, RunError, known_signatures
from . import CANNOT_START
from .files import MAX_LEN, write_seeds
from .loop import TargetConfig, subjects_of
from .target import load_atheris

POLL_SECONDS = 0.1
EXIT_SECONDS = 20.0
INPUT_SECONDS = 60
NO_FIRST_INPUT = 1
"""Exit status of libFuzzer after an exception before the first input."""
_DEATH = re.compile(r"^.*ERROR: (libFuzzer: .*)$", re.MULTILINE)


def run(
    config: FuzzConfig, keep: Callable[[Finding], None], progress: Callable[[Tally], None], tally: Tally
) -> None:
    """Check the configuration and run targets. Raises RunError, and SystemExit if atheris is missing."""
    targets = config.targets()
    config = config.fitted()
    if config.plan_steps:
        raise RunError(
            f"the atheris engine generates only files, but the {config.plan_steps[0]} step does not use files"
        )
    if config.limits.confinement.sandbox is not None:
        raise RunError(
            "the atheris engine imports the tested library outside the sandbox; choose another engine"
        )
    known = known_signatures(config.triage, [target.plain() for target in targets])
    run_atheris(config, tally, keep, progress, known)


def run_atheris(
    config: FuzzConfig,
    tally: Tally,
    keep: Callable[[Finding], None] = lambda _: None,
    progress: Callable[[Tally], None] = lambda _: None,
    known: Callable[[str], bool] = lambda _: False,
) -> None:
    """Run targets. Raises RunError if a subject does not start, and SystemExit if atheris is missing.

    If the number of inputs is limited, each job is one target with its own seed. A single job is then
    reproducible, provided that there is no existing corpus. Without a limit, libFuzzer's fork mode runs the
    jobs. Fork mode replaces targets that die, but it restarts the subjects with each target and would exceed
    a limit on the number of inputs.
    """
    load_atheris()
    with tempfile.TemporaryDirectory(prefix="stc-atheris-") as name:
        scratch = Path(name)
        limits = config.limits
        findings, tallies = scratch / "findings", scratch / "tallies"
        target = TargetConfig(
            config.impls, config.steps, config.profile, findings, tallies, env=limits.confinement.env
        )
        try:
            # Start the subjects here first. If they failed to start in a target in fork mode, the reason
            # would be lost.
            for subject in subjects_of(target):
                subject.close()
        except (StartError, SelectorError, ValueError) as err:
            raise RunError(str(err)) from err
        commands = _commands(config, scratch)
        logs = [scratch / f"log-{number}" for number in range(len(commands))]
        environment = {**target.environment(), "TMPDIR": name}
        began = time.monotonic()
        processes = []
        try:
            for command, path in zip(commands, logs, strict=True):
                with path.open("wb") as log:
                    # A process in fork mode ignores SIGINT while its targets run, so the signal must reach
                    # the whole session.
                    process = subprocess.Popen(
                        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                        start_new_session=True,
                    )  # fmt: skip
                processes.append(process)
            while any(process.poll() is None for process in processes):
                time.sleep(POLL_SECONDS)
                _count(tally, tallies, began)
                progress(tally)
        finally:
            _end(processes)
            for slots in _count(tally, tallies, began):
                shutil.rmtree(slots, ignore_errors=True)  # a target that dies leaves its inputs behind
            for path in logs[: len(processes)]:
                for words in _DEATH.findall(path.read_text("utf-8", "replace")):
                    tally.unstable[f"a target died: {words}"] = 0
            _collect(findings, tally, keep, known)
        for process, path in zip(processes, logs, strict=True):
            if process.returncode in (CANNOT_START, NO_FIRST_INPUT):
                raise RunError(path.read_text("utf-8", "replace")[-2000:].strip())


def _commands(config: FuzzConfig, scratch: Path) -> list[list[str]]:
    """Create the folders and return the command line of each process."""
    script = shutil.which(
        "stc-fuzz-target", path=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
    )
    if script is None:
        raise RunError("the script stc-fuzz-target is not on the PATH; install this package again")
    # In fork mode, libFuzzer restarts the script through a shell without quoting anything, so no argument may
    # contain a path given by the user.
    target, corpus, seeds = (scratch / name for name in ("target", "corpus", "seeds"))
    target.symlink_to(script)
    if config.corpus is not None:
        config.corpus.mkdir(parents=True, exist_ok=True)
        corpus.symlink_to(config.corpus.resolve())
    for path in (corpus, scratch / "findings", scratch / "tallies", scratch / "artifacts"):
        path.mkdir(exist_ok=True)
    most, jobs = config.max_execs, config.jobs
    files = write_seeds(seeds, None if most is None else most // (4 * jobs))
    common = [
        str(target),
        f"-max_len={MAX_LEN}",
        f"-timeout={INPUT_SECONDS}",
        f"-max_total_time={math.ceil(config.seconds or 0)}",
        f"-artifact_prefix={scratch}/artifacts/",
    ]
    # libFuzzer replaces seed 0 with a random seed.
    numbers = [1 + (config.seed - 1 + job) % (2**32 - 1) for job in range(jobs)]
    if most is None:
        ignored = [f"-ignore_{kind}=1" for kind in ("crashes", "timeouts", "ooms")]
        return [[*common, f"-seed={numbers[0]}", f"-fork={jobs}", *ignored, str(corpus), str(seeds)]]
    # Pass libFuzzer a list of the files, because the order of a folder listing varies.
    (scratch / "seeds.txt").write_text(",".join(map(str, files)), "utf-8")
    common.append(f"-seed_inputs=@{scratch}/seeds.txt")
    # Neither Entropic scheduling nor a dictionary is reproducible, and the grammar already provides a
    # vocabulary. Rereading the shared folder is useful only if there are several jobs.
    common += ["-entropic=0", f"-reload={int(jobs > 1)}", str(corpus)]
    return [[*common, f"-seed={seed}", f"-runs={(most + job) // jobs}"] for job, seed in enumerate(numbers)]


def _count(tally: Tally, tallies: Path, began: float) -> list[str]:
    """Add up the counts of all targets and return their input folders."""
    rows = [json.loads(path.read_bytes()) for path in tallies.glob("*.json")]
    slots = [row.pop("slots") for row in rows]
    tally.sum_up(map(Tally.of_counts, rows))
    tally.seconds = time.monotonic() - began
    return [path for path in slots if path]


def _collect(
    findings: Path, tally: Tally, keep: Callable[[Finding], None], known: Callable[[str], bool]
) -> None:
    smallest: dict[str, Finding] = {}
    for path in sorted(findings.glob(f"*/{DOCUMENT}")):
        finding = load(path)
        other = smallest.get(finding.signature, finding)
        smallest[finding.signature] = min(other, finding, key=lambda f: f.size)
    for finding in smallest.values():
        if known(bare(finding.signature)) or known(finding.signature):
            tally.known[finding.signature] += 1
        else:
            tally.known.pop(finding.signature, None)  # a target counts findings of other targets as known
            tally.findings[finding.signature] = finding
            keep(finding)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    running = [process for process in processes if process.poll() is None]
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    end = time.monotonic() + EXIT_SECONDS
    for process in running:
        try:
            process.wait(max(end - time.monotonic(), 0.1))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
