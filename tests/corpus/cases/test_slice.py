"""The slice cases against things that do not know them: a slicer without NumPy, the reference, the library.

None of them is the authority. Where one disagrees with a case that leaves no choice, the case is checked by
the rule; what is then known to be the implementation's fault stands here by name.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proof.broken.correct.slicer import SLICER
from proof.broken.matrix import why
from proof.broken.slicers import VARIANTS
from safetensors_corpus import Case, Manifest
from safetensors_corpus.in_process import accepted, mismatch
from safetensors_corpus.judging.answer import Answer
from safetensors_reference import safe_open
from safetensors_reference.arrays.slicing import take
from safetensors_reference.rules.book import rule_book

from .kinds import cannot_fail, is_caught, of_kind

PANICS = {"slice/stop-before-start-of-both", "slice/stop-before-start-beside-integer"}
"""The official library 0.8.0 panics; no public report is known."""


class Reference:
    """The reference's lazy door, in either mode."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode

    def slice(self, path: Path, name: str, index: tuple[Any, ...]) -> tuple[str, tuple[int, ...], bytes]:
        with safe_open(str(path), "raw", mode=self.mode) as file:
            info = file.info(name)
            assert (
                bytes(file.get_tensor(name))
                == path.read_bytes()[file.header.data_start :][info.begin : info.end]
            )
            shape, _ = take(info, index, lambda start, count: memoryview(bytes(start + count))[start:])
            return info.dtype, shape, bytes(file.get_slice(name)[index])


@pytest.fixture(scope="module")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "slice")


def test_there_are_cases_of_every_choice(cases: list[Case]) -> None:
    choices = {name for name in rule_book().choices if name.startswith("slice-")}
    assert {case.choice for case in cases} == choices | {"foreign-errors", None}


def test_a_slicer_without_numpy_agrees(cases: list[Case], tmp_path: Path) -> None:
    assert {c.id: w for c in cases if (w := why(SLICER, c, tmp_path))} == {}


@pytest.mark.parametrize("mode", ["copy", "mmap"])
def test_the_reference_agrees(cases: list[Case], mode: str, tmp_path: Path) -> None:
    assert {c.id: w for c in cases if (w := why(Reference(mode), c, tmp_path))} == {}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_broken_slicer_is_caught(variant: Any, cases: list[Case]) -> None:
    assert variant.kind == "slice"
    assert is_caught(variant, cases)


def test_every_case_catches_a_broken_slicer(cases: list[Case]) -> None:
    assert cannot_fail(cases, VARIANTS) == set()


OFFICIAL = """
import json, sys
import numpy as np
from safetensors import safe_open
from safetensors_corpus.author.actions import index_items

for line in sys.stdin:
    case = json.loads(line)
    try:
        with safe_open(case["path"], "np") as file:
            view = file.get_slice(case["tensor"])
            array = np.asarray(view[index_items(case["index"])])
            answer = [view.get_dtype(), list(array.shape), array.tobytes().hex()]
    except Exception as err:
        answer = f"{type(err).__name__}: {err}"
    except BaseException as err:
        answer = "panic " + str(err)
    print(json.dumps(answer), flush=True)
"""
NUMPY = {
    f"dtype-{d}" for d in ("bool", "u8", "i8", "i16", "u16", "i32", "i64", "u64", "f16", "f32", "f64", "c64")
}


@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="needs the official library")
def test_the_official_library_agrees(cases: list[Case]) -> None:
    cases = [case for case in cases if NUMPY.issuperset(case.features)]
    asked = "".join(json.dumps({**(c.action or {}), "path": str(c.path)}) + "\n" for c in cases)
    ran = subprocess.run(
        [sys.executable, "-c", OFFICIAL], input=asked, capture_output=True, text=True, check=True, timeout=120
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(cases)
    panics = {
        c.id for c, a in zip(cases, answers, strict=True) if isinstance(a, str) and a.startswith("panic")
    }
    assert panics <= PANICS
    unlike = {
        c.id: reason
        for c, answer in zip(cases, answers, strict=True)
        if c.id not in panics and (reason := mismatch(c, official(c, answer)))
    }
    assert unlike == {}


def official(case: Case, answer: Any) -> Answer:
    if isinstance(answer, str):
        return Answer("reject", message=answer)
    assert case.action is not None
    dtype, shape, data = answer
    return accepted([(case.action["tensor"], dtype, shape, bytes.fromhex(data))])
