"""The table of formats: its claims are the README's, its marks come from runs, its page from records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import ROOT
from benchmarks.formats import marks, page, run
from benchmarks.formats.command import formats
from benchmarks.formats.run import Measured
from benchmarks.formats.table import FORMATS, PROPERTIES
from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.environment import cache_folder

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the experiments need the counts of Linux")
README = """
| pickle (PyTorch)        | ✗ | ✗ | ✗ | 🗸 | ✗ | 🗸 | 🗸 |
| H5 (Tensorflow)         | 🗸 | ✗ | 🗸 | 🗸 | ~ | ~ | ✗ |
| SavedModel (Tensorflow) | 🗸 | ✗ | ✗ | 🗸 | 🗸 | ✗ | 🗸 |
| MsgPack (flax)          | 🗸 | 🗸 | ✗ | 🗸 | ✗ | ✗ | 🗸 |
| Protobuf (ONNX)         | 🗸 | ✗ | ✗ | ✗ | ✗ | ✗ | 🗸 |
| Cap'n'Proto             | 🗸 | 🗸 | ~ | 🗸 | 🗸 | ~ | ✗ |
| Arrow                   | ? | ? | ? | ? | ? | ? | ✗ |
| Numpy (npy,npz)         | 🗸 | ? | ? | ✗ | 🗸 | ✗ | ✗ |
| pdparams (Paddle)       | ✗ | ✗ | ✗ | 🗸 | ✗ | 🗸 | 🗸 |
| SafeTensors             | 🗸 | 🗸 | 🗸 | 🗸 | 🗸 | ✗ | 🗸 |
"""
SMALL = """
import json, sys
from importlib import import_module
from pathlib import Path
from benchmarks.formats import way
way.CLAIMED = 1 << 26
from benchmarks.formats import probe
probe.MUTANTS, probe.LARGE, probe.SIZES = 24, 32 << 20, ((1, 1 << 20),)
out = []
for at, one in enumerate(import_module(sys.argv[1]).WAYS):
    out.append({})
    for name in sys.argv[3].split():
        folder = Path(sys.argv[2]) / f"{at}-{name}"
        folder.mkdir()
        out[-1][name] = probe.EXPERIMENTS[name](one, folder / one.file)
print(json.dumps(out))
"""
EVERY = "safe zero_copy lazy size layout flexible bits"


def experiments(module: str, folder: Path, names: str = EVERY, code: str = SMALL) -> list[dict[str, Any]]:
    argv = [sys.executable, "-c", code, module, str(folder), names]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    out: list[dict[str, Any]] = json.loads(done.stdout)
    return out


def test_the_seventy_claims_are_those_of_the_readme() -> None:
    signs = {"🗸": "+", "✗": "-"}
    rows = [line.strip("|").split("|")[1:] for line in README.strip().splitlines()]
    claims = ["".join(signs.get(cell.strip(), cell.strip()) for cell in row) for row in rows]
    assert claims == [found.claims for found in FORMATS.values()]
    assert sum(map(len, claims)) == 70


@given(st.lists(st.sampled_from(["+", "-", "~", None]), max_size=4))
def test_a_format_has_a_mark_where_all_its_ways_have_it(found: list[str | None]) -> None:
    common = found[0] if len(set(found)) == 1 else "~"
    assert marks.together(found) == (common if found and None not in found else None)


@given(st.sampled_from("+-~?"), st.sampled_from(["+", "-", "~", None]))
def test_only_opposite_marks_differ(claim: str, mark: str | None) -> None:
    assert (marks.verdict(claim, mark) == "differs") == ({claim, mark} == {"+", "-"})
    assert (marks.verdict(claim, mark) == "agrees") == (claim == mark)
    assert (marks.verdict(claim, mark) == "not run") == (mark is None)


@LINUX
def test_experiments_tell_the_ways_of_numpy_apart(tmp_path: Path) -> None:
    npz, npy = experiments("benchmarks.formats.adapters.numpy", tmp_path)
    told = {key: judge(npz) + judge(npy) for key, judge in marks.JUDGES.items()}
    assert told == {
        "safe": "++", "zero_copy": "~+", "lazy": "++", "size": "--", "layout": "~~", "flexible": "~~",
        "bits": "--",
    }  # fmt: skip
    assert npz["safe"]["ran_loose"]
    assert npy["safe"]["ran_loose"]
    assert npz["safe"]["claim"]["taken"]  # compressed zeros
    assert sum(npz["safe"][key] for key in ("same", "others", "none")) == 24
    assert npz["zero_copy"]["peak"] > npz["zero_copy"]["file"] > 20 * npy["zero_copy"]["peak"]
    assert npz["layout"]["orders"] == {"mzaq": "mzaq", "qamz": "qamz"}


@LINUX
@pytest.mark.nightly  # starts two processes that import torch, and forks hundreds
def test_experiments_tell_the_ways_of_torch_apart(tmp_path: Path) -> None:
    load, plain = experiments("benchmarks.formats.adapters.pickle", tmp_path)
    told = {key: judge(load) + judge(plain) for key, judge in marks.JUDGES.items()}
    assert told == {
        "safe": "+-", "zero_copy": "+~", "lazy": "+-", "size": "--", "layout": "+-", "flexible": "~+",
        "bits": "++",
    }  # fmt: skip
    assert load["safe"]["ran_loose"]
    (tmp_path / "safetensors").mkdir()
    names = "zero_copy lazy layout"
    torch, numpy = experiments("benchmarks.formats.adapters.safetensors", tmp_path / "safetensors", names)
    assert (marks.zero_copy(torch), marks.zero_copy(numpy)) == ("+", "~")
    assert (marks.lazy(torch), marks.lazy(numpy)) == ("+", "+")
    assert torch["layout"]["orders"] == {"mzaq": "amqz", "qamz": "amqz"}  # floats first, then by name


FAKE = """
import os, signal
import numpy as np
from benchmarks.formats.way import Way

class Failing(Way):
    def __init__(self, fail):
        self.fail = fail

    def save(self, path, arrays):
        path.write_bytes(b"".join(array.tobytes() for array in arrays.values()))

    def load(self, path):
        data = path.read_bytes()
        if len(data) < 512:
            self.fail()
        return {f"t{n:05}": array for n, array in enumerate(np.frombuffer(data, np.float32).reshape(8, -1))}

def kill(number):
    return Failing(lambda: os.kill(os.getpid(), number))

WAYS = (Failing(lambda: int("refused")), kill(signal.SIGSEGV), kill(signal.SIGALRM))
"""


@LINUX
def test_who_dies_counts_like_who_refuses(tmp_path: Path) -> None:
    (tmp_path / "fake_way.py").write_text(FAKE)
    code = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{SMALL.replace('EXPERIMENTS[name]', 'mutants')}"
    )
    refuses, dies, waits = experiments("fake_way", tmp_path, "mutants", code)
    assert refuses == dies == waits
    assert refuses["mutants"] == {"same": 0, "others": 18, "none": 6}


def test_a_format_that_cannot_be_installed_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InstallError(f"{cache_folder()}/x: no such version \x1b[31m\u202e")

    monkeypatch.setattr(run, "make", refuse)
    measured = run.measure(["numpy"], lambda _: None)
    why = measured["numpy"].why
    assert why.isprintable()
    assert "no such version" in why
    assert str(cache_folder()) not in why
    cells = [marks.cell("numpy", key, measured["numpy"]) for key in PROPERTIES]
    assert {(one.mark, one.verdict, one.why) for one in cells} == {(None, "not run", why)}
    told = page.page({**page.load_records(), **measured})
    assert "| NumPy (npy, npz) | ✓\xa0– |" in told
    assert why in told


def test_an_experiment_without_an_answer_is_not_run(tmp_path: Path) -> None:
    said: list[str] = []
    answer = run.ask(Path(sys.executable), "numpy", 7, "bits", str(tmp_path), said.append)
    assert answer == {"why": "the experiment did not return an answer"}
    assert said[0].startswith("numpy bits: ")
    assert said[0].isprintable()
    found = Measured("numpy 2", "2026-01-02", "m", ways=(("npz", "x"),), answers={"bits": (answer,)})
    assert marks.cell("numpy", "bits", found).verdict == "not run"


def test_a_page_of_other_records_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.formats.command.load_records", dict)
    done = CliRunner().invoke(formats, ["--check"])
    assert done.exit_code == 1
    assert "docs/formats.md is not current" in done.output


@LINUX
def test_large_formats_are_run_when_asked_for_alone() -> None:
    done = CliRunner().invoke(formats, ["pdparams"])
    assert done.exit_code == 1
    assert "these formats need --large" in done.output


def test_what_contradicts_the_readme_was_seen_by_hand() -> None:
    notes = page.load_notes()
    records = page.load_records()
    cells = [marks.cell(name, key, records.get(name)) for name in FORMATS for key in PROPERTIES]
    assert len(cells) == 70
    assert sum(one.verdict == "not run" for one in cells) <= 8
    assert all(one.name in notes.get(one.key, {}) for one in cells if one.verdict == "differs")
    assert set(notes["properties"]) == set(PROPERTIES)
