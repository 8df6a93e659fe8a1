"""``stc check`` as people and programs meet it, over one file and over many."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from safetensors_reference import explain
from safetensors_reference.check.cli import MAX_FAULTS
from safetensors_reference.files.names import FileInput
from safetensors_reference.files.walk import find_inputs
from safetensors_reference.rules.book import PROFILES, TEXT_ANSWERS, rule_book

from ..audit.support import write_tree
from ..support import ABCD, W, entry, make
from .support import BROKEN, INDEX, VALID, harmless, load_log, results, row, rows, run


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_file_of_no_bytes_and_one_of_long_names_are_shown_in_few_lines(tmp_path: Path) -> None:
    assert run(write(tmp_path, "empty", b"")).stdout.endswith("    where  file 0x0 (no bytes)\n")
    name = "n" * 1_000_000
    assert len(run(write(tmp_path, "a", make(f'{{"{name}":{W},"{name}":{W}}}', ABCD))).stdout) < 3000


def test_every_fault_is_shown_with_its_code_rule_place_and_bytes(tmp_path: Path) -> None:
    broken = write(tmp_path, "broken", BROKEN)
    out = run(broken).stdout
    assert f"{broken}: 2 faults" in out
    again, end = BROKEN.rindex(b'"w"'), len(BROKEN)
    for part in ("HDR_DUP_KEY", "HDR-09 (must)", f"file {again:#x}..{again + 2:#x}  $['w']"):
        assert part in out
    for part in ("OFF_TRAILING", "OFF-08 (must)", f"file {end - 4:#x}..{end - 1:#x}"):
        assert part in out
    assert '0 |"w": U8[4]| 4 |trailing: 4 bytes| 8 = end of file' in out
    marked = []
    for line, marks in itertools.pairwise(out.splitlines()):
        if "^^" in marks:
            marked += [int(line[m.start() : m.start() + 2], 16) for m in re.finditer(r"\^\^", marks)]
    assert bytes(marked) == b'"w"' + b"!!!!"


def test_a_fault_of_a_choice_names_it_and_a_tolerated_one_is_noted(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path, f"{name}.safetensors", make(f' {{"w":{W}}}', ABCD))
    write(tmp_path, INDEX, b'{"metadata":{},"weight_map":{"w":"a.safetensors"}}')
    refused = run(tmp_path)
    assert (refused.exit_code, "choice leading-whitespace" in refused.stdout) == (1, True)
    tolerated = run("--profile", "official", tmp_path)
    assert tolerated.exit_code == 0
    assert tolerated.stdout.count(" (HDR-02, tolerated by profile official)") == 3
    assert f"{tmp_path}/{INDEX}: valid" in tolerated.stdout
    assert run("-q", "--profile", "official", tmp_path).stdout == ""


@pytest.mark.parametrize(("count", "printed"), [(MAX_FAULTS, 20), (25, 20)])
def test_many_faults_are_cut_except_with_all_and_in_json(tmp_path: Path, count: int, printed: int) -> None:
    path = write(tmp_path, "many", make("{" + ",".join(f'"t{i}":null' for i in range(count)) + "}"))
    cut, everything = run(path).stdout, run("--all", path).stdout
    assert f"{count} faults" in cut
    assert cut.count("ENT_NOT_OBJECT") == printed
    assert (f"{count - printed} more; --all" in cut) == ("--all" in cut) == (count > printed)
    assert everything.count("ENT_NOT_OBJECT") == count
    assert "--all" not in everything
    assert len(row(path)["faults"]) == count


def test_json_is_one_object_per_file_and_holds_every_fault(tmp_path: Path) -> None:
    valid, broken = write(tmp_path, "valid", VALID), write(tmp_path, "broken", BROKEN)
    result = run("--json", valid, broken, tmp_path / "missing")
    assert result.exit_code == 2
    good, bad, missing = rows(result)
    values = ("file", "readable", "valid", "profile", "size", "tensors", "faults", "tolerated")
    assert [good[key] for key in values] == [str(valid), True, True, "hardened", len(VALID), 1, [], []]
    assert (bad["valid"], bad["tensors"], bad["file"]) == (False, None, str(broken))
    assert bad["faults"] == [fault.to_dict() for fault in explain(BROKEN).faults]
    length = int.from_bytes(BROKEN[:8], "little")
    assert (bad["header_length"], bad["data_size"], bad["alignment"]) == (length, 8, None)
    short = row(write(tmp_path, "short", b"1234"))
    assert [short[key] for key in ("size", "header_length", "data_size")] == [4, None, None]
    assert missing == {
        "file": str(tmp_path / "missing"),
        "kind": "file",
        "readable": False,
        "code": "IO_ERROR",
        "message": f"{tmp_path}/missing: No such file or directory",
    }


def test_text_answers_as_hardened_where_the_text_is_silent(tmp_path: Path) -> None:
    choice = rule_book().choices["unknown-entry-fields"]
    assert (choice.positions["text"], choice.positions["hardened"]) == (None, "reject")
    path = write(tmp_path, "a", make(f'{{"w":{W[:-1]},"x":1}}}}', ABCD))
    told = [row("--profile", profile, path) for profile in PROFILES]
    assert [(t["profile"], t["valid"]) for t in told] == [*zip(PROFILES, (False, True, False), strict=True)]
    assert all([f["choice"] for f in t["faults"] + t["tolerated"]] == [choice.id] for t in told)
    help_text = run("--help").stdout
    assert TEXT_ANSWERS in " ".join(help_text.split())
    assert re.findall(r"^ +(\d+) ", help_text, re.MULTILINE) == ["0", "1", "2", "130"]


HOSTILE = [
    "[red]x[/red]",
    "[a](https://b)",
    "[link=https://example.org]x[/link]",
    "a\nvalid.safetensors: valid",
    "a\r\x1b[2Jb",
    "\x1b]0;title\x07",
    "\u202egnp.exe",
    "\x9b31m",
    "\x7f",
    "{0}%s%n",
]
"""Names that end a line, move the cursor, turn the text around, or mean something to a renderer."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_neither_break_nor_inject(tmp_path: Path, name: str) -> None:
    key, shown = json.dumps(name), json.dumps(name)[1:-1]
    log, again = tmp_path / "log", f'"{shown}" appears again'
    path = write(tmp_path, "a", make(f"{{{key}:{W},{key}:{W}}}", ABCD))
    result, noted = run("--sarif", log, path), run("--profile", "official", path)
    assert (result.exit_code, noted.exit_code) == (1, 0)
    assert f'|"{shown[:24]}' in result.stdout, "in the drawing"
    messages = [fault["message"] for fault in row(path)["faults"]]
    assert [again in text for text in (result.stdout, noted.stdout, messages[0])] == [True] * 3
    text = results(load_log(log))[0]["message"]["text"]
    assert (text.isprintable(), "](" in text.replace("\\](", "")) == (True, False)
    missing = tmp_path / "no" / name
    absent = run(missing)
    assert (absent.exit_code, absent.stderr.count("\n")) == (2, 1)
    assert absent.stderr.startswith(f"{json.dumps(str(missing))[1:-1]}: ")
    assert row(missing)["file"] == str(missing)
    outputs = [result.output, noted.output, absent.output]
    if "/" not in name:
        folder = tmp_path / f"dir{name}"
        folder.mkdir()
        path = write(folder, f"{name}.safetensors", BROKEN)
        assert row(path)["file"] == str(path)
        (folder / "b.safetensors").symlink_to("missing")
        write(folder, INDEX, json.dumps({"weight_map": {name: name}}).encode())
        for options in ([], ["-q"]):
            result = run(*options, folder, tmp_path / f"none-{name}*")
            assert result.exit_code == 2
            assert f"/{shown}.safetensors: 2 faults" in result.stdout
            assert f"dir{shown}/b.safetensors: " in result.stderr
            assert f"none-{shown}*: no file matches" in result.stderr
            outputs.append(result.output)
        path.write_bytes(VALID)
        outputs.append(run(path).output)
        assert f"/{shown}.safetensors: valid" in outputs[-1]
    assert all(map(harmless, outputs))
    assert not any(line.startswith("valid") for output in outputs for line in output.splitlines())


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
    outputs = ["--sarif", str(tree / "log"), "--intoto", str(tree / "statement")]
    args = [sys.executable, "-c", code, "check", "--json", *outputs, str(tree)]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted after 2 files: 2 valid, 0 invalid, 0 unreadable\n"
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2
    assert len(load_log(tree / "log")["runs"][0]["artifacts"]) == 2
    assert not (tree / "statement").exists(), "a statement about some of the files"


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
