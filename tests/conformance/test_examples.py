"""The examples of the documentation behave as the pages say, in every language."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.protocol_check.checks import check_protocol
from safetensors_conformance.protocol_check.conversation import SCHEMA, validate
from safetensors_conformance.run.session import CaseRunner, Session, smoke
from safetensors_conformance.verdict import judge_choice
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import fails
from safetensors_reference.rules.book import rule_book

from .suite_runs import one_of_each
from .support import REPOSITORY, committed

EXAMPLES = REPOSITORY / "docs" / "examples"
SELECTORS = {
    "mylib_adapter.py": f"py:{EXAMPLES / 'mylib_adapter.py'}:Adapter",
    "stdio_reader.py": f"cmd:{sys.executable} {EXAMPLES / 'stdio_reader.py'}",
}
LANGUAGES = {"stdio_reader.mjs": "node", "StdioReader.java": "java", "stdio_reader.c": "gcc"}
"""Example in another language -> the program that it needs."""


@pytest.fixture(scope="session")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in C, compiled as its first lines say."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, which is not installed")
    program = tmp_path_factory.mktemp("c") / "stdio_reader"
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(program)]
    subprocess.run([*command, str(EXAMPLES / "stdio_reader.c")], check=True)
    return program


@pytest.fixture
def selector_of(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Return the function from an example to its selector; it skips where the language is not there."""

    def selector(name: str) -> str:
        if name in SELECTORS:
            return SELECTORS[name]
        tool = LANGUAGES[name]
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}, which is not installed")
        if tool == "gcc":
            return f"cmd:{request.getfixturevalue('c_program')}"
        if tool == "java" and shutil.which("javac") is not None:
            return f"cmd:java -cp {request.getfixturevalue('java_classes')} StdioReader"
        return f"cmd:{tool} {EXAMPLES / name}"

    return selector


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in Java, compiled once, since each start would compile it again."""
    folder = tmp_path_factory.mktemp("java")
    subprocess.run(
        ["javac", "-Xlint:all,-serial", "-Werror", "-d", folder, EXAMPLES / "StdioReader.java"], check=True
    )
    return folder


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", SELECTORS)
def test_an_example_passes_the_smoke_check_and_reads_ordinary_files(name: str, every: bool) -> None:
    accepted = [c for c in committed().reading if c.expect is not None and c.expect.outcome == "accept"]
    cases = accepted if every else one_of_each(accepted)
    assert len(cases) > 30
    with Session(CaseRunner(resolve(SELECTORS[name]))) as session:
        assert smoke(session, committed().cases) is None
        session.runner.plan(cases)
        for case in cases:
            assert session.judge(case).verdict == "pass", case.id


def test_a_careless_reader_is_caught() -> None:
    with Session(CaseRunner(resolve(SELECTORS["mylib_adapter.py"]))) as session:
        hole = committed().by_id["layout/hole-between-two"]
        assert session.judge(hole).verdict == "wrong-accept"


def failures(selector: str, cases: Sequence[Case]) -> dict[str, str]:
    """Cases that the reader fails, recommendations included, and choices that it contradicts itself on."""
    with Session(CaseRunner(resolve(selector))) as session:
        session.start()
        session.runner.plan(cases)
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
def test_the_example_in_another_language_fails_no_case(
    name: str, every: bool, selector_of: Callable[[str], str]
) -> None:
    cases = [c for c in committed().cases if c.kind in ("read", "resource") and not c.heavy]
    if not every:  # cases whose cost is limited start a process more, which takes Java long
        cases = [*one_of_each(committed().reading), *[c for c in cases if c.kind == "resource"][::8]]
    assert len(cases) >= 150
    assert failures(selector_of(name), cases) == {}


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", [*SELECTORS, *LANGUAGES])
def test_every_example_speaks_the_protocol(name: str, selector_of: Callable[[str], str]) -> None:
    checks = list(check_protocol(resolve(selector_of(name)), committed()))
    assert [c for c in checks if c.status == "fail"] == []
    assert len(checks) > 10


def test_the_program_in_c_answers_by_its_exit_status_too(c_program: Path, tmp_path: Path) -> None:
    wrapper = tmp_path / "check.sh"
    text = (EXAMPLES / "exit_check.sh").read_text(encoding="utf-8")
    wrapper.write_text(text.replace("${TOOL:-stc check}", str(c_program)), encoding="utf-8")
    cases = [c for c in committed().cases if c.smoke and c.kind == "read"]
    for command in (f"{c_program} {{path}}", f"sh {wrapper} {{path}}"):
        with Session(CaseRunner(resolve(f"exit:{command}"))) as session:
            assert [session.judge(c).verdict for c in cases] == ["pass"] * len(cases)


@pytest.mark.nightly  # it is compiled at every start; by day it runs compiled
def test_the_program_in_java_runs_from_its_single_file() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java 17, which is not installed")
    cases = [c for c in committed().cases if c.smoke and c.kind == "read"]
    with Session(CaseRunner(resolve(f"cmd:java {EXAMPLES / 'StdioReader.java'}"))) as session:
        assert [session.judge(c).verdict for c in cases] == ["pass"] * len(cases)


@pytest.mark.parametrize(
    ("tool", "outcome", "words"),
    [
        ("exit 0", "accept", ""),
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
    with Session(CaseRunner(resolve(f"exit:sh {EXAMPLES / 'exit_check.sh'} {{path}}"), limits)) as session:
        result = session.judge(case).steps["read"].result
    assert result.outcome == outcome
    assert words in result.message


@pytest.mark.parametrize(("name", "limit"), [("mylib_adapter.py", 22), ("stdio_reader.py", 60)])
def test_the_examples_stay_as_short_as_the_pages_promise(name: str, limit: int) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= limit


def test_every_message_on_the_page_is_one_of_the_protocol() -> None:
    page = (REPOSITORY / "docs" / "plug-in.md").read_text(encoding="utf-8")
    kinds = {"start": "startRequest", "run": "runRequest", "stop": "stopRequest"}
    requests, steps, asked = 0, set(), 0
    for line in re.findall(r"^(?:->|<-) .*$", page, re.MULTILINE):
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


def test_the_page_shows_the_adapter_as_it_is() -> None:
    page = (REPOSITORY / "docs" / "plug-in.md").read_text(encoding="utf-8")
    source = (EXAMPLES / "mylib_adapter.py").read_text(encoding="utf-8")
    assert source[source.index("class Adapter") :].strip() in page
