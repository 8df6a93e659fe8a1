"""``stc audit`` prints rows or keeps them in results, which go on where they were interrupted or torn."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from safetensors_reference.audit.cli import audit
from safetensors_reference.audit.results import PART_ROWS, open_results, schema
from safetensors_reference.audit.summary import summary
from safetensors_reference.main import main

from .support import BROKEN, MODEL, VALID, read_row, stc_audit, write_tree

FORMS = ["rows.jsonl", "rows"]


def addresses(results: Path) -> list[str]:
    """Return the addresses of all rows, sorted."""
    if results.is_dir():
        import pyarrow.parquet as parquet

        return sorted(
            a for part in results.iterdir() for a in parquet.read_table(part)["address"].to_pylist()
        )
    return sorted(json.loads(line)["address"] for line in results.read_bytes().splitlines())


def every_file(tree: Path) -> list[str]:
    return sorted(str(path) for path in tree.rglob("*") if path.is_file())


def code_of(tree: Path, results: Path, *, before: str = "") -> list[str]:
    """Return a program that audits a tree. It runs ``before`` before each file, if there is such a text."""
    code = (
        "import time; from safetensors_reference.audit import cli, results\n"
        "results.PART_ROWS, real, seen = 8, cli.AuditOptions, []\n"
        f"def before(item): seen.append(item); {before}\n"
        f"if {bool(before)}: cli.AuditOptions = lambda *a: real(*a, before=before)\n"
        f"cli.audit([{str(tree)!r}, '-o', {str(results)!r}, '--jobs', '1', '--batch', '4'])"
    )
    return [sys.executable, "-c", code]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {f"{n:03d}.safetensors": VALID for n in range(60)}
    return write_tree(tmp_path / "tree", files | {f"model/{k}": v for k, v in MODEL.items()})


@pytest.fixture(params=FORMS)
def results(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "rows":
        pytest.importorskip("pyarrow")
    return tmp_path / str(request.param)


def test_a_second_run_looks_at_what_is_new_and_what_changed(
    tree: Path, results: Path, tmp_path: Path
) -> None:
    twice = tmp_path / "list"
    twice.write_text(f"{tree}/001.safetensors\n{tree}/002.safetensors\n")
    assert stc_audit(tree / "model", tree, "--list", twice, "-o", results).exit_code == 0
    before = addresses(results)
    assert len(before) == len(set(before)) == 63
    again = stc_audit(tree, "-o", results)
    left = f"{results}: skipped because they already have a row: 62 files: 62 valid; 1 model: 1 valid"
    assert (again.stdout, again.stderr) == ("", f"{left}\nno other files\n")
    assert addresses(results) == before
    write_tree(tree, {"new.safetensors": VALID, "000.safetensors": BROKEN})
    assert stc_audit(tree, "-o", results).exit_code == 1
    assert Counter(addresses(results)) == Counter(before) + Counter(
        [f"{tree}/new.safetensors", f"{tree}/000.safetensors"]
    )


def test_what_is_left_out_counts_for_the_exit_status(tmp_path: Path, results: Path) -> None:
    tree = write_tree(tmp_path / "tree", {"a.safetensors": BROKEN, "b.safetensors": VALID})
    assert [stc_audit(tree, "-o", results).exit_code for _ in range(3)] == [1, 1, 1]
    gone = tree / "no.safetensors"
    found = [stc_audit(gone, tree, "-o", results), stc_audit(gone, tree, "-o", results)]
    assert [run.exit_code for run in found] == [2, 2]
    (tree / "a.safetensors").write_bytes(VALID)  # rows of what it was before count no more
    assert stc_audit(tree, "-o", results).exit_code == 0


def test_names_that_are_not_utf_8_have_rows_of_their_own(tmp_path: Path, results: Path) -> None:
    names = [b"bad\xff", b"bad\\udcff", b"bad\\\\udcff", b"bad\\\xff", "é\\x".encode()]
    (tmp_path / "tree").mkdir()
    for name in names:
        Path(os.fsdecode(bytes(tmp_path / "tree") + b"/" + name + b".safetensors")).write_bytes(VALID)
    for new in (f"{len(names)} files", "no other files"):
        assert f"\n{new}" in "\n" + stc_audit(tmp_path / "tree", "-o", results).stderr
    assert len(set(addresses(results))) == len(names)


def test_what_has_no_version_is_known_by_its_size(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.safetensors", VALID)
    for _ in range(2):
        assert stc_audit(f"zip::{tmp_path}/a.zip", "-o", results).exit_code == 0
    assert addresses(results) == [f"zip://a.safetensors::{tmp_path}/a.zip"]


def test_a_model_is_judged_again_when_a_shard_changed_and_not_when_another_file_did(
    tree: Path, tmp_path: Path
) -> None:
    results = tmp_path / "rows.jsonl"
    stc_audit(tree, "-o", results)
    write_tree(tree, {"model/other.safetensors": VALID})
    stc_audit(tree, "-o", results)
    assert addresses(results).count(f"{tree}/model/model.safetensors.index.json") == 1
    write_tree(tree, {"model/model-00001-of-00002.safetensors": BROKEN})
    assert stc_audit(tree, "-o", results).exit_code == 1
    assert len(addresses(results)) == 66
    last = json.loads(results.read_bytes().splitlines()[-1])
    assert (last["kind"], last["verdict"]) == ("model", "invalid")
    write_tree(tree / "model", MODEL)
    assert [stc_audit(tree, "-o", results).exit_code for _ in range(2)] == [0, 0], "the last row counts"
    index = tree / "model/model.safetensors.index.json"
    index.write_bytes(MODEL[index.name].replace(b'"total_size":8', b'"total_size":9'))
    assert stc_audit(tree, "-o", results).exit_code == 1
    last = json.loads(results.read_bytes().splitlines()[-1])
    assert (last["kind"], last["codes"]) == ("model", ["IDX_SIZE_MISMATCH"])


def test_after_ctrl_c_and_kill_9_nothing_is_lost_and_nothing_twice(
    tree: Path, results: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    before = f"len(seen) == 12 and open({str(mark)!r}, 'w').close(); time.sleep(0.02)"
    for number in (signal.SIGINT, signal.SIGKILL):
        program = code_of(tree, results, before=before)
        process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
        while not mark.exists() and process.poll() is None:
            time.sleep(0.01)
        mark.unlink()
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
        if number == signal.SIGINT:
            assert (process.returncode, "Traceback" in said) == (130, False), said
            assert said.startswith("interrupted after ")
            assert len(addresses(results)) == int(said.split()[2]) > 0
    stc_audit(tree, "-o", results)
    assert addresses(results) == every_file(tree)


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_torn_line_is_done_again(tree: Path, tmp_path: Path, cut: int) -> None:
    results = tmp_path / "rows.jsonl"
    stc_audit(tree, "-o", results)
    whole = results.read_bytes()
    results.write_bytes(whole[:-cut])
    stc_audit(tree, "-o", results)
    assert len(results.read_bytes().splitlines()) == 63
    assert addresses(results) == every_file(tree)


def test_a_full_disk_is_an_error_in_one_line_and_the_rows_stay_whole(tree: Path, results: Path) -> None:
    process = subprocess.run(
        code_of(tree, results),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # the limit would truncate the bytecode too
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert "not written: File too large" in process.stderr or "not saved: File too large" in process.stderr
    assert str(results) in process.stderr
    stc_audit(tree, "-o", results)
    assert addresses(results) == every_file(tree)


def test_two_audits_do_not_write_to_the_same_results(tree: Path, results: Path) -> None:
    for wrong in (["nope://bucket"], [tree, "--list", tree / "no"]):
        assert stc_audit(*wrong, "-o", results).exit_code == 2
        assert not results.exists(), "a start that is refused leaves no results"
    held = open_results(results)
    second = stc_audit(tree, "-o", results)
    assert (second.exit_code, second.output) == (2, f"{results}: another audit is writing to this folder\n")
    held.close()
    assert stc_audit(tree, "-o", results).exit_code == 0


def test_retry_looks_again_at_what_may_pass(tree: Path, tmp_path: Path) -> None:
    results = tmp_path / "rows.jsonl"
    stc_audit(tree, "-o", results)
    lines = results.read_bytes().splitlines()
    row = json.loads(lines[3])
    lines[3] = json.dumps(row | {"verdict": "kills-worker"}).encode()
    results.write_bytes(b"\n".join(lines) + b"\n")
    stc_audit(tree, "-o", results)
    assert len(addresses(results)) == 63
    stc_audit(tree, "-o", results, "--retry")
    assert json.loads(results.read_bytes().splitlines()[-1])["address"] == row["address"]
    assert len(addresses(results)) == 64


def test_a_data_set_has_the_columns_of_a_row(tree: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    stc_audit(tree, "-o", tmp_path / "rows")
    stc_audit(tree, "-o", tmp_path / "rows.jsonl")
    (part,) = (tmp_path / "rows").iterdir()
    assert parquet.read_schema(part).equals(schema())
    assert PART_ROWS > 63

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if v is not None}
        return [plain(v) for v in value] if isinstance(value, list) else value

    rows = [{**plain(row), "time": 0} for row in parquet.read_table(part).to_pylist()]  # type: ignore[dict-item]
    lines = [{**json.loads(line), "time": 0} for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    assert rows == lines


OTHERS = "this file contains something other than audit rows"
DEEP = '{"address":"a","x":' + "[" * 2000 + "]" * 2000 + "}\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("my notes\nabout models\n", OTHERS),
        ("my notes", OTHERS),
        ('{"a":1}\n{"b":2}', OTHERS),
        ("\n\n", OTHERS),
        ('{"address":"x"}\n{"b":2}', OTHERS),
        (DEEP, "line 1 is not an audit row: "),
        (os.mkfifo, "not written because it is not a regular file"),
        (lambda place: place.symlink_to("/dev/null"), "not written because it is not a regular file"),
    ],
)
def test_a_file_or_folder_of_others_stays_as_it_is(
    content: str | Callable[[Path], None], why: str, tree: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.jsonl"
    if isinstance(content, str):
        foreign.write_text(content)
    else:
        content(foreign)
    found = stc_audit(tree, "-o", foreign)
    assert (found.exit_code, found.output.count("\n")) == (2, 1)
    assert found.output.startswith(f"{foreign}: {why}")
    assert not isinstance(content, str) or foreign.read_text() == content
    pytest.importorskip("pyarrow")
    found = stc_audit(tree, "-o", tmp_path)
    why = "this folder contains something other than audit rows"
    assert (found.exit_code, found.output) == (2, f"{tmp_path}: {why}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.jsonl", "tree"]


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Return the place of a part of Parquet results."""
    pytest.importorskip("pyarrow")
    place = tmp_path / "rows" / "part-000001.parquet"
    place.parent.mkdir()
    return place


def test_a_part_that_is_a_pipe_is_not_waited_for(tree: Path, part: Path) -> None:
    pytest.importorskip("duckdb")
    import pyarrow.parquet as parquet

    parquet.write_table(schema().empty_table(), part)
    assert stc_audit(tree / "000.safetensors", "-o", part.parent).exit_code == 0
    part.unlink()
    os.mkfifo(part)
    for found in (CliRunner().invoke(summary, [str(part.parent)]), stc_audit(tree, "-o", part.parent)):
        assert (found.exit_code, found.output.count("\n")) == (2, 1)
        assert part.name in found.output
        assert "not a regular file" in found.output


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"address": "not UTF-8"}, "this is not an audit result: "),
        ({"tag": "not UTF-8"}, "this is not an audit result: "),
        ({"address": None}, "this is not an audit result: a row has no address\n"),
        *(
            ({"only": column}, "this is not an audit result: there is no column address of type string\n")
            for column in ([5], [None], [b"x"])
        ),
    ],
)
def test_a_part_that_cannot_be_used_is_named(
    columns: dict[str, Any], why: str, tree: Path, part: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if "only" in columns:
        table = {"address": columns["only"], "verdict": ["valid"], "size": [1], "tag": [""]}
    else:
        offsets = pa.py_buffer(b"\0\0\0\0\x01\0\0\0\0")
        odd = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
        table = {field.name: pa.nulls(1, field.type) for field in schema()} | {"address": pa.array(["a"])}
        for name, value in columns.items():
            table[name] = pa.nulls(1, pa.string()) if value is None else odd
    parquet.write_table(pa.table(table), part)
    found = stc_audit(tree, "-o", part.parent)
    assert (found.exit_code, found.output.count("\n")) == (2, 1)
    assert f"{part}: {why}" in found.output


@pytest.mark.parametrize(
    ("files", "rows", "status", "said"),
    [
        ({"a.safetensors": VALID}, 1, 0, "1 file: 1 valid\n"),
        ({"a.safetensors": VALID, "\u202eé.safetensors": BROKEN}, 2, 1, "2 files: 1 valid, 1 invalid\n"),
        (dict(MODEL), 3, 0, "2 files: 2 valid; 1 model: 1 valid\n"),
        ({"a.txt": b""}, 1, 2, "1 file: 1 unreadable\n"),
    ],
)
def test_rows_go_to_standard_output_and_counts_to_standard_error(
    tmp_path: Path, files: dict[str, bytes], rows: int, status: int, said: str
) -> None:
    run = stc_audit(write_tree(tmp_path, files))
    assert (run.exit_code, run.stderr, run.stdout_bytes.isascii()) == (status, said, True)
    found = {read_row(line).address for line in run.stdout_bytes.splitlines()}
    assert len(found) == rows
    assert status == 2 or found == {f"{tmp_path}/{name}" for name in files}


def test_the_summary_has_its_own_help() -> None:
    run = CliRunner().invoke(main, ["audit", "summary", "-h"])
    assert run.exit_code == 0
    assert "Usage: main audit summary" in run.output
    assert "RESULTS" in run.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no files to audit: give SOURCE or --list FILE"),
        (["x", "--jobs", "2", "--scheduler", "tcp://a:1"], "--jobs and --scheduler cannot be used together"),
        (["nope://bucket"], "nope://bucket: "),
        (["--list", "/no/list"], "/no/list: No such file or directory"),
        (["x", "-o", "/no/rows.jsonl"], "/no/rows.jsonl: not written: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_told(arguments: list[str], said: str) -> None:
    pytest.importorskip("fsspec")
    run = CliRunner().invoke(audit, arguments)
    assert (run.exit_code, run.stdout) == (2, "")
    assert said in run.stderr
    assert run.stderr.startswith("Usage:") or run.stderr.count("\n") == 1
