"""The atheris engine: runs the libFuzzer target in processes of its own and gathers what they found.

A target that dies takes one process with it and nothing else: the death is told, and another one goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from safetensors_reference.variables import child_variables

from ...findings import folder
from ...findings.finding import Finding
from .files import MAX_LEN, write_seeds
from .target import CANNOT_START, INTERRUPTED, environment_of, load_atheris


class TargetError(Exception):
    """The target cannot do what it was asked; the text is its own."""


@dataclass(frozen=True)
class Death:
    """A target that ended as no target should: a fault in this process, or in what was asked in it.

    Attributes:
        status: exit status; negative for a signal.
        data: the input that it worked on, where libFuzzer could write it.
        words: its last words.
    """

    status: int
    data: bytes | None
    words: str


@dataclass
class AtherisResult:
    """What a run did.

    Attributes:
        execs: inputs tried.
        seconds: wall time, starting included.
        findings: one of each signature, the smallest; those that lay in the output folder before are out.
        outcomes: what all answered -> how often.
        stages: how many inputs got past ``json``, past ``schema``, and were ``accepted``.
        rules: rule -> inputs that break it.
        tuples: different outcome tuples; of several processes the largest number.
        known: signature of an earlier finding -> how often it came up again.
        unstable: signature -> how often a fresh process gave the same answer again.
        deaths: targets that died.
        interrupted: ended by Ctrl-C.
    """

    execs: int = 0
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    outcomes: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    tuples: int = 0
    known: Counter[str] = field(default_factory=Counter)
    unstable: dict[str, int] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    interrupted: bool = False


def input_of(words: str) -> bytes | None:
    """Return the input that libFuzzer says it wrote to a file."""
    _, said, rest = words.partition("Test unit written to ")
    path = Path(rest.partition("\n")[0].strip())
    return path.read_bytes() if said and path.is_file() else None


def tally_of(path: Path) -> tuple[AtherisResult, str]:
    """Return the counts that one target wrote, and its folder of inputs; nothing when it wrote none."""
    try:
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return AtherisResult(), ""
    result = AtherisResult(
        execs=raw["execs"],
        seconds=raw["seconds"],
        outcomes=Counter(raw["outcomes"]),
        stages=Counter(raw["stages"]),
        rules=Counter(raw["rules"]),
        tuples=raw["tuples"],
        known=Counter(raw["known"]),
        unstable=raw["unstable"],
    )
    return result, raw["slots"]


MOST_STARTS = 20
"""Most processes that are started in place of dead ones; more would only say the same."""
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 20.0
"""Time for a target to end after it was asked to, before it is killed."""
INPUT_SECONDS = 60
"""Time for one input; making a finding smaller and asking again for it is part of it."""
_TAIL = 2000


def run_atheris(
    impls: Sequence[str],
    *,
    steps: Sequence[str] = ("read",),
    profile: str | None = None,
    seed: int = 1,
    max_execs: int | None = None,
    seconds: float | None = None,
    output: Path | None = None,
    corpus: Path | None = None,
    jobs: int = 1,
    env: Sequence[str] = (),
    progress: Callable[[AtherisResult], None] = lambda _: None,
) -> AtherisResult:
    """Run the atheris engine.

    Args:
        impls: selectors; ``reference`` and those with the prefix ``here:`` are asked inside the target.
        steps: what is asked; ``prove`` and ``check`` are questions for the reference alone.
        profile: whose options are demanded; None for undisputed musts only.
        seed: the same seed gives the same inputs in a run with ``max_execs``, one job and no corpus brought.
        max_execs: stop after so many inputs; None for no end.
        seconds: stop after so much time, rounded up to whole seconds; None for no end.
        output: folder for findings, and in ``deaths`` for inputs at which targets died; None keeps them in
            the result only.
        corpus: folder of inputs to start from, to which new ones are added.
        jobs: processes that work at the same time, with seeds that follow one another.
        env: names of variables that they get beside those that every tested program gets.
        progress: told the counts now and then.

    Raises:
        TargetError: the target does not start: an unknown selector, say.
        SystemExit: atheris is not installed; the text on standard error names the extra.
    """
    load_atheris()
    with tempfile.TemporaryDirectory(prefix="stc-atheris-") as name:
        return _Run(
            Path(name), impls, steps, profile, seed, max_execs, seconds, output, corpus, jobs, env, progress
        ).run()


class _Job:
    """One place for a target, which is filled again when the target dies."""

    def __init__(self, number: int, execs: int | None) -> None:
        self.number = number
        self.left = execs
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log = Path()


class _Run:
    def __init__(
        self,
        scratch: Path,
        impls: Sequence[str],
        steps: Sequence[str],
        profile: str | None,
        seed: int,
        max_execs: int | None,
        seconds: float | None,
        output: Path | None,
        corpus: Path | None,
        jobs: int,
        env: Sequence[str],
        progress: Callable[[AtherisResult], None],
    ) -> None:
        self.scratch, self.seed, self.seconds, self.progress = scratch, seed, seconds, progress
        self.keep = output is not None
        self.output = output if output is not None else scratch / "findings"
        self.tallies = scratch / "tallies"
        self.artifacts = self.output / "deaths" if self.keep else scratch / "deaths"
        self.corpus = corpus if corpus is not None else scratch / "corpus"
        for path in (self.output, self.tallies, self.corpus):
            path.mkdir(parents=True, exist_ok=True)
        most = None if max_execs is None else max_execs // (4 * jobs)
        self.seeds = write_seeds(scratch / "seeds", most)
        # A list, as a folder is read in the order of the disk, which is another one every time.
        self.seed_list = scratch / "seeds.txt"
        # Sets of texts come up in the same order every time, so that the same seed does the same.
        fixed = {"STC_FUZZ_RAISE": "", "PYTHONHASHSEED": "0"}
        told = environment_of(impls, steps, profile, self.output, self.tallies, env)
        # It imports what it tests, and finds the environments of others itself.
        self.environment = child_variables((*env, "STC_CACHE", "XDG_CACHE_HOME"), told | fixed)
        execs = [None if max_execs is None else (max_execs + i) // jobs for i in range(jobs)]
        self.jobs = [_Job(number, most) for number, most in enumerate(execs)]
        self.before = {path.parent for path in self.output.glob(f"*/{folder.DOCUMENT}")}
        self.deaths: list[Death] = []
        self.began = time.monotonic()

    def run(self) -> AtherisResult:
        interrupted = False
        try:
            for job in self.jobs:
                self._start(job)
            while any(job.process is not None for job in self.jobs):
                time.sleep(POLL_SECONDS)
                for job in self.jobs:
                    self._look(job)
                self.progress(self._result(interrupted=False, findings=False))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._end()
        return self._result(interrupted, findings=True)

    def _start(self, job: _Job) -> None:
        """Start a target with what is left to do; leave the place empty when that is nothing."""
        remaining = None if self.seconds is None else self.seconds - (time.monotonic() - self.began)
        spent = (job.left is not None and job.left <= 0) or (remaining is not None and remaining <= 0)
        if spent or job.starts > MOST_STARTS:
            return
        self.artifacts.mkdir(parents=True, exist_ok=True)
        # Seed 0 would be one that libFuzzer draws itself.
        seed = 1 + (self.seed - 1 + job.number + 1000 * job.starts) % (2**32 - 1)
        # Choosing inputs by entropy brings about 5 % more outcome tuples, but not the same ones for the same
        # seed, as a run of so many inputs must. No dictionary for the same reason; the grammar has its words.
        flags = {
            "seed": seed,
            "runs": -1 if job.left is None else job.left,
            "max_total_time": 0 if remaining is None else max(math.ceil(remaining), 1),
            "max_len": MAX_LEN,
            "timeout": INPUT_SECONDS,
            "seed_inputs": f"@{self.seed_list}",
            "entropic": int(job.left is None),
            # What others found is read from the folder that all write to; alone it would only cost.
            "reload": int(len(self.jobs) > 1),
            "artifact_prefix": f"{self.artifacts}/",
        }
        self.seed_list.write_text(",".join(map(str, self.seeds)), "utf-8")
        job.starts += 1
        job.log = self.scratch / f"log-{job.number}-{job.starts}"
        with job.log.open("wb") as log:
            job.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "safetensors_fuzz.engines.atheris.target"),
                    *(f"-{name}={value}" for name, value in flags.items()),
                    str(self.corpus),
                ],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _look(self, job: _Job) -> None:
        """See whether a target has ended, and go on in its place when it should not have."""
        if job.process is None or job.process.poll() is None:
            return
        status, pid = job.process.returncode, job.process.pid
        job.process = None
        if status in (0, INTERRUPTED):
            return
        words = job.log.read_bytes()[-_TAIL:].decode("utf-8", "replace")
        tally, slots = tally_of(self.tallies / f"{pid}.json")
        if status in (CANNOT_START, 1):  # 1: an exception before the first input
            lines = [line for line in words.splitlines() if line.startswith("stc-fuzz-target: ")]
            raise TargetError(lines[-1].partition(": ")[2] if lines else words.strip())
        death = Death(status, input_of(words), words)
        self.deaths.append(death)
        self._avoid(death.data)
        if slots:
            shutil.rmtree(slots, ignore_errors=True)
        if job.left is not None:
            job.left -= tally.execs
        self._start(job)

    def _avoid(self, data: bytes | None) -> None:
        """Leave out an input that a target died of: the next one would die of it before anything else."""
        if data is None:
            return
        self.seeds = [path for path in self.seeds if path.read_bytes() != data]
        # libFuzzer names what it keeps so.
        (self.corpus / hashlib.sha1(data, usedforsecurity=False).hexdigest()).unlink(missing_ok=True)

    def _end(self) -> None:
        """Ask the targets that still run to end, and see that they do."""
        running = [job.process for job in self.jobs if job.process is not None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        end = time.monotonic() + PATIENCE_SECONDS
        for process in running:
            try:
                process.wait(max(end - time.monotonic(), 0.1))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()
                process.wait()
        with contextlib.suppress(OSError):
            self.artifacts.rmdir()  # only when it is empty

    def _result(self, interrupted: bool, *, findings: bool) -> AtherisResult:
        out = AtherisResult(deaths=self.deaths, interrupted=interrupted)
        for path in self.tallies.glob("*.json"):
            one, _ = tally_of(path)
            out.execs += one.execs
            out.tuples = max(out.tuples, one.tuples)
            out.unstable.update(one.unstable)
            for mine, other in (
                (out.outcomes, one.outcomes),
                (out.stages, one.stages),
                (out.rules, one.rules),
                (out.known, one.known),
            ):
                mine.update(other)
        out.seconds = time.monotonic() - self.began
        if findings:
            out.findings = self._findings()
        return out

    def _findings(self) -> tuple[Finding, ...]:
        """Read the new findings back, one of each signature."""
        smallest: dict[str, Finding] = {}
        for path in sorted(self.output.glob(f"*/{folder.DOCUMENT}")):
            if path.parent in self.before:
                continue
            finding = folder.load(path)
            other = smallest.get(finding.signature)
            if other is None or finding.size < other.size:
                smallest[finding.signature] = finding
        return tuple(smallest.values())
