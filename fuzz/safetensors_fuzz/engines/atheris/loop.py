"""The loop that processes each input inside the libFuzzer target."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from safetensors_conformance.implementations.selectors import SelectorError, resolve
from safetensors_conformance.programs.launcher import Confinement, child_variables
from safetensors_conformance.worker.worker import Limits, StartError
from safetensors_corpus.features.tree import File
from safetensors_corpus.judging.answer import Refused
from safetensors_corpus.judging.content import tensor_row
from safetensors_reference import PROFILES
from safetensors_reference.rules.book import ProfileName

from ...finding import DOCUMENT, Finding, FindingError, load, write
from ...loop.question import REFERENCE
from ...loop.subjects import INNER, CallSubject, ProveSubject, Slots, Subject, WorkerSubject, complete
from ..campaign import Campaign, Settings, Tally
from ..new_inputs import class_of
from . import CANNOT_START
from .mutator import Mutator

HERE = "here:"
"""Prefix of selectors for implementations that run in this process, where a crash kills the target."""
_OFFICIAL = "safetensors"


@dataclass(frozen=True)
class TargetConfig:
    """Configuration of the target. The module ``target`` documents the environment variables."""

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
        """Read the environment variables and the libFuzzer flag ``-seed``. Raises ValueError."""

        def get(name: str) -> str:
            return environment.get(f"STC_FUZZ_{name}", "")

        seeds = [a.removeprefix("-seed=") for a in arguments if a.startswith("-seed=")]
        profile = get("PROFILE")
        if profile not in ("", *PROFILES):
            raise ValueError(f"STC_FUZZ_PROFILE: {profile!r} is not one of {', '.join(PROFILES)}")
        return cls(
            impls=tuple(line.strip() for line in (get("IMPLS") or REFERENCE).splitlines() if line.strip()),
            steps=tuple(step.strip() for step in (get("STEPS") or "read").split(",") if step.strip()),
            profile=cast("ProfileName", profile) if profile else None,
            output=Path(get("OUTPUT")) if get("OUTPUT") else None,
            tally=Path(get("TALLY")) if get("TALLY") else None,
            raises="" if get("RAISE") == "0" else get("RAISE"),
            seed=int(seeds[-1]) if seeds and seeds[-1].isdigit() else 0,
            env=tuple(name for name in get("ENV").split(",") if name),
        )

    def environment(self) -> dict[str, str]:
        """Return the environment of a target with this configuration."""
        variables = {
            "STC_FUZZ_IMPLS": "\n".join(self.impls),
            "STC_FUZZ_STEPS": ",".join(self.steps),
            "STC_FUZZ_PROFILE": self.profile or "",
            "STC_FUZZ_OUTPUT": str(self.output.resolve()) if self.output else "",
            "STC_FUZZ_ENV": ",".join(self.env),
            "STC_FUZZ_TALLY": str(self.tally.resolve()) if self.tally else "",
            "STC_FUZZ_RAISE": self.raises,
            # The hash seed fixes the iteration order of sets, which makes runs reproducible.
            "PYTHONHASHSEED": "0",
        }
        # The cache variables let targets find the environments of implementations.
        return child_variables((*self.env, "STC_CACHE", "XDG_CACHE_HOME"), variables)


def subjects_of(config: TargetConfig) -> list[Subject]:
    """Start all subjects. Raises StartError, SelectorError or ValueError.

    In ``here:MODULE_OR_FILE:FUNCTION``, FUNCTION returns content in the format of the manifest or raises
    ``Refused``. ``reference`` runs only the proving path, because the explaining path judges the answers.
    """
    out: list[Subject] = []
    steps = config.steps
    outer = [step for step in steps if step not in INNER]
    limits = Limits(10.0, confinement=Confinement(config.env))
    for selector in config.impls if outer else ():
        if selector == REFERENCE:
            steps = (*steps, "prove")
        elif selector.startswith(HERE):
            out.append(_here(selector.removeprefix(HERE)))
        else:
            out.append(WorkerSubject(resolve(selector), outer, limits, config.profile))
    complete(out, steps)
    if not out:
        raise ValueError("nothing to run; give an implementation, or one of the steps 'prove' and 'check'")
    return out


def _here(text: str) -> CallSubject:
    if text == _OFFICIAL:
        return _official()
    where, colon, name = text.rpartition(":")
    if not colon:
        raise ValueError(f"{HERE}{text}: expected {HERE}{_OFFICIAL} or {HERE}MODULE_OR_FILE:FUNCTION")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        function: Callable[[bytes], Mapping[str, Any]] = getattr(module, name)
    except (ImportError, AttributeError, OSError) as err:
        raise ValueError(f"{HERE}{text}: {err}") from err
    return CallSubject(f"{HERE}{text}", function, (Refused,))


def _official() -> CallSubject:
    try:
        import safetensors
    except ImportError as err:
        raise ValueError(
            f"{HERE}{_OFFICIAL}: not installed; install it with: pip install safetensors"
        ) from err
    rejection = cast(type[BaseException], safetensors.SafetensorError)

    def read(data: bytes) -> Mapping[str, Any]:
        rows = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        # ``deserialize`` does not report metadata.
        return {"tensors": [tensor_row(n, i["dtype"], i["shape"], bytes(i["data"])) for n, i in rows]}

    subject = CallSubject(_OFFICIAL, read, (rejection,))
    subject.version = safetensors.__version__
    return subject


INTERRUPTED = 72
"""Exit status after a signal, as in libFuzzer."""
POINTS = 1024
REPORT_SECONDS = 0.5
"""Interval in seconds between writes of the counts, which must survive the death of the target."""


class WrongAnswerError(Exception):
    """A finding that stops the target because ``STC_FUZZ_RAISE`` is set."""


class Loop:
    """State of the target. Subjects start with the first input, which a ``-fork`` parent never receives."""

    def __init__(self, config: TargetConfig, atheris: Any) -> None:
        self.config = config
        # Import Mutate here, because atheris replaces it at run time.
        self.mutator = Mutator(lambda data, most: atheris.Mutate(data, most))  # noqa: PLW0108
        self.tally = Tally()
        self._points = _points(atheris)
        self._campaign: Campaign | None = None
        self._subjects: list[Subject] = []
        self._slots: Slots | None = None
        self._distrust = False
        self._began = self._written = time.monotonic()

    def one(self, data: bytes) -> None:
        campaign = self._campaign or self._start()
        assert self._slots is not None
        count = len(self.tally.findings)
        campaign.run_one(data, self._slots, self._tree(data))
        for number, subject in enumerate(self._subjects):
            said = 0
            for step in subject.steps:
                result = campaign.answers[number, step]
                text = f"{subject.name}|{step}|{result.outcome}|{class_of(result.message)}|{said}"
                said = zlib.crc32(text.encode("utf-8", "replace")) or 1
            if said:
                self._points[said % POINTS]()  # libFuzzer sees each new set of answers as new coverage
        if self.tally.execs % 64 == 0 and time.monotonic() - self._written > REPORT_SECONDS:
            self.write_counts()
        if self.config.raises and len(self.tally.findings) > count:
            for signature, finding in list(self.tally.findings.items())[count:]:
                if self.config.raises == "1" or self.config.raises in signature:
                    raise WrongAnswerError(_summary(finding))

    def write_counts(self) -> None:
        self._written = time.monotonic()
        self.tally.seconds = self._written - self._began
        if self.config.tally is None or self._campaign is None:
            return
        path = self.config.tally / f"{os.getpid()}.json"
        temporary = path.with_suffix(".part")
        # The engine removes this folder if the process dies.
        slots = "" if self._slots is None else self._slots.folder
        temporary.write_text(json.dumps({**self.tally.counts(), "slots": slots}), "utf-8")
        temporary.replace(path)

    def close(self) -> None:
        if self._campaign is None:
            return
        self.write_counts()
        self._campaign = None
        for subject in self._subjects:
            subject.close()
        if self._slots is not None:
            self._slots.close()

    def _start(self) -> Campaign:
        config = self.config
        try:
            self._subjects = subjects_of(config)
        except (StartError, SelectorError, ValueError) as err:
            sys.stderr.write(f"stc-fuzz-target: {err}\n")
            sys.stderr.flush()
            os._exit(CANNOT_START)  # libFuzzer would report any other exit as a crash
        self._distrust = any(isinstance(subject, ProveSubject) for subject in self._subjects)
        reads_files = any(not isinstance(subject, (CallSubject, ProveSubject)) for subject in self._subjects)
        self._slots = Slots(2 if reads_files else 0)
        known: set[str] = set()
        stored = None if config.raises else config.output
        for path in stored.glob(f"*/{DOCUMENT}") if stored is not None else ():
            # the document may be incomplete
            with contextlib.suppress(FindingError):
                known.add(load(path).signature)
        settings = Settings(
            seed=config.seed,
            profile=config.profile,
            shrink_seconds=0.0 if config.raises else 1.0,
            known=known.__contains__,
            engine="atheris",
            feedback=False,  # libFuzzer stores the inputs itself
        )
        self._campaign = Campaign(self._subjects, settings, keep=self._keep, tally=self.tally)
        self._close_at_exit()
        self.write_counts()
        # Trees contain no reference cycles, and searching for cycles would take a tenth of the run time.
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        return self._campaign

    def _tree(self, data: bytes) -> File | None:
        """Return the cached tree. If the proving path is tested, mark it as faulty.

        Otherwise, the proving path would judge its own answer.
        """
        file = self.mutator.known(data)
        if file is None or file.faults or not self._distrust:
            return file
        file = file.copy()
        file.faults = ("distrusted",)
        return file

    def _keep(self, finding: Finding) -> None:
        if self.config.output is not None:
            write(finding, self.config.output)
        sys.stderr.write(f"FINDING: {_summary(finding)}\n")

    def _close_at_exit(self) -> None:
        """Call ``close`` when the process exits, unless SIGKILL ends it."""

        def leave(_number: int, _frame: types.FrameType | None) -> None:
            for other in (signal.SIGINT, signal.SIGTERM):
                signal.signal(other, signal.SIG_IGN)
            self.close()
            sys.stderr.flush()
            os._exit(INTERRUPTED)

        atexit.register(self.close)
        # libFuzzer calls the C function exit, which does not run Python's exit handlers.
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self.close())
        _CALLBACKS.append(call)
        ctypes.CDLL(None)["__cxa_atexit"](call, None, None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)


_CALLBACKS: list[object] = []
"""Callbacks that C code may call. This list prevents Python from freeing them."""


def let_libfuzzer_interrupt() -> None:
    """Restore the default Ctrl-C handler, because a ``-fork`` parent never runs Python's own handler."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _points(atheris: Any) -> list[Callable[[], None]]:
    def point() -> None:
        pass

    points = [types.FunctionType(point.__code__, {}, f"point{number}") for number in range(POINTS)]
    return [atheris.instrument_func(function) for function in points]


def _summary(finding: Finding) -> str:
    got = "; ".join(f"{name}: {text}" for name, text in finding.got.items())
    return f"{finding.signature} · expected {finding.expected} · got {got} · {finding.size} bytes"
