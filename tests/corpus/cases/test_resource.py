"""What resource cases cost the reference reader and the official one, measured in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest
from safetensors_corpus.author.file import HEAVY
from safetensors_corpus.cases.framing import CAP
from safetensors_corpus.cases.resource.budgets import FAR, PREFETCH, SLACK
from safetensors_corpus.manifest import Expectation, load_manifest
from safetensors_reference import rule_book

SECONDS = 0.25
"""Most time for one case that is part of every run, on a machine that does other things as well."""

# Runs in another process: opens each file that it is told of, and says what that took. The first line of
# output comes before anything is opened.
MEASURE = """
import gc, json, os, sys, time

reader = sys.argv[1]
if reader == "reference":
    from safetensors_reference import explain
    from safetensors_reference import safe_open
    open_file = lambda path: safe_open(path, "raw")
    explain(b"\\x02\\0\\0\\0\\0\\0\\0\\0{}")
else:
    import numpy
    from safetensors import safe_open
    open_file = lambda path: safe_open(path, "np")


def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(key))


def bytes_read():
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar"))


for line in sys.stdin:
    task = json.loads(line)
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    resident, read, start = status("VmRSS"), bytes_read(), time.perf_counter()
    answer = {}
    try:
        with open_file(task["path"]) as file:
            answer["count"] = len(file.keys())
            for name in [task["tensor"]] if task["tensor"] else file.keys() if task["read"] else ():
                value = file.get_tensor(name)
                answer["bytes"] = (value.tobytes() if reader != "reference" else bytes(value)).hex()[:64]
    except Exception as err:
        answer["error"] = f"{type(err).__name__}: {err}"[:300]
        answer["length"] = len(str(err))
    answer["seconds"] = time.perf_counter() - start
    answer["read_bytes"] = bytes_read() - read
    answer["peak_bytes"] = status("VmHWM") - resident
    print(json.dumps(answer), flush=True)
"""


@cache
def measurable() -> bool:
    """Whether this system says what a process costs, as Linux does."""
    return Path("/proc/self/clear_refs").exists() and Path("/proc/self/io").exists()


class Reader:
    """A process that opens files and measures itself."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEASURE, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, case: Case) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        task = {
            "path": str(case.path),
            "tensor": (case.action or {}).get("tensor"),
            "read": "read" in case.steps,
        }
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        case.discard()
        assert line, f"{case.id}: the process has gone, exit status {self.process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture(scope="module")
def readers() -> Iterator[dict[str, Reader]]:
    """One process for each of the two readers."""
    if not measurable():
        pytest.skip("this system does not say what a process costs")
    pytest.importorskip("safetensors")
    made = {name: Reader(name) for name in ("reference", "official")}
    yield made
    for reader in made.values():
        assert reader.process.stdin is not None
        assert reader.process.stdout is not None
        reader.process.stdin.close()
        reader.process.wait(10)
        reader.process.stdout.close()


def resource_cases() -> list[Case]:
    """Resource cases of the committed corpus."""
    return [case for case in load_manifest().cases if case.kind == "resource"]


LIGHT = [case for case in resource_cases() if not case.heavy]


def over_budget(case: Case, answer: dict[str, Any]) -> list[str]:
    """Which limits of the case's budget an answer exceeds."""
    budget = case.budget or {}
    return [f"{key} {answer[key]} of {limit}" for key, limit in budget.items() if answer[key] > limit]


def outcome(answer: dict[str, Any]) -> str:
    """What a reader did."""
    return "reject" if "error" in answer else "accept"


@pytest.mark.parametrize("case", LIGHT, ids=lambda case: case.id)
def test_the_reference_answers_as_hardened_within_the_budget(case: Case, readers: dict[str, Reader]) -> None:
    answer = readers["reference"].do(case)
    assert over_budget(case, answer) == []
    assert answer["seconds"] < SECONDS, "too slow for a case that is part of every run"
    if case.expect is not None:
        wanted = case.expect
    else:
        wanted = case.options[rule_book().choices[case.choice or ""].positions["hardened"] or ""]
    assert outcome(answer) == wanted.outcome, answer
    assert answer.get("length", 0) < 1000, "an error of this length repeats the file (LIM-09)"
    if wanted.content and "tensors" in wanted.content:
        assert case.action is not None or answer["count"] == len(wanted.content["tensors"])
    elif wanted.content:
        assert answer["count"] == wanted.content["tensor_count"]


def permitted_expectations(case: Case) -> list[Expectation]:
    if case.expect is not None:
        return [case.expect]
    required = rule_book().choices[case.choice or ""].required
    return list(case.options.values()) if required is None else [case.options[required]]


@pytest.mark.parametrize("case", LIGHT, ids=lambda case: case.id)
def test_the_official_reader_gives_a_permitted_answer_within_the_budget(
    case: Case, readers: dict[str, Reader]
) -> None:
    answer = readers["official"].do(case)
    assert outcome(answer) in {expectation.outcome for expectation in permitted_expectations(case)}, answer
    assert over_budget(case, answer) == []


SPARSE = [case for case in resource_cases() if any("zeros" in part for part in case.input.recipe)]


@pytest.mark.parametrize("case", SPARSE, ids=lambda case: case.id)
@pytest.mark.parametrize("name", ["reference", "official"])
def test_files_of_holes_cost_nothing_to_make_and_little_to_read(
    case: Case, name: str, readers: dict[str, Reader]
) -> None:
    """They are heavy by their size only, so they can be tried here."""
    assert case.path.stat().st_blocks * 512 < 1 << 20
    answer = readers[name].do(case)
    assert over_budget(case, answer) == []
    (wanted,) = permitted_expectations(case)
    assert outcome(answer) == wanted.outcome, answer
    if case.action is not None:
        assert answer["bytes"] == FAR.hex()


def test_every_resource_case_has_a_budget_that_its_file_can_keep(manifest: Manifest) -> None:
    for case in manifest.cases:
        if case.kind != "resource":
            continue
        assert case.budget is not None, case.id
        assert set(case.budget) == {"seconds", "peak_bytes", "read_bytes"}
        header = int.from_bytes(bytes.fromhex(case.input.recipe[0]["hex"])[:8], "little")
        assert case.budget["peak_bytes"] in (SLACK, SLACK + 20 * header), case.id
        assert case.budget["read_bytes"] in (PREFETCH, PREFETCH + 2 * header), case.id
        assert header <= CAP or case.budget["peak_bytes"] == SLACK


def test_what_runs_every_time_is_small_and_not_much(manifest: Manifest) -> None:
    light = [case for case in manifest.cases if case.kind == "resource" and not case.heavy]
    assert all(case.size <= HEAVY for case in light)
    assert len([case for case in light if case.size > 1000]) <= 25


def test_each_way_of_filling_a_header_comes_in_four_sizes(manifest: Manifest) -> None:
    ids = {case.id for case in manifest.cases}
    for shape in (
        "one-long-shape",
        "ignored-array",
        "one-name-again-and-again",
        "entries-as-arrays",
        "long-name",
    ):
        assert {f"resource/{shape}-{size}mb" for size in (1, 5, 25, 100)} <= ids
    for filling in ("spaces", "metadata-string", "tensors", "metadata-keys"):
        assert {f"resource/filled-with-{filling}-{size}mb" for size in (1, 5, 25)} <= ids
        assert f"resource/filled-with-more-{filling}-100mb" in ids


def test_headers_are_as_long_as_their_names_say(manifest: Manifest) -> None:
    sizes = {"1mb": 1_000_000, "5mb": 5_000_000, "25mb": 25_000_000, "100mb": CAP}
    checked = 0
    for case in manifest.cases:
        size = sizes.get(case.id.rpartition("-")[2])
        if case.kind == "resource" and size and "digits" not in case.id and "decimals" not in case.id:
            assert int.from_bytes(bytes.fromhex(case.input.recipe[0]["hex"])[:8], "little") == size, case.id
            checked += 1
    assert checked > 30
