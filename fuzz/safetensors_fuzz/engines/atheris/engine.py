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
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors_conformance.worker.variables import child_variables

from ...findings import folder
from ...findings.finding import Finding, bare
from ...loop.recorder import Tally
from ..order import Order, RunError
from . import CANNOT_START, INTERRUPTED
from .files import MAX_LEN, write_seeds
from .loop import Config
from .target import load_atheris


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


def input_of(words: str) -> bytes | None:
    """Return the input that libFuzzer says it wrote to a file."""
    _, said, rest = words.partition("Test unit written to ")
    path = Path(rest.partition("\n")[0].strip())
    return path.read_bytes() if said and path.is_file() else None


def tally_of(path: Path) -> tuple[Tally, str]:
    """Return the counts that one target wrote, and its folder of inputs; nothing when it wrote none."""
    try:
        counts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return Tally(), ""
    slots: str = counts.pop("slots")
    return Tally.of_counts(counts), slots


MOST_STARTS = 20
"""Most processes that are started in place of dead ones; more would only say the same."""
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 20.0
"""Time for a target to end after it was asked to, before it is killed."""
INPUT_SECONDS = 60
"""Time for one input; making a finding smaller and asking again for it is part of it."""
_TAIL = 2000


class _Job:
    """One place for a target, which is filled again when the target dies."""

    def __init__(self, number: int, execs: int | None) -> None:
        self.number = number
        self.left = execs
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log = Path()


class AtherisRun:
    """A run of the engine.

    Attributes:
        tally: what was done, also after Ctrl-C; of one signature the smallest finding.
        deaths: targets that died.
        environment: variables of the targets.
    """

    def __init__(
        self,
        order: Order,
        scratch: Path,
        tally: Tally,
        keep: Callable[[Finding], None] = lambda _: None,
        progress: Callable[[Tally], None] = lambda _: None,
        known: Callable[[str], bool] = lambda _: False,
        output: Path | None = None,
    ) -> None:
        """Say what is to be done; nothing is started.

        Args:
            order: the run. Selectors ``reference`` and those with the prefix ``here:`` are asked inside the
                target. The same seed gives the same inputs in a run with ``max_execs``, one job and no corpus
                brought; seconds are rounded up to whole ones; the jobs have seeds that follow one another.
            scratch: folder for what is needed during the run.
            tally: filled in.
            keep: takes each finding in the end.
            progress: told the counts now and then.
            known: says of a signature whether it is known; such ones stay quiet.
            output: folder for findings, and in ``deaths`` for inputs at which targets died; what lies in it
                is known. None leaves both in ``scratch``.
        """
        self.order, self.scratch, self.tally, self.deaths = order, scratch, tally, list[Death]()
        self._keep, self._progress, self._known = keep, progress, known
        self.output = output if output is not None else scratch / "findings"
        self.tallies = scratch / "tallies"
        self.artifacts = scratch / "deaths" if output is None else output / "deaths"
        self.corpus = order.corpus if order.corpus is not None else scratch / "corpus"
        self.seeds: list[Path] = []
        # A list, as a folder is read in the order of the disk, which is another one every time.
        self.seed_list = scratch / "seeds.txt"
        env = order.limits.confinement.env
        config = Config(order.impls, order.steps, order.profile, self.output, self.tallies, env=env)
        # Sets of texts come up in the same order every time, so that the same seed does the same. A target
        # imports what it tests, and finds the environments of others itself.
        fixed = {"PYTHONHASHSEED": "0"}
        self.environment = child_variables((*env, "STC_CACHE", "XDG_CACHE_HOME"), config.variables() | fixed)
        most, count = order.max_execs, order.jobs
        self.jobs = [_Job(n, None if most is None else (most + n) // count) for n in range(count)]
        self.before = {path.parent for path in self.output.glob(f"*/{folder.DOCUMENT}")}
        self.began = time.monotonic()

    def do(self) -> None:
        """Run the targets, and gather what they found, also after Ctrl-C.

        Raises:
            RunError: a target does not start: an unknown selector, say. The text is its own.
            SystemExit: atheris is not installed; the text on standard error names the extra.
        """
        load_atheris()
        for path in (self.output, self.tallies, self.corpus):
            path.mkdir(parents=True, exist_ok=True)
        most = self.order.max_execs
        self.seeds = write_seeds(
            self.scratch / "seeds", None if most is None else most // (4 * len(self.jobs))
        )
        interrupted = False
        try:
            for job in self.jobs:
                self._start(job)
            while any(job.process is not None for job in self.jobs):
                time.sleep(POLL_SECONDS)
                for job in self.jobs:
                    self._look(job)
                self._count()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._end()
        self._count()
        for finding in self._findings():
            if self._known(bare(finding.signature)) or self._known(finding.signature):
                self.tally.known[finding.signature] += 1
            else:
                self.tally.findings[finding.signature] = finding
                self._keep(finding)
        for death in self.deaths:
            words = death.words[-200:].strip()
            self.tally.unstable[f"a target died with status {death.status}: {words}"] = 0
        if interrupted:
            raise KeyboardInterrupt

    def _count(self) -> None:
        self.tally.sum_up(tally_of(path)[0] for path in self.tallies.glob("*.json"))
        self.tally.seconds = time.monotonic() - self.began
        self._progress(self.tally)

    def _start(self, job: _Job) -> None:
        seconds = self.order.seconds
        remaining = None if seconds is None else seconds - (time.monotonic() - self.began)
        spent = (job.left is not None and job.left <= 0) or (remaining is not None and remaining <= 0)
        if spent or job.starts > MOST_STARTS:
            return
        self.artifacts.mkdir(parents=True, exist_ok=True)
        # Seed 0 would be one that libFuzzer draws itself.
        seed = 1 + (self.order.seed - 1 + job.number + 1000 * job.starts) % (2**32 - 1)
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
            raise RunError(lines[-1].partition(": ")[2] if lines else words.strip())
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

    def _findings(self) -> tuple[Finding, ...]:
        smallest: dict[str, Finding] = {}
        for path in sorted(self.output.glob(f"*/{folder.DOCUMENT}")):
            if path.parent in self.before:
                continue
            finding = folder.load(path)
            other = smallest.get(finding.signature)
            if other is None or finding.size < other.size:
                smallest[finding.signature] = finding
        return tuple(smallest.values())
