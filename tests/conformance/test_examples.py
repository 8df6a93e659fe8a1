"""The examples and first steps of the documentation behave as the pages say, and so do the shims.

Each shim answers requests correctly, whatever names, paths and messages contain. By day ``stc`` is called in
this process, for the start of a command takes longer than what it does; what runs everything runs a sample.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from safetensors_conformance.case_verdict import judge_choice
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.protocol_check.checks import check_protocol
from safetensors_conformance.protocol_check.conversation import SCHEMA, validate
from safetensors_conformance.run.session import Session, smoke
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import fails
from safetensors_reference.main import main
from safetensors_reference.rules.book import rule_book

from .suite_runs import corpus_of, load_once, one_of_each, suite_here
from .support import REPOSITORY, committed

EXAMPLES = REPOSITORY / "docs" / "examples"
SHIMS = REPOSITORY / "conformance" / "safetensors_conformance" / "shims"
PAGE = (REPOSITORY / "docs" / "plug-in.md").read_text(encoding="utf-8")
IN_PYTHON = {
    "mylib_adapter.py": f"py:{EXAMPLES / 'mylib_adapter.py'}:Adapter",
    "stdio_reader.py": f"cmd:{sys.executable} {EXAMPLES / 'stdio_reader.py'}",
}


class Toolchain(NamedTuple):
    """How an example is compiled, in a copy of its folder, and run from there."""

    build: str
    run: str = "{folder}/example"
    folder: Path | None = None


_GCC = "-Wall -Wextra -Werror -O1 -o example"
LANGUAGES = {
    "stdio_reader.mjs": Toolchain("", "node {folder}/stdio_reader.mjs", EXAMPLES),
    "StdioReader.java": Toolchain(
        "javac -Xlint:all,-serial -Werror StdioReader.java", "java -cp {folder} StdioReader", EXAMPLES
    ),
    "stdio_reader.c": Toolchain(f"gcc -std=c11 {_GCC} stdio_reader.c", folder=EXAMPLES),
}
IN_SHIMS = {
    "c": Toolchain(f"gcc -std=c11 {_GCC} example.c"),
    "cpp": Toolchain(f"g++ -std=c++17 {_GCC} example.cpp"),
    "go": Toolchain("go build -o example ."),
    "rust": Toolchain("rustc --edition 2021 -Dwarnings -o example example.rs"),
    "java": Toolchain("javac -Xlint:all -Werror StcShim.java Example.java", "java -cp {folder} Example"),
    "csharp": Toolchain(
        "mcs -warnaserror -out:example.exe StcShim.cs Example.cs", "mono {folder}/example.exe"
    ),
    "zig": Toolchain("zig build-exe -O ReleaseSafe example.zig"),
    "swift": Toolchain("swiftc -o example StcShim.swift main.swift"),
}
AT_NIGHT = ("zig", "swift")
"""A compiler that takes twenty seconds, and one that is in no package here."""
every_shim = pytest.mark.parametrize(
    "language", [pytest.param(x, marks=pytest.mark.nightly) if x in AT_NIGHT else x for x in IN_SHIMS]
)
Program = Callable[[str], str]


@pytest.fixture(scope="session")
def program_of(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The function that compiles an example, once, and skips without its toolchain."""

    @cache
    def compiled(name: str) -> str:
        chain = (LANGUAGES | IN_SHIMS)[name]
        for tool in (text.split()[0] for text in (chain.build, chain.run) if text):
            if "{" not in tool and shutil.which(tool) is None:
                pytest.skip(f"needs {tool}, which is not installed")
        if name == "rust" and subprocess.run(["rustc", "-V"], capture_output=True, check=False).returncode:
            pytest.skip("rustc is rustup's, which has no toolchain here")
        folder = tmp_path_factory.mktemp("example")
        shutil.copytree(chain.folder or SHIMS / name, folder, dirs_exist_ok=True)
        if name == "go":  # a module: the shim in a package of its own, the example at the top
            (folder / "stc").mkdir()
            (folder / "shim.go").rename(folder / "stc" / "shim.go")
            (folder / "example" / "main.go").rename(folder / "main.go")
            (folder / "example").rmdir()
            (folder / "go.mod").write_text("module example.org/shims\n\ngo 1.18\n", encoding="utf-8")
        if chain.build:
            done = subprocess.run(
                chain.build.split(), cwd=folder, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        return chain.run.format(folder=folder)

    return compiled


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", IN_PYTHON)
def test_an_example_passes_the_smoke_check_and_reads_ordinary_files(name: str, every: bool) -> None:
    accepted = [c for c in committed().reading if c.expect is not None and c.expect.outcome == "accept"]
    cases = accepted if every else one_of_each(accepted)
    assert len(cases) > 30
    with Session(resolve(IN_PYTHON[name])) as session:
        assert smoke(session, committed().cases) is None
        session.plan(cases)
        for case in cases:
            assert session.judge(case).verdict == "pass", case.id


def failures(selector: str, cases: Sequence[Case]) -> dict[str, str]:
    """Cases that the reader fails, recommendations included, and choices that it contradicts itself on."""
    with Session(resolve(selector)) as session:
        session.start()
        session.plan(cases)
        verdicts = [session.judge(case) for case in cases]
    wrong = {
        v.case.id: f"{v.verdict}: {v.steps[step].detail}"
        for v in verdicts
        for step in v.steps
        # What a case costs depends on the machine; that is not what is asked here.
        if fails(v.verdict, strict=True) and "over budget" not in v.steps[step].detail
    }
    for choice in rule_book().choices:
        mine = [v for v in verdicts if v.case.choice == choice]
        if mine and judge_choice(choice, mine)[0] == "choice-inconsistent":
            wrong[choice] = "choice-inconsistent"
    return wrong


@pytest.mark.by_day(1)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", LANGUAGES)
def test_the_example_in_another_language_fails_no_case(name: str, every: bool, program_of: Program) -> None:
    cases = [c for c in committed().cases if c.kind in ("read", "resource") and not c.heavy]
    if not every:
        # Cases whose cost is limited start a process more, which takes Java long.
        cases = [*one_of_each(committed().reading), *[c for c in cases if c.kind == "resource"][::8]]
    assert len(cases) >= 150
    assert failures(f"cmd:{program_of(name)}", cases) == {}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", [*IN_PYTHON, *LANGUAGES, *IN_SHIMS])
def test_every_example_speaks_the_protocol(name: str, program_of: Program) -> None:
    selector = IN_PYTHON.get(name) or f"cmd:{program_of(name)}"
    checks = list(check_protocol(resolve(selector), committed()))
    assert [c for c in checks if c.status == "fail"] == []
    assert len([c for c in checks if c.status == "pass"]) >= 15


@pytest.mark.parametrize("how", ["c", pytest.param("java", marks=pytest.mark.nightly)])
def test_a_program_answers_by_its_status_or_from_one_file(how: str, program_of: Program) -> None:
    selector = f"exit:{program_of('stdio_reader.c')} {{path}}"
    if how == "java":  # it is compiled at every start; by day it runs compiled
        program_of("StdioReader.java")
        selector = f"cmd:java {EXAMPLES / 'StdioReader.java'}"
    cases = [c for c in committed().cases if c.smoke and c.kind == "read"]
    with Session(resolve(selector)) as session:
        assert [session.judge(c).verdict for c in cases] == ["pass"] * len(cases)


@pytest.mark.parametrize(
    ("tool", "outcome", "words"),
    [
        ('test -s "$1"', "accept", ""),
        ('test ! -s "$1"', "reject", ""),
        ("exit 2", "reject", ""),
        ("exit 9", "crash", "exit status 9"),
        ("kill -11 $$", "crash", "SIGSEGV"),
        ("exec no-such-tool", "harness-error", "127"),
    ],
)
def test_the_wrapper_in_shell_hands_every_status_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, outcome: str, words: str
) -> None:
    script = tmp_path / "tool.sh"
    script.write_text(f"{tool}\n", encoding="utf-8")
    monkeypatch.setenv("TOOL", f"sh {script}")
    case = committed().by_id["framing/one-tensor"]
    limits = Limits(confinement=Confinement(env=("TOOL",)))
    with Session(resolve(f"exit:sh {EXAMPLES / 'exit_check.sh'} {{path}}"), limits) as session:
        result = session.judge(case).steps["read"].result
    assert (result.outcome, words in result.message) == (outcome, True)


def test_examples_and_shims_stay_as_short_as_the_pages_promise() -> None:
    limits = {EXAMPLES / "mylib_adapter.py": 22, EXAMPLES / "stdio_reader.py": 60}
    for language in IN_SHIMS:
        shim, example = sorted((SHIMS / language).rglob("*.*"), key=lambda p: "hi" not in p.name.lower())
        assert "shim" in shim.name.lower(), shim
        limits |= {shim: 360, example: 100}
    for path, limit in limits.items():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= limit, path
    assert set(IN_SHIMS) == {path.name for path in SHIMS.iterdir() if not path.name.startswith("_")}


def test_every_message_on_the_page_is_one_of_the_protocol_and_the_adapter_is_as_it_is() -> None:
    kinds = {"start": "startRequest", "run": "runRequest", "stop": "stopRequest"}
    requests, steps, asked = 0, set(), 0
    for line in re.findall(r"^(?:->|<-) .*$", PAGE, re.MULTILINE):
        message = json.loads(line[3:])
        if line.startswith("->"):
            validate(message, kinds[message["cmd"]])
            requests += 1
            steps.add(message.get("step"))
            asked = message.get("seq", 0)
        else:
            validate(message, "startAnswer" if "protocol" in message else "runAnswer")
            assert message.get("seq", 0) == asked
    assert requests == 18
    schema = json.loads(SCHEMA.read_bytes())
    assert steps - {None} == set(schema["$defs"]["request"]["enum"]) - {"open"}
    source = (EXAMPLES / "mylib_adapter.py").read_text(encoding="utf-8")
    assert source[source.index("class Adapter") :].strip() in PAGE


def converse(program: str, *requests: tuple[str, str]) -> list[dict[str, Any]]:
    """Send all steps with their paths at once, and return the answers, which follow the schema."""
    start = {"cmd": "start", "protocol": 1, "profile": None}
    numbered: list[dict[str, Any]] = [
        {"cmd": "run", "seq": 7 * at, "step": step.removeprefix("count "), "path": path}
        | ({"summary": True} if "count" in step else {})
        for at, (step, path) in enumerate(requests, 1)
    ]
    lines = "".join(f"{json.dumps(request)}\n" for request in (start, *numbered, {"cmd": "stop"}))
    done = subprocess.run(
        program.split(), input=lines, capture_output=True, text=True, check=True, timeout=60
    )
    first, *answers = map(json.loads, done.stdout.rstrip("\n").split("\n"))
    validate(first, "startAnswer")
    assert first["lacks"] == ["dtype-f4"]
    for request, answer in zip(numbered, answers, strict=True):
        validate(answer, "runAnswer")
        assert answer["seq"] == request["seq"]
    return answers


def file_of(folder: Path, name: str, header: bytes, data: bytes = b"") -> str:
    """Write a file and return its path."""
    folder.joinpath(name).write_bytes(len(header).to_bytes(8, "little") + header + data)
    return str(folder / name)


@every_shim
def test_digests_texts_and_paths_of_any_kind_come_through(
    language: str, program_of: Program, tmp_path: Path
) -> None:
    # The sizes are those at every end of a block.
    header, data, want = {}, b"", {}
    for size in (0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000):
        content = bytes((size + at) % 251 for at in range(size))
        offsets = [len(data), len(data := data + content)]
        header[f"t{size}"] = {"dtype": "U8", "shape": [size], "data_offsets": offsets}
        want[f"t{size}"] = ("U8", [size], size, hashlib.sha256(content).hexdigest())
    path = file_of(tmp_path, "blocks", json.dumps(header, separators=(",", ":")).encode(), data)
    name, key, value = "a\x7fü\u2028😀'", "k/ß", "<v>&\u202e"
    entry = '{"dtype":"F32","shape":[],"data_offsets":[0,4]}'
    text = f'{{"{name}":{entry},"__metadata__":{{"{key}":"{value}"}}}}'
    folder = tmp_path / 'a "folder"\\ with\ttabs ü😀'
    folder.mkdir()
    odd = file_of(folder, "f\n.safetensors", text.encode(), b"\0\0\x80\x3f")
    requests = [("read", path), ("open", path), ("count read", path)]
    requests += [("read", odd), ("read", str(folder / "lost\x01")), ("slice", odd)]
    read, opened, counted, named, missing, other = converse(program_of(language), *requests)
    keys = ("dtype", "shape", "nbytes", "sha256")
    assert {t["name"]: tuple(t[key] for key in keys) for t in read["tensors"]} == want
    assert read["metadata"] is None
    assert {t["name"] for t in opened["tensors"]} == set(want)
    assert all("sha256" not in t and "nbytes" not in t for t in opened["tensors"])
    assert (counted["outcome"], counted["tensor_count"]) == ("accept", len(want))
    assert [t["name"] for t in named["tensors"]] == [name]
    assert named["metadata_items"] == [[key, value]]
    assert (missing["outcome"], other["outcome"]) == ("reject", "unsupported")


@pytest.mark.parametrize("language", ["c", "cpp"])  # the others hand on no names that are not UTF-8
def test_names_that_are_no_utf8_are_told_in_hex(language: str, program_of: Program, tmp_path: Path) -> None:
    broken = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82")
    names = (*broken, b"ok\x01\\", b"\xf4\x8f\xbf\xbf")
    entries = [b'"%s":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % name for name in names]
    metadata = b'"__metadata__":{"\xfe":"\x80"}'
    path = file_of(tmp_path, "bytes", b"{" + b",".join([metadata, *entries]) + b"}")
    (answer,) = converse(program_of(language), ("open", path))
    told = [{"hex": name.hex()} for name in broken]
    assert [t["name"] for t in answer["tensors"]] == [*told, "ok\x01\\", "\U0010ffff"]
    assert answer["metadata_items"] == [[{"hex": "fe"}, {"hex": "80"}]]


# The page for newcomers: every command on it runs, in nightly tests literally


FIRST_RUN = REPOSITORY / "docs" / "first-run.md"
BLOCK = re.compile(r"^```(?P<info>[^\n]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, set[str], dict[str, str]]]:
    """Yield the content, the marks and the settings of each fenced block."""
    for match in BLOCK.finditer(FIRST_RUN.read_text(encoding="utf-8")):
        _, *words = match["info"].split()
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        yield match["body"], {word for word in words if "=" not in word}, settings


def as_it_stands(command: str, folder: Path) -> tuple[int, str]:
    """Run a command as a newcomer would, with the installed package and without the network."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1", "NO_COLOR": "1", "COLUMNS": "200"}
    argv = ["sh", "-ec", f"exec 2>&1\n{command}"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def here(command: str, folder: Path) -> tuple[int, str]:
    """Call our own command in this process; run any other, and the one that starts fast, unchanged."""
    name, *arguments = shlex.split(command)
    if name == "pytest" and arguments[:2] == ["--pyargs", "safetensors_conformance"]:
        ran = suite_here(*arguments[2:], cwd=folder, target=None)
        return ran.returncode, ran.stdout + ran.stderr
    if name != "stc" or arguments[0] == "check":
        return as_it_stands(command, folder)
    with contextlib.chdir(folder):
        done = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"}).invoke(main, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize("execute", [here, pytest.param(as_it_stands, marks=pytest.mark.nightly)])
def test_the_commands_do_what_it_says(
    execute: Callable[[str, Path], tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run all commands of the page one after the other, and look for the lines that it shows."""
    wanted = [case.id for case in one_of_each(committed().reading)[::12]]
    load_once(monkeypatch, corpus_of(tmp_path / "corpus", "layout/hole-", "header/name-bytes-ff", *wanted))
    folder = tmp_path / "page"
    shutil.copytree(REPOSITORY / "docs", folder / "docs")
    output, ran, left_out = "", 0, set()
    for body, marks, settings in blocks():
        if name := settings.get("file"):
            (folder / name).write_text(body, encoding="utf-8")
        elif "run" in marks:
            tool = settings.get("needs", "sh")
            output = ""
            if shutil.which(tool) is None:
                left_out.add(tool)
                continue
            status, output = execute(body, folder)
            assert status == int(settings.get("status", "0")), f"$ {body}{output}"
            ran += 1
        elif "shows" in marks and output:
            for line in body.splitlines():
                assert line in output, f"not shown: {line}\n{output}"
        elif not marks and not settings:
            assert body.strip() == 'pip install -e ".[harness]"'
    assert ran >= 8
    if left_out:
        pytest.skip(f"{ran} commands run; the others need {', '.join(sorted(left_out))}")
