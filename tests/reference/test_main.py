"""The command without the harness: what ``pip install safetensors-conformance`` alone brings."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from safetensors_reference.main import OWN, SUMMARIES, Commands, main

from .support import ABCD, W, make

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HARNESS = [re.split("[<>=]", line)[0] for line in PROJECT["optional-dependencies"]["harness"]]
OTHERS = ["huggingface_hub", "fsspec", "cyclonedx", "safetensors", "torch", "hypothesis", "yaml"]
COMMANDS = {*OWN, *PROJECT["entry-points"]["stc.commands"]}
INSTALL = "pip install 'safetensors-conformance[harness]'"


def python(names: list[str], code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python where some modules look as if they were not installed."""
    refuse = f"import sys\nsys.modules.update(dict.fromkeys({names!r}))\n"
    line = [sys.executable, "-c", refuse + code, *args]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def stc(*args: str) -> subprocess.CompletedProcess[str]:
    """Run ``stc`` where nothing but the base dependencies can be imported."""
    return python([*HARNESS, *OTHERS], "from safetensors_reference.main import main\nmain()", *args)


def test_the_base_is_small_and_extras_that_run_something_bring_the_harness() -> None:
    assert [re.split("[<>=]", line)[0] for line in PROJECT["dependencies"]] == ["click", "msgspec", "rich"]
    for extra in ("official", "torch", "fuzz", "site"):
        assert "safetensors-conformance[harness]" in PROJECT["optional-dependencies"][extra], extra


def test_files_are_checked_without_the_harness(tmp_path: Path) -> None:
    (tmp_path / "m-00001-of-00002.safetensors").write_bytes(make(f'{{"w":{W}}}', ABCD))
    (tmp_path / "b.safetensors").write_bytes(make(f'{{"w":{W},"w":{W}}}', ABCD))
    (tmp_path / "m.safetensors.index.json").write_text('{"weight_map":{"w":"m-00001-of-00002.safetensors"}}')
    log, told = tmp_path / "log", tmp_path / "told"
    done = stc("check", str(tmp_path), "--sarif", str(log), "--intoto", str(told))
    assert (done.returncode, "HDR_DUP_KEY" in done.stdout) == (1, True), done.stderr
    assert log.stat().st_size > 1000 < told.stat().st_size + 1000
    assert stc("rules", "show", "OFF-07").returncode == 0


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("run --impl x", "stc run"),
        ("fuzz -h", "stc fuzz"),
        ("corpus stats --check", "stc corpus stats"),
        ("rules build --output no/folder", "this command"),
    ],
)
def test_other_commands_name_the_extra(line: str, what: str) -> None:
    done = stc(*line.split())
    assert (done.returncode, done.stderr) == (2, f"Error: {what} needs the harness: {INSTALL}\n")


def test_the_list_of_commands_is_whole_and_marks_those_that_need_the_harness() -> None:
    done = stc("-h")
    assert done.returncode == 0, done.stderr
    commands = done.stdout.partition("Commands:")[2]
    listed = dict(re.findall(r"^  ([a-z-]+)(\*?) +[A-Z]", commands, re.MULTILINE))
    assert listed.keys() == COMMANDS
    assert done.stdout.endswith(f"\n* needs the harness: {INSTALL}\n")
    code = (
        "from click import Context\nfrom safetensors_reference.main import main\n"
        "print(*(name for name in sys.argv[1:] if not main.get_command(Context(main), name).help))"
    )
    missing = python([*HARNESS, *OTHERS], code, *COMMANDS).stdout.split()
    assert sorted(missing) == [name for name, mark in sorted(listed.items()) if mark]
    loaded = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
    assert {name: cmd and cmd.get_short_help_str(1000) for name, cmd in loaded.items()} == SUMMARIES
    assert "*" not in CliRunner().invoke(main, ["-h"]).stdout


def test_pytest_without_the_harness_is_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_x.py").write_text("def test_x(): pass\n")
    missing = sorted({*HARNESS} - {"pytest", "packaging"})
    code = "import pytest\nsys.exit(pytest.main(sys.argv[1:]))"
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others take long to load
    plugin = "safetensors_conformance.pytest_suite.plugin"
    args = ["-q", "-p", plugin, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)]
    done = python(missing, code, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    done = python(missing, code, "--impl=reference", *args)
    assert done.returncode == 4
    assert re.search(rf"the suite needs the harness \([a-z]+\): {re.escape(INSTALL)}", done.stderr)


@pytest.mark.parametrize("line", ["check -", "audit x - -o rows.jsonl", "corpus verify -", "fuzz replay -"])
def test_a_dash_is_not_the_name_of_a_file(line: str) -> None:
    result = CliRunner().invoke(main, line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "standard input" in result.stderr
    assert "./-" in result.stderr


def test_an_interrupt_anywhere_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Commands, "get_command", interrupted)
    found = CliRunner().invoke(main, ["check", "x"])
    assert (found.exit_code, found.output) == (130, "interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("line", ["check", "audit --jobs 1"])
def test_a_full_disk_behind_the_output_is_no_verdict(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"")
    program = "from safetensors_reference.main import main\nmain()"
    with open("/dev/full", "w") as full:
        arguments = [sys.executable, "-c", program, *line.split(), str(tmp_path)]
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("Error: the output cannot be written: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_a_command_that_is_nearly_one_is_guessed() -> None:
    for given, meant in {"chekc": "check", "corpsu": "corpus"}.items():
        result = CliRunner().invoke(main, [given])
        assert result.exit_code == 2
        assert f"Did you mean '{meant}'?" in result.output
    assert "Did you mean" not in CliRunner().invoke(main, ["xyz"]).output


@pytest.mark.parametrize(
    ("arguments", "needed"), [("--version", []), ("-h", ["importlib.metadata"]), ("check {path}", [])]
)
def test_the_start_loads_nothing_large(tmp_path: Path, arguments: str, needed: list[str]) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(make(f'{{"w":{W}}}', ABCD))
    words = [word.format(path=path) for word in arguments.split()]
    program = (
        "import sys\nfrom safetensors_reference.main import main\n"
        f"try: main({words!r})\nexcept SystemExit as end: assert not end.code\n"
        "large = {'rich', 'numpy', 'jinja2', 'jsonschema', 'tomllib', 'importlib.metadata', 'hypothesis'}\n"
        "print(sorted(large & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(needed)
