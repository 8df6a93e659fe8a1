"""``stc check`` over many files: what is found, what is counted, what is said about alignment."""

from __future__ import annotations

import itertools
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from safetensors_reference.files.names import FileInput
from safetensors_reference.files.walk import find_inputs

from ..audit.support import write_tree
from ..support import entry, make
from .support import BROKEN, VALID, load_log, row, rows, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three valid files, one broken one, and others that are none of our business."""
    ours = {"b": VALID, "a": VALID, "sub/deep/c": BROKEN, "sub/.hidden/d": VALID}
    others = ("config.json", "model.SAFETENSORS", "x.safetensors.tmp", "other.index.json")
    return write_tree(
        tmp_path, {f"{n}.safetensors": d for n, d in ours.items()} | dict.fromkeys(others, b"?")
    )


def found(*arguments: str | Path) -> list[str]:
    inputs = list(find_inputs([str(a) for a in arguments]))
    assert not any(item.problem for item in inputs), inputs
    return [item.address for item in inputs]


def below(folder: Path, *names: str) -> list[str]:
    return [str(folder / name) for name in names]


def test_a_directory_means_its_safetensors_files_and_indexes_in_sorted_order(tree: Path) -> None:
    (tree / "sub" / "model.safetensors.index.json").write_bytes(b"{}")
    numbered = [f"sub/z{n:02}/a.safetensors" for n in range(20)]
    write_tree(tree, dict.fromkeys(reversed(numbered[::2] + numbered[1::2]), VALID))
    assert found(tree) == below(
        tree,
        "a.safetensors",
        "b.safetensors",
        "sub/model.safetensors.index.json",
        "sub/.hidden/d.safetensors",
        "sub/deep/c.safetensors",
        *numbered,
    )


def test_linked_files_are_taken_and_linked_directories_are_not_entered(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "link.safetensors").symlink_to(tree / "a.safetensors")
    (folder / "loop").symlink_to(folder)
    (folder / "broken.safetensors").symlink_to(folder / "missing")
    assert found(folder) == below(folder, "broken.safetensors", "link.safetensors")
    result = run(folder)
    assert result.exit_code == 2
    assert "link.safetensors: valid" in result.stdout
    assert "broken.safetensors: No such file" in result.stderr


def test_patterns_are_expanded_unless_a_file_has_exactly_that_name(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tree / "*.safetensors") == below(tree, "a.safetensors", "b.safetensors")
    assert found(tree / "[!a].safetensors") == below(tree, "b.safetensors")
    assert found(f"{tree}/**/c.*") == below(tree, "sub/deep/c.safetensors")
    assert found(tree / "s?b") == found(tree / "sub")
    names = found(f"{tree}/**")
    assert len(names) == len(set(names))
    assert set(found(tree)) < set(names)
    monkeypatch.chdir(tree)
    assert found("?.safetensors") == ["a.safetensors", "b.safetensors"]
    assert found("sub/**/c.safetensors") == ["sub/deep/c.safetensors"]
    (tree / "[ab].safetensors").write_bytes(VALID)
    assert found(tree / "[ab].safetensors") == below(tree, "[ab].safetensors")
    (tree / "weights.bin").write_bytes(VALID)  # a file given by name needs no suffix
    assert run(tree / "weights.bin").exit_code == 0


def test_what_is_reached_twice_is_checked_once_and_the_order_is_the_one_asked_for(tree: Path) -> None:
    c, a = below(tree, "sub/deep/c.safetensors", "a.safetensors")
    assert found(c, tree / "*.safetensors", a, tree / "sub") == [
        c,
        a,
        *below(tree, "b.safetensors", "sub/.hidden/d.safetensors"),
    ]


@pytest.mark.parametrize("name", ["empty", "no-such-*", "missing"])
def test_nothing_to_check_is_never_a_success(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    good = tmp_path / "good.safetensors"
    good.write_bytes(VALID)
    result = run(tmp_path / name, good)
    assert result.exit_code == 2
    assert str(tmp_path / name) in result.stderr
    assert "2 files: 1 valid, 0 invalid, 1 unreadable" in result.stderr
    missing, _ = rows(run("--json", tmp_path / name, good))
    assert [missing[key] for key in ("file", "readable", "code")] == [str(tmp_path / name), False, "IO_ERROR"]


def test_a_directory_that_cannot_be_listed_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir, entered = os.scandir, list[str]()

    def guarded(path: str) -> Any:
        entered.append(Path(path).name)
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    walk = find_inputs([str(tree)])
    inputs = [next(walk)]
    assert "sub" not in entered, "the tree is checked while it is walked"
    inputs += walk
    assert FileInput(str(tree / "sub" / "deep"), problem="Permission denied") in inputs
    assert str(tree / "a.safetensors") in [item.address for item in inputs]
    assert run(tree).exit_code == 2


def test_several_files_end_with_a_count(tree: Path) -> None:
    result = run(tree, tree / "missing")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "5 files: 3 valid, 1 invalid, 1 unreadable"
    lines = [line for line in result.stdout.splitlines() if line.startswith(str(tree))]
    assert [line.split(": ")[0] for line in lines] == found(tree)
    result = run(tree)
    assert (result.exit_code, result.stderr) == (1, "4 files: 3 valid, 1 invalid, 0 unreadable\n")
    assert run(tree / "a.safetensors").stderr == ""
    told = rows(run("--json", tree, tree / "missing"))
    assert [row["file"] for row in told] == [*found(tree), str(tree / "missing")]
    assert [row.get("valid") for row in told] == [True, True, True, False, None]
    assert rows(run("--json", "-q", tree, tree / "missing")) == told


def test_quiet_prints_one_line_for_what_is_not_valid(tree: Path) -> None:
    result = run("-q", tree, tree / "missing")
    assert result.exit_code == 2
    assert result.stdout == f"{tree}/sub/deep/c.safetensors: 2 faults: HDR_DUP_KEY, OFF_TRAILING\n"
    missing, count = result.stderr.splitlines()
    assert missing.startswith(f"{tree}/missing: ")
    assert count.startswith("5 files: ")
    assert run("-q", tree / "a.safetensors").output == ""
    (tree / "a").write_bytes(make('{"a":null,"b":null,"c":{}}'))
    repeated = "5 faults: ENT_NOT_OBJECT ×2, ENT_MISSING_FIELD ×3\n"
    assert run("--quiet", tree / "a").stdout == f"{tree}/a: {repeated}"


@pytest.mark.parametrize(("start", "unaligned"), [(516, 2), (517, 4), (512, 0)])
def test_alignment_is_counted_from_the_start_of_the_file(tmp_path: Path, start: int, unaligned: int) -> None:
    parts = [("F64", 1, 8), ("C64", 1, 8), ("F32", 1, 4), ("F16", 1, 2), ("F4", 2, 1), ("F64", 0, 0)]
    ends = [*itertools.accumulate((size for *_, size in parts), initial=0)]
    entries = ",".join(
        f'"{n}":{entry(dtype, f"[{count}]", f"[{ends[n]},{ends[n + 1]}]")}'
        for n, (dtype, count, _) in enumerate(parts)
    )
    path = tmp_path / "a"
    path.write_bytes(make(("{" + entries + "}").ljust(start - 8), bytes(23)))
    told, out = row(path), run(path).stdout
    sizes = (told["valid"], told["tensors"], told["header_length"], told["data_size"])
    assert sizes == (True, 6, start - 8, 23)
    assert told["alignment"] == {
        "data_start": start,
        "data_start_mod_8": start % 8,
        "data_start_mod_64": start % 64,
        "unaligned_tensors": unaligned,
    }
    assert (f"; data starts at {start:,}; {unaligned} of 6 tensors unaligned" in out) == (unaligned > 0)


def test_a_real_interrupt_of_the_real_program_gives_the_count_too(tree: Path) -> None:
    code = """
import os, signal
from safetensors_reference.check import result
from safetensors_reference.main import main
check, left = result.check_input, [2]
def slow(item, profile, known):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGINT)
    return check(item, profile)
result.check_input = slow
main()
"""
    args = [sys.executable, "-c", code, "check", "--json", "--sarif", str(tree / "log"), str(tree)]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted after 2 files: 2 valid, 0 invalid, 0 unreadable\n"
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2
    assert len(load_log(tree / "log")["runs"][0]["artifacts"]) == 2


def on_terminal(args: list[str], stdout_too: bool) -> tuple[bytes, bytes]:
    """Run ``stc`` with standard error on a terminal; return standard output and what the terminal got."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    code = """
from safetensors_reference.files import walk
from safetensors_reference.main import main
walk.REFRESH = -1
main()
"""
    program = [sys.executable, "-c", code, *args]
    out = follower if stdout_too else subprocess.PIPE
    done = subprocess.run(program, stdout=out, stderr=follower, env=env, timeout=60, check=False)
    terminal = b""  # a terminal keeps the little that these programs print
    while select.select([leader], [], [], 0.1)[0]:
        terminal += os.read(leader, 1 << 16)
    os.close(follower)
    os.close(leader)
    return done.stdout or b"", terminal


def test_a_bar_on_a_terminal_keeps_apart_from_results_or_steps_aside(tree: Path) -> None:
    out, terminal = on_terminal(["check", str(tree)], stdout_too=False)
    assert b"checked 4 files" in terminal
    assert b"\x1b" not in out
    assert out.count(b": valid, 1 tensor,") == 3
    assert b"valid, 1 tensor," not in terminal
    # The bar is erased before the count is written.
    assert terminal.endswith(b"\x1b[2K4 files: 3 valid, 1 invalid, 0 unreadable\r\n")
    assert terminal.count(b"checked ") <= 6, "nothing is printed here, so the bar need not step aside"
    assert "checked " not in run(tree, env={"FORCE_COLOR": ""}).output, "not a terminal"
    _, terminal = on_terminal(["check", "-q", str(tree)], stdout_too=True)
    # Erased to the beginning of the line before the result begins.
    assert b"\x1b[2K" + os.fsencode(tree) + b"/sub/deep/c.safetensors: 2 faults" in terminal
    assert b"checked " in terminal
