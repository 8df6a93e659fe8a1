"""Real readers as implementations of lifecycle cases, each case in a process of its own.

A reader that maps the file can be ended by a signal.
``python -m tests.corpus.cases.hold_adapters CORPUS NAME...`` prints one JSON object:
name -> case id -> [outcome, failure or None, option or None].
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors_corpus import Case, load_manifest
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.judging.answer import Answer

CODES = {"uint8": "U8", "int16": "I16", "float32": "F32", "int32": "I32"}


class OfficialHandle:
    """``safetensors.safe_open``."""

    def __init__(self, path: Path, backend: str) -> None:
        import safetensors

        official: Any = safetensors
        self._context = official.safe_open(path, framework="np", backend=backend)
        self._file = self._context.__enter__()

    def tensor(self, name: str) -> Any:
        taken = self._file.get_tensor(name)
        # Looked at when the script is over.
        return lambda: (CODES[taken.dtype.name], list(taken.shape), taken.tobytes())

    def close(self) -> None:
        self._context.__exit__(None, None, None)


class ReferenceHandle:
    """``safetensors_reference.safe_open``."""

    def __init__(self, path: Path, mode: Any) -> None:
        from safetensors_reference import safe_open

        self._file = safe_open(path, "raw", mode=mode)

    def tensor(self, name: str) -> Any:
        info, taken = self._file.info(name), self._file.get_tensor(name)
        return lambda: (info.dtype, list(info.shape), bytes(taken))

    def close(self) -> None:
        self._file.close()


class Holder:
    """Opens files with one of the handles."""

    def __init__(self, name: str) -> None:
        library, self._mode = name.split("-")
        self._handle: Any = OfficialHandle if library == "official" else ReferenceHandle

    def hold(self, path: Path) -> Any:
        return self._handle(path, self._mode)


def answer(case: Case, name: str) -> list[Any]:
    """Do one case in a forked process and return its row."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryDirectory() as folder:
            result = run_case(case, Holder(name), Path(folder))
        os.write(writing, json.dumps(row(case, result)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return ["crash", signal.Signals(-status).name if status < 0 else f"exit {status}", None]
    out: list[Any] = json.loads(said)
    return out


def row(case: Case, result: Answer) -> list[Any]:
    taken = [
        option
        for option, expectation in case.options.items()
        if mismatch(replace(case, choice=None, expect=expectation, options={}), result) is None
    ]
    return [result.outcome, mismatch(case, result), "|".join(taken) or None]


def main() -> None:
    root, *names = sys.argv[1:]
    for module in ("numpy", "safetensors", "safetensors_reference"):
        importlib.import_module(module)
    cases = [case for case in load_manifest(Path(root)).cases if case.kind == "lifecycle"]
    print(json.dumps({name: {case.id: answer(case, name) for case in cases} for name in names}))


if __name__ == "__main__":
    main()
