"""``stc check`` over many files: what is found, what is counted, what is said about alignment."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from safetensors_reference import explain, read_header
from safetensors_reference.check import cli
from safetensors_reference.check import result as judged
from safetensors_reference.check.result import CheckResult, alignment, check_input
from safetensors_reference.files.names import FileInput
from safetensors_reference.files.walk import find_inputs
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.text import printable

from ..strategies import Model, models
from ..support import ABCD, W, entry, make

VALID = make(f'{{"w":{W}}}', ABCD)
BROKEN = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!!!!")


def run(*args: str | Path, env: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(cli.check, [str(a) for a in args], env={"NO_COLOR": "1", **(env or {})})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three valid files, one broken one, and others that are none of our business."""
    for name, data in {
        "b.safetensors": VALID,
        "a.safetensors": VALID,
        "sub/deep/c.safetensors": BROKEN,
        "sub/.hidden/d.safetensors": VALID,
        "config.json": b"{}",
        "model.SAFETENSORS": b"?",
        "x.safetensors.tmp": b"?",
        "other.index.json": b"{}",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def found(*arguments: str | Path) -> list[str]:
    inputs = list(find_inputs([str(a) for a in arguments]))
    assert not any(item.problem for item in inputs), inputs
    return [item.address for item in inputs]


def below(folder: Path, *names: str) -> list[str]:
    return [str(folder / name) for name in names]


def test_a_directory_stands_for_its_safetensors_files_and_indexes_in_sorted_order(tree: Path) -> None:
    (tree / "sub" / "model.safetensors.index.json").write_bytes(b"{}")
    assert found(tree) == below(
        tree,
        "a.safetensors",
        "b.safetensors",
        "sub/model.safetensors.index.json",
        "sub/.hidden/d.safetensors",
        "sub/deep/c.safetensors",
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


def test_patterns_are_expanded_here_for_those_whose_shell_does_not(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tree / "*.safetensors") == below(tree, "a.safetensors", "b.safetensors")
    assert found(tree / "[!a].safetensors") == below(tree, "b.safetensors")
    assert found(f"{tree}/**/c.*") == below(tree, "sub/deep/c.safetensors")
    assert found(tree / "s?b") == found(tree / "sub")
    monkeypatch.chdir(tree)
    assert found("?.safetensors") == ["a.safetensors", "b.safetensors"]
    assert found("sub/**/c.safetensors") == ["sub/deep/c.safetensors"]


def test_a_file_whose_name_looks_like_a_pattern_is_itself(tree: Path) -> None:
    (tree / "[ab].safetensors").write_bytes(VALID)
    assert found(tree / "[ab].safetensors") == below(tree, "[ab].safetensors")


def test_what_is_reached_twice_is_checked_once_and_the_order_is_the_one_asked_for(tree: Path) -> None:
    c, a = below(tree, "sub/deep/c.safetensors", "a.safetensors")
    assert found(c, tree / "*.safetensors", a, tree / "sub") == [
        c,
        a,
        *below(tree, "b.safetensors", "sub/.hidden/d.safetensors"),
    ]


def test_a_pattern_that_matches_folders_and_their_files_yields_each_file_once(tree: Path) -> None:
    names = found(f"{tree}/**")
    assert len(names) == len(set(names))
    assert set(found(tree)) < set(names)


def test_a_file_named_outright_needs_no_suffix(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(VALID)
    assert run(tmp_path / "weights.bin").exit_code == 0


@pytest.mark.parametrize("name", ["empty", "no-such-*", "missing"])
def test_nothing_to_check_is_never_a_success(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "good.safetensors").write_bytes(VALID)
    assert run(tmp_path / "good.safetensors").exit_code == 0
    result = run(tmp_path / name, tmp_path / "good.safetensors")
    assert result.exit_code == 2
    assert str(tmp_path / name) in result.stderr
    assert "2 files: 1 valid, 0 invalid, 1 unreadable" in result.stderr
    missing, _ = objects(run("--json", tmp_path / name, tmp_path / "good.safetensors"))
    assert (missing["file"], missing["readable"], missing["code"]) == (
        str(tmp_path / name),
        False,
        "IO_ERROR",
    )


def test_a_directory_that_cannot_be_listed_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def guarded(path: str) -> Any:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    inputs = list(find_inputs([str(tree)]))
    assert FileInput(str(tree / "sub" / "deep"), problem="Permission denied") in inputs
    assert str(tree / "a.safetensors") in [item.address for item in inputs]
    assert run(tree).exit_code == 2


def test_several_files_end_with_a_count(tree: Path) -> None:
    result = run(tree, tree / "missing")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "5 files: 3 valid, 1 invalid, 1 unreadable"
    assert run(tree).stderr == "4 files: 3 valid, 1 invalid, 0 unreadable\n"
    assert run(tree).exit_code == 1
    assert run(tree / "a.safetensors").stderr == ""


def test_results_stand_on_standard_output_in_the_order_of_the_files(tree: Path) -> None:
    lines = [line for line in run(tree).stdout.splitlines() if line.startswith(str(tree))]
    assert [line.split(": ")[0] for line in lines] == found(tree)


def test_quiet_says_one_line_for_what_is_not_valid(tree: Path) -> None:
    result = run("-q", tree, tree / "missing")
    assert result.exit_code == 2
    assert result.stdout == f"{tree}/sub/deep/c.safetensors: 2 faults: HDR_DUP_KEY, OFF_TRAILING\n"
    missing, count = result.stderr.splitlines()
    assert missing.startswith(f"{tree}/missing: ")
    assert count.startswith("5 files: ")
    assert run("-q", tree / "a.safetensors").output == ""


def test_quiet_counts_repeated_codes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(make('{"a":null,"b":null,"c":{}}'))
    assert run("--quiet", tmp_path / "a").stdout == (
        f"{tmp_path}/a: 5 faults: ENT_NOT_OBJECT ×2, ENT_MISSING_FIELD ×3\n"
    )


def test_json_has_every_file_and_nothing_else_on_standard_output(tree: Path) -> None:
    rows = objects(run("--json", tree, tree / "missing"))
    assert [row["file"] for row in rows] == [*found(tree), str(tree / "missing")]
    assert [row.get("valid") for row in rows] == [True, True, True, False, None]
    assert objects(run("--json", "-q", tree, tree / "missing")) == rows


def aligned_at(position: int, *tensors: tuple[str, str, int]) -> bytes:
    """A file whose data begins at ``position``: tensors (name, dtype, bytes) with one dimension, in order."""
    parts, begin = [], 0
    width = {"F64": 8, "C64": 8, "F32": 4, "BF16": 2, "U8": 1, "F4": 1}
    for name, dtype, size in tensors:
        dim = size * 2 if dtype == "F4" else size // width[dtype]
        parts.append(f'"{name}":{entry(dtype, f"[{dim}]", f"[{begin},{begin + size}]")}')
        begin += size
    header = ("{" + ",".join(parts) + "}").ljust(position - 8)
    assert len(header) == position - 8
    return make(header, bytes(begin))


@pytest.mark.parametrize(
    ("position", "tensors", "unaligned"),
    [
        (256, [("a", "F32", 8), ("b", "F64", 8)], 0),
        (256, [("a", "F32", 4), ("b", "F64", 8)], 1),
        (257, [("a", "F32", 4), ("b", "F64", 8), ("c", "U8", 1)], 2),
        (260, [("a", "F64", 8), ("b", "C64", 8), ("c", "F32", 4)], 2),
        (255, [("a", "U8", 1), ("b", "F64", 8)], 0),
        (255, [("a", "BF16", 2), ("b", "U8", 1)], 1),
        (201, [("a", "F4", 3), ("b", "U8", 1)], 0),
        (201, [("a", "F64", 0), ("b", "U8", 1)], 0),
        (12, [], 0),
    ],
)
def test_alignment_is_counted_from_the_start_of_the_file(
    tmp_path: Path, position: int, tensors: list[tuple[str, str, int]], unaligned: int
) -> None:
    path = tmp_path / "a.safetensors"
    data = aligned_at(position, *tensors)
    path.write_bytes(data)
    (row,) = objects(run("--json", path))
    assert row["valid"]
    assert row["tensors"] == len(tensors)
    assert row["header_length"] == position - 8
    assert row["data_size"] == len(data) - position
    assert row["alignment"] == {
        "data_start": position,
        "data_start_mod_8": position % 8,
        "data_start_mod_64": position % 64,
        "unaligned_tensors": unaligned,
    }
    note = f"; data starts at {position:,}; {unaligned} of {len(tensors)} tensors unaligned"
    assert (note in run(path).stdout) == (unaligned > 0)
    assert run(path).stdout.count("\n") == 1


@given(models())
def test_the_unaligned_tensors_are_those_whose_address_modulo_their_width_is_not_zero(model: Model) -> None:
    widths = {"64": 8, "32": 4, "16": 2}
    start = 8 + len(model.header)
    expected = 0
    for dtype, _, begin, end in model.tensors.values():
        width = next((w for digits, w in widths.items() if dtype.endswith(digits)), 1)
        expected += begin != end and (start + begin) % width > 0
    assert alignment(read_header(model.file)).unaligned == expected


@given(st.lists(st.sampled_from([np.float64, np.float32, np.int16, np.uint8, np.complex64]), max_size=6))
def test_files_of_the_official_library_are_aligned(dtypes: list[type[np.generic]]) -> None:
    """Its order by falling element width makes them so (WRT-04)."""
    data = save({f"t{i}": np.zeros(3, dtype) for i, dtype in enumerate(dtypes)})
    stats = alignment(read_header(data))
    assert (stats.data_start % 8, stats.unaligned) == (0, 0)


def test_sizes_of_an_invalid_file_are_told_as_far_as_they_are_known(tmp_path: Path) -> None:
    (tmp_path / "faulty").write_bytes(BROKEN)
    (tmp_path / "short").write_bytes(b"1234")
    faulty, short = objects(run("--json", tmp_path / "faulty", tmp_path / "short"))
    length = int.from_bytes(BROKEN[:8], "little")
    assert (faulty["header_length"], faulty["data_size"], faulty["alignment"]) == (length, 8, None)
    assert (short["header_length"], short["data_size"], short["alignment"]) == (None, None, None)
    assert (faulty["tensors"], short["size"]) == (None, 4)


def test_ctrl_c_gives_the_count_so_far(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def interrupted(item: FileInput, profile: ProfileName, known: object) -> CheckResult:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(item.address)
        return check_input(item, profile)

    monkeypatch.setattr(judged, "check_input", interrupted)
    result = run(tree / "sub", tree)
    assert result.exit_code == 130
    assert result.stderr == "interrupted after 3 files: 2 valid, 1 invalid, 0 unreadable\n"
    assert all(name in result.stdout for name in seen)


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
    args = [sys.executable, "-c", code, "check", "--json", str(tree)]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted after 2 files: 2 valid, 0 invalid, 0 unreadable\n"
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2


def on_terminal(args: list[str], stdout_too: bool) -> tuple[bytes, bytes]:
    """Run ``stc`` with standard error on a terminal; returns (standard output, what the terminal got)."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    code = """
from safetensors_reference.files import progress
from safetensors_reference.main import main
progress.REFRESH = -1
main()
"""
    program = [sys.executable, "-c", code, *args]
    process = subprocess.Popen(
        program, stdout=follower if stdout_too else subprocess.PIPE, stderr=follower, env=env
    )
    os.close(follower)
    got = bytearray()

    def listen() -> None:
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux says so when the other end is closed
                return
            if not piece:
                return
            got.extend(piece)

    listener = threading.Thread(target=listen)
    listener.start()
    out, _ = process.communicate(timeout=60)
    listener.join()
    os.close(leader)
    return out or b"", bytes(got)


def test_a_bar_is_drawn_on_a_terminal_and_results_stay_apart(tree: Path) -> None:
    out, terminal = on_terminal(["check", str(tree)], stdout_too=False)
    assert b"checked 4 files" in terminal
    assert b"\x1b" not in out
    assert out.count(b": valid, 1 tensors") == 3
    assert b"valid, 1 tensors" not in terminal
    # The bar is erased before the count is written.
    assert terminal.endswith(b"\x1b[2K4 files: 3 valid, 1 invalid, 0 unreadable\r\n")
    assert terminal.count(b"checked ") <= 6, "nothing is printed here, so the bar need not step aside"


def test_json_never_goes_to_the_terminal_of_the_bar(tree: Path) -> None:
    out, terminal = on_terminal(["check", "--json", str(tree)], stdout_too=False)
    assert len([json.loads(line) for line in out.splitlines()]) == 4
    assert b"{" not in terminal


def test_on_one_terminal_the_bar_steps_aside_for_results(tree: Path) -> None:
    _, terminal = on_terminal(["check", "-q", str(tree)], stdout_too=True)
    # Erased to the beginning of the line before the result begins.
    assert b"\x1b[2K" + os.fsencode(tree) + b"/sub/deep/c.safetensors: 2 faults" in terminal
    assert b"checked " in terminal


def test_one_file_needs_no_bar(tree: Path) -> None:
    _, terminal = on_terminal(["check", str(tree / "a.safetensors")], stdout_too=False)
    assert terminal == b""


def test_without_a_terminal_there_is_no_bar(tree: Path) -> None:
    assert "checked " not in run(tree, env={"FORCE_COLOR": ""}).output


HOSTILE = ["a\nb.safetensors", "\x1b[31m.safetensors", "\u202egnp.safetensors", "[red]x.safetensors"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("options", [[], ["-q"]])
def test_names_found_in_a_directory_reach_the_terminal_escaped(
    tmp_path: Path, name: str, options: list[str]
) -> None:
    folder = tmp_path / f"dir{name}"
    folder.mkdir()
    (folder / name).write_bytes(BROKEN)
    (folder / "b.safetensors").symlink_to("missing")
    result = run(*options, folder, tmp_path / f"none-{name}*")
    assert result.exit_code == 2
    shown = json.dumps(name)[1:-1]
    assert f"/{shown}: 2 faults" in result.stdout
    assert f"dir{shown}/b.safetensors: " in result.stderr
    assert f"none-{shown}*: no file matches" in result.stderr
    assert all(line.isprintable() for line in result.output.split("\n"))


def test_a_profile_holds_for_all_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.safetensors").write_bytes(make(f' {{"w":{W}}}', ABCD))
    assert run(tmp_path).exit_code == 1
    official = run("--profile", "official", tmp_path)
    assert official.exit_code == 0
    assert official.stdout.count("note:") == 2
    assert run("-q", "--profile", "official", tmp_path).stdout == ""


def test_help_lists_the_exit_statuses_one_to_a_line() -> None:
    lines = [line.split() for line in run("--help").stdout.splitlines()]
    assert [line[0] for line in lines if line and line[0].isdigit()] == ["0", "1", "2", "130"]


def test_a_tree_is_checked_while_it_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "a.safetensors").write_bytes(VALID)
    entered: list[str] = []
    scandir = os.scandir

    def watched(path: str) -> Any:
        entered.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    first = next(find_inputs([str(tmp_path)]))
    assert first.address.endswith("d0/a.safetensors")
    assert "d2" not in entered


def test_one_result_is_what_the_reader_says(tree: Path) -> None:
    name = str(tree / "sub/deep/c.safetensors")
    result = check_input(FileInput(name), "hardened")
    assert result.faults == explain(name).faults
    assert (result.status, result.index, result.notes) == ("invalid", None, [])


def test_a_missing_file_is_no_pattern_and_the_system_says_why(tmp_path: Path) -> None:
    result = run("--json", tmp_path / "missing")
    (row,) = objects(result)
    assert row["message"] == f"{tmp_path}/missing: No such file or directory"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [x] \\ ü", "plain [x] \\ ü"),
        ("a\x1b[1m\n", "a\\u001b[1m\\n"),
        ("\u202e\udcff", "\\u202e\\udcff"),
    ],
)
def test_what_is_printed_of_messages_is_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_sub_directories_come_in_sorted_order_whatever_the_file_system_says(tmp_path: Path) -> None:
    names = [f"d{n:02}" for n in range(20)]
    for name in reversed(names[::2] + names[1::2]):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.safetensors").write_bytes(VALID)
    assert found(tmp_path) == below(tmp_path, *(f"{name}/a.safetensors" for name in names))
