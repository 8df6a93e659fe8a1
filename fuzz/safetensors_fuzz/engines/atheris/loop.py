"""The work of the libFuzzer target on each input: run, judge, record."""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from safetensors_conformance.implementations.selectors import SelectorError, resolve
from safetensors_conformance.worker.confinement import Confinement
from safetensors_conformance.worker.outcome import StepResult
from safetensors_conformance.worker.worker import Limits, StartError
from safetensors_corpus.author.file import tensor_row
from safetensors_corpus.judging.answer import Refused
from safetensors_reference import PROFILES
from safetensors_reference.rules.book import ProfileName

from ...findings import folder
from ...findings.finding import Finding
from ...grammar.model import File
from ...loop.recorder import Settings, Tally
from ...loop.subjects import INNER, CallSubject, ProveSubject, Slots, Subject, WorkerSubject, complete
from ..campaign import Campaign, class_of
from . import CANNOT_START, INTERRUPTED
from .mutator import Mutator

HERE = "here:"
"""Prefix of a selector that runs in this process: fast, but its death kills the target."""
_OFFICIAL = "safetensors"
_REFERENCE = "reference"


DEFAULTS = {
    "IMPLS": "reference",
    "STEPS": "read",
    "PROFILE": "",
    "OUTPUT": "",
    "ENV": "",
    "TALLY": "",
    "RAISE": "",
}


@dataclass(frozen=True)
class TargetConfig:
    """Configuration of the target; ``target`` documents the variables."""

    impls: tuple[str, ...]
    steps: tuple[str, ...]
    profile: ProfileName | None = None
    output: Path | None = None
    tally: Path | None = None
    raises: str = ""
    seed: int = 0
    env: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str], arguments: Sequence[str]) -> TargetConfig:
        """Read the configuration from the environment, and the seed from libFuzzer's flags.

        Raises ValueError for a profile that does not exist.
        """
        given = {key: environment.get(f"STC_FUZZ_{key}", "") or value for key, value in DEFAULTS.items()}
        seeds = [a.removeprefix("-seed=") for a in arguments if a.startswith("-seed=")]
        profile = given["PROFILE"]
        if profile not in ("", *PROFILES):
            raise ValueError(f"STC_FUZZ_PROFILE: {profile!r} is not one of {', '.join(PROFILES)}")
        return cls(
            impls=tuple(line.strip() for line in given["IMPLS"].splitlines() if line.strip()),
            steps=tuple(step.strip() for step in given["STEPS"].split(",") if step.strip()),
            profile=cast("ProfileName", profile) if profile else None,
            output=Path(given["OUTPUT"]) if given["OUTPUT"] else None,
            tally=Path(given["TALLY"]) if given["TALLY"] else None,
            raises="" if given["RAISE"] == "0" else given["RAISE"],
            seed=int(seeds[-1]) if seeds and seeds[-1].isdigit() else 0,
            env=tuple(name for name in given["ENV"].split(",") if name),
        )

    def variables(self) -> dict[str, str]:
        return {
            "STC_FUZZ_IMPLS": "\n".join(self.impls),
            "STC_FUZZ_STEPS": ",".join(self.steps),
            "STC_FUZZ_PROFILE": self.profile or "",
            "STC_FUZZ_OUTPUT": str(self.output.resolve()) if self.output else "",
            "STC_FUZZ_ENV": ",".join(self.env),
            "STC_FUZZ_TALLY": str(self.tally.resolve()) if self.tally else "",
            "STC_FUZZ_RAISE": self.raises,
        }


def subjects_of(
    selectors: Sequence[str], steps: Sequence[str], profile: ProfileName | None, limits: Limits
) -> list[Subject]:
    """Start all subjects.

    Args:
        selectors: as for ``--impl``. ``here:safetensors`` runs in this process, and so does
            ``here:MODULE_OR_FILE:FUNCTION``: a function that returns the content of a file's bytes in the
            form of the manifest or raises ``Refused``. ``reference`` means its proving path, because the
            explaining path is the judge.
        steps: steps to run; ``prove`` and ``check`` always run on the reference.
        profile: profile whose options the reference applies.
        limits: time and memory of one answer of a worker.

    Raises:
        StartError, SelectorError, ValueError: a subject cannot run; the text says why.
    """
    out: list[Subject] = []
    outer = [step for step in steps if step not in INNER]
    for selector in selectors if outer else ():
        if selector == _REFERENCE:
            steps = (*steps, "prove")
        elif selector.startswith(HERE):
            out.append(_here(selector.removeprefix(HERE)))
        else:
            out.append(WorkerSubject(resolve(selector), outer, limits, profile))
    complete(out, steps)
    if not out:
        raise ValueError("nothing to run: give an implementation, or the step prove or check")
    return out


def _here(text: str) -> CallSubject:
    if text == _OFFICIAL:
        return _official()
    where, colon, name = text.rpartition(":")
    if not colon:
        raise ValueError(f"{HERE}{text}: give {HERE}{_OFFICIAL}, or {HERE}MODULE_OR_FILE:FUNCTION")
    try:
        function: Callable[[bytes], Mapping[str, Any]] = getattr(_module(where), name)
    except (ImportError, AttributeError, OSError) as err:
        raise ValueError(f"{HERE}{text}: {err}") from err
    return CallSubject(f"{HERE}{text}", function, (Refused,))


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        return importlib.import_module(where)
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _official() -> CallSubject:
    try:
        import safetensors
    except ImportError as err:
        raise ValueError(f"{HERE}{_OFFICIAL}: install it with: pip install safetensors") from err
    refusal = cast(type[BaseException], safetensors.SafetensorError)

    def read(data: bytes) -> Mapping[str, Any]:
        rows = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        # This call reports no metadata.
        return {"tensors": [tensor_row(n, i["dtype"], i["shape"], bytes(i["data"])) for n, i in rows]}

    subject = CallSubject(_OFFICIAL, read, (refusal,))
    subject.version = safetensors.__version__
    return subject


POINTS = 1024
"""Coverage points that represent the answers of all subjects."""
REPORT_SECONDS = 0.5
"""How often the target writes its counts, so that they survive its death."""
LIMITS = Limits(10.0)


class WrongAnswerError(Exception):
    """A finding, where the target was configured to stop at one."""


class Loop:
    """State of the target. Subjects start at the first input: a parent of -fork never receives one."""

    def __init__(self, config: TargetConfig, atheris: Any) -> None:
        self.config = config
        # atheris replaces this function when it runs.
        self.mutator = Mutator(lambda data, most: atheris.Mutate(data, most))  # noqa: PLW0108
        self.tally = Tally()
        self._points = _points(atheris, POINTS)
        self._campaign: Campaign | None = None
        self._subjects: list[_Watched] = []
        self._slots: Slots | None = None
        self._distrust = False
        self._began = self._told = time.monotonic()

    def one(self, data: bytes) -> None:
        campaign = self._campaign or self._start()
        assert self._slots is not None
        found = len(self.tally.findings)
        for subject in self._subjects:
            subject.said = 0
        campaign.run_one(data, self._slots, self._tree(data))
        for subject in self._subjects:
            if subject.said:
                self._points[subject.said % POINTS]()
        if self.tally.execs % 64 == 0 and time.monotonic() - self._told > REPORT_SECONDS:
            self.tell()
        if self.config.raises and len(self.tally.findings) > found:
            for signature, finding in list(self.tally.findings.items())[found:]:
                if self.config.raises == "1" or self.config.raises in signature:
                    raise WrongAnswerError(_told(finding))

    def tell(self) -> None:
        self._told = time.monotonic()
        self.tally.seconds = self._told - self._began
        if self.config.tally is None or self._campaign is None:
            return
        path = self.config.tally / f"{os.getpid()}.json"
        temporary = path.with_suffix(".part")
        # Recorded so that another process can remove the inputs if this one cannot.
        slots = "" if self._slots is None else self._slots.folder
        temporary.write_text(json.dumps({**self.tally.counts(), "slots": slots}), "utf-8")
        temporary.replace(path)

    def close(self) -> None:
        """Write the counts and close the subjects."""
        if self._campaign is None:
            return
        self.tell()
        self._campaign = None
        for subject in self._subjects:
            subject.close()
        if self._slots is not None:
            self._slots.close()

    def _start(self) -> Campaign:
        config = self.config
        limits = replace(LIMITS, confinement=Confinement(config.env))
        try:
            subjects = subjects_of(config.impls, config.steps, config.profile, limits)
        except (StartError, SelectorError, ValueError) as err:
            sys.stderr.write(f"stc-fuzz-target: {err}\n")
            sys.stderr.flush()
            os._exit(CANNOT_START)  # libFuzzer would call any other end a crash
        self._distrust = any(isinstance(subject, ProveSubject) for subject in subjects)
        # A function of this process reads no file.
        reads_files = any(not isinstance(subject, (CallSubject, ProveSubject)) for subject in subjects)
        self._slots = Slots(2 if reads_files else 0)
        self._subjects = [_Watched(subject) for subject in subjects]
        known = set() if config.raises else _known(config.output)
        settings = Settings(
            seed=config.seed,
            profile=config.profile,
            shrink_seconds=0.0 if config.raises else 1.0,
            known=known.__contains__,
            engine="atheris",
            feedback=False,  # libFuzzer keeps the inputs
        )
        self._campaign = Campaign(self._subjects, settings, keep=self._keep, tally=self.tally)
        self._on_end()
        self.tell()
        # Freeze: trees of inputs contain no cycles, and looking for them costs a tenth of the time.
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        return self._campaign

    def _tree(self, data: bytes) -> File | None:
        """Return the tree of the input if it is cached.

        A tree without faults would let the proving path form the opinion, which cannot judge itself.
        """
        file = self.mutator.known(data)
        if file is None or file.faults or not self._distrust:
            return file
        return File(
            file.root,
            file.data,
            padding=file.padding,
            length=file.length,
            raw=file.raw,
            faults=("distrusted",),
        )

    def _keep(self, finding: Finding) -> None:
        if self.config.output is not None:
            folder.write(finding, self.config.output)
        sys.stderr.write(f"FINDING: {_told(finding)}\n")

    def _on_end(self) -> None:
        """Register ``close`` for every end of the process except SIGKILL."""
        atexit.register(self.close)
        # libFuzzer leaves through C's exit, which does not run Python's own exit handlers.
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self.close())
        _KEPT.append(call)
        ctypes.CDLL(None)["__cxa_atexit"](call, None, None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, functools.partial(_leave, self))


_KEPT: list[object] = []
"""Functions that C may call after Python has dropped them."""


def _leave(loop: Loop, number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    loop.close()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def let_libfuzzer_interrupt() -> None:
    """Restore the default handler of Ctrl-C until the first input, so that libFuzzer installs its own.

    A parent of -fork never runs Python code again, so Python's handler would swallow the signal.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class _Watched(Subject):
    """A subject whose answers become coverage points."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.name, self.plain, self.version = subject.name, subject.plain, subject.version
        self.lacks, self.steps = subject.lacks, subject.steps
        self.said = 0
        self._left = 0

    def announce(self, inputs: Sequence[tuple[bytes, str]]) -> None:
        self._left = len(self.steps)
        self._subject.announce(inputs)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:
        result = self._subject.answer(data, path, step)
        if self._left > 0:
            self._left -= 1
            text = f"{self.name}|{step}|{result.outcome}|{class_of(result.message)}|{self.said}"
            self.said = zlib.crc32(text.encode("utf-8", "replace")) or 1
        return result

    def renew(self) -> None:
        self._subject.renew()

    def close(self) -> None:
        self._subject.close()


def _points(atheris: Any, count: int) -> list[Callable[[], None]]:
    def point() -> None:
        """Exist to be covered."""

    made = [types.FunctionType(point.__code__, {}, f"point{number}") for number in range(count)]
    return [atheris.instrument_func(function) for function in made]


def _known(output: Path | None) -> set[str]:
    signatures = set()
    for path in output.glob(f"*/{folder.DOCUMENT}") if output is not None else ():
        try:
            signatures.add(folder.load(path).signature)
        except folder.FindingError:
            continue  # incomplete, or not a finding of ours
    return signatures


def _told(finding: Finding) -> str:
    got = "; ".join(f"{name}: {text}" for name, text in finding.got.items())
    return f"{finding.signature} · expected {finding.expected} · got {got} · {finding.size} bytes"
