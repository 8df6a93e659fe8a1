"""The atheris engine. It runs libFuzzer targets in processes and replaces those that die."""

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

from safetensors_conformance.programs.variables import child_variables

from ...finding import Finding, bare
from ...findings import folder
from ...loop.recorder import Tally
from ..config import FuzzConfig, RunError
from . import CANNOT_START, INTERRUPTED
from .files import MAX_LEN, write_seeds
from .loop import TargetConfig
from .target import load_atheris


@dataclass(frozen=True)
class TargetDeath:
    """The unexpected death of a target, caused by a bug in the target or in code that it ran."""

    status: int
    data: bytes | None
    """Last input before the death, if libFuzzer could write it."""
    words: str


def input_of(words: str) -> bytes | None:
    """Read the input file whose name appears in libFuzzer's output."""
    _, mark, rest = words.partition("Test unit written to ")
    path = Path(rest.partition("\n")[0].strip())
    return path.read_bytes() if mark and path.is_file() else None


def tally_of(path: Path) -> tuple[Tally, str]:
    """Return the counts of a target and its folder of inputs, or empty values if it wrote none."""
    try:
        counts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return Tally(), ""
    slots: str = counts.pop("slots")
    return Tally.of_counts(counts), slots


MAX_RESTARTS = 20
"""Maximum number of replacements for a target. Further replacements would only die in the same way."""
POLL_SECONDS = 0.1
EXIT_SECONDS = 20.0
INPUT_SECONDS = 60
_TAIL = 2000


class _Job:
    """A target and the targets that replace it."""

    def __init__(self, number: int, execs: int | None) -> None:
        self.number, self.left, self.starts = number, execs, 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log = Path()


class AtherisRun:
    """A run of the atheris engine."""

    def __init__(
        self,
        config: FuzzConfig,
        scratch: Path,
        tally: Tally,
        keep: Callable[[Finding], None] = lambda _: None,
        progress: Callable[[Tally], None] = lambda _: None,
        known: Callable[[str], bool] = lambda _: False,
        output: Path | None = None,
    ) -> None:
        """Prepare a run. It is reproducible if it has ``max_execs``, a single job and no existing corpus.

        The folder ``deaths`` in ``output`` receives the inputs that killed targets.
        """
        self.config, self.scratch, self.tally, self.deaths = config, scratch, tally, list[TargetDeath]()
        self._keep, self._progress, self._known = keep, progress, known
        self.output = output if output is not None else scratch / "findings"
        self.tallies = scratch / "tallies"
        self.artifacts = scratch / "deaths" if output is None else output / "deaths"
        self.corpus = config.corpus if config.corpus is not None else scratch / "corpus"
        self.seeds: list[Path] = []
        # Pass libFuzzer a list of the files, because the order in which a folder lists them varies.
        self.seed_list = scratch / "seeds.txt"
        env = config.limits.confinement.env
        target_config = TargetConfig(
            config.impls, config.steps, config.profile, self.output, self.tallies, env=env
        )
        # The hash seed fixes the iteration order of sets, which makes runs reproducible. The cache variables
        # allow targets to find the environments.
        fixed = {"PYTHONHASHSEED": "0"}
        self.environment = child_variables(
            (*env, "STC_CACHE", "XDG_CACHE_HOME"), target_config.variables() | fixed
        )
        most, count = config.max_execs, config.jobs
        self.jobs = [_Job(n, None if most is None else (most + n) // count) for n in range(count)]
        self.before = {path.parent for path in self.output.glob(f"*/{folder.DOCUMENT}")}
        self.began = time.monotonic()

    def do(self) -> None:
        """Run the targets. Raises RunError if one does not start, and SystemExit if atheris is missing."""
        load_atheris()
        for path in (self.output, self.tallies, self.corpus):
            path.mkdir(parents=True, exist_ok=True)
        most = self.config.max_execs
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
                    self._restart_if_dead(job)
                self._count()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._end()
        self._count()
        smallest: dict[str, Finding] = {}
        for path in sorted(self.output.glob(f"*/{folder.DOCUMENT}")):
            if path.parent not in self.before:
                finding = folder.load(path)
                other = smallest.get(finding.signature, finding)
                smallest[finding.signature] = min(other, finding, key=lambda f: f.size)
        for finding in smallest.values():
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
        seconds = self.config.seconds
        remaining = None if seconds is None else seconds - (time.monotonic() - self.began)
        spent = (job.left is not None and job.left <= 0) or (remaining is not None and remaining <= 0)
        if spent or job.starts > MAX_RESTARTS:
            return
        self.artifacts.mkdir(parents=True, exist_ok=True)
        # libFuzzer replaces seed 0 with a random seed.
        seed = 1 + (self.config.seed - 1 + job.number + 1000 * job.starts) % (2**32 - 1)
        # Entropic scheduling finds about 5 % more outcome tuples but is not reproducible, so runs with a
        # fixed number of inputs disable it. A dictionary would not be reproducible either, and the grammar
        # has its own vocabulary.
        flags = {
            "seed": seed,
            "runs": -1 if job.left is None else job.left,
            "max_total_time": 0 if remaining is None else max(math.ceil(remaining), 1),
            "max_len": MAX_LEN,
            "timeout": INPUT_SECONDS,
            "seed_inputs": f"@{self.seed_list}",
            "entropic": int(job.left is None),
            # Rereading the shared folder is useful only if there are several jobs.
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

    def _restart_if_dead(self, job: _Job) -> None:
        if job.process is None or job.process.poll() is None:
            return
        status, pid = job.process.returncode, job.process.pid
        job.process = None
        if status in (0, INTERRUPTED):
            return
        words = job.log.read_bytes()[-_TAIL:].decode("utf-8", "replace")
        tally, slots = tally_of(self.tallies / f"{pid}.json")
        # libFuzzer exits with status 1 if an exception occurs before the first input
        if status in (CANNOT_START, 1):
            lines = [line for line in words.splitlines() if line.startswith("stc-fuzz-target: ")]
            raise RunError(lines[-1].partition(": ")[2] if lines else words.strip())
        death = TargetDeath(status, input_of(words), words)
        self.deaths.append(death)
        if death.data is not None:  # the next target must not start with the input that killed this target
            self.seeds = [path for path in self.seeds if path.read_bytes() != death.data]
            # the prefix follows libFuzzer's naming scheme
            name = hashlib.sha1(death.data, usedforsecurity=False).hexdigest()
            (self.corpus / name).unlink(missing_ok=True)
        if slots:
            shutil.rmtree(slots, ignore_errors=True)
        if job.left is not None:
            job.left -= tally.execs
        self._start(job)

    def _end(self) -> None:
        running = [job.process for job in self.jobs if job.process is not None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        end = time.monotonic() + EXIT_SECONDS
        for process in running:
            try:
                process.wait(max(end - time.monotonic(), 0.1))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()
                process.wait()
        with contextlib.suppress(OSError):
            self.artifacts.rmdir()
