"""Every command: its help, and its exit status 1, which never comes without its reason, in any form."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import benchmarks
from proof.broken.__main__ import matrix
from proof.documents.__main__ import documents
from proof.mutation.__main__ import mutants
from proof.promote import command as promote
from safetensors_conformance.cli import impl, publish
from safetensors_corpus.author.case import all_cases
from safetensors_corpus.publish import build as build_module
from safetensors_reference.main import main
from safetensors_reports.history.trend import WORDS
from safetensors_reports.trophies import cli as trophies_cli
from tools.covering import covering

from .conformance.suite_runs import BASICS, corpus_of, load_once
from .conformance.support import QUICK, REPOSITORY, fake
from .corpus.small import small_corpus

STALE = '[[expected]]\ncase = "framing/one-tensor"\nread = "wrong-reject"\nwhy = "x"\n'
ACCEPTS = fake("AlwaysAccepts")
LAX = f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter"
HOLE = "layout/hole-between-two"


def walk(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command, str]]:
    """Yield a command and all below it: the whole name, the command and its help text."""
    # Click keeps the help option that it makes first, so it has to be the one of a real call.
    context = click.Context(command, info_name=name, parent=parent, help_option_names=["-h", "--help"])
    yield name, command, command.get_help(context)
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from walk(found, f"{name} {sub}", context)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def invalid_file(folder: Path) -> str:
    return written(folder, "bad.safetensors", "\x02\0\0\0\0\0\0\0{}more")


def stale(folder: Path) -> str:
    return written(folder, "stale.toml", STALE)


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments), env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def damaged_record(folder: Path, small: str) -> str:
    invoke("run", "--impl", QUICK, "--corpus", small, "--report", str(folder / "runs"), "-q")
    (record,) = (folder / "runs").glob("*.jsonl")
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join([*lines[:2], "damaged\n", *lines[3:]]))
    return str(record)


def finding(folder: Path) -> str:
    invoke("fuzz", "--impl", ACCEPTS, "--max-execs", "1", "--seed", "1", "-o", str(folder / "found"))
    return str(min((folder / "found").iterdir()))


def two_corpora(folder: Path) -> list[str]:
    small_corpus(folder / "old")
    shutil.copytree(folder / "old", folder / "new")
    document = json.loads((folder / "new" / "corpus.json").read_text())
    document["cases"][0]["title"] += " Changed."
    written(folder / "new", "corpus.json", json.dumps(document))
    return [str(folder / "old"), str(folder / "new")]


def damaged_corpus(folder: Path) -> str:
    small_corpus(folder)
    next(folder.glob("files/**/*.safetensors")).write_bytes(b"")
    return str(folder)


Provocation = tuple[Callable[[Path, str], list[str]], str]
PROVOKED: dict[str, list[Provocation]] = {
    "audit": [(lambda f, _: [str(Path(invalid_file(f)).parent), "-o", f"{f}/rows.jsonl"], "invalid")],
    "baseline explain": [(lambda f, _: [QUICK, "--file", stale(f)], "no longer fail as listed: 1")],
    "check": [(lambda f, _: [invalid_file(f)], "OFF_TRAILING")],
    "check-protocol": [(lambda _, __: ["--impl", ACCEPTS], "(FAIL|fail).*framing/one-tensor")],
    "corpus bugs": [(lambda _, __: ["no such bug"], "no bug matches")],
    "corpus build": [(lambda f, _: ["--check", "-o", str(f)], "out of date: .* files")],
    "corpus copy": [(lambda f, _: [str(Path(invalid_file(f)).parent)], "is not empty")],
    "corpus diff": [(lambda f, _: two_corpora(f), "framing/plain")],
    "corpus packages": [
        (lambda f, _: ["-o", f"{f}/out", "-c", damaged_corpus(f / "corpus")], "packages does not exist")
    ],
    "corpus release": [
        (lambda f, _: [f"{f}/dist", "-c", damaged_corpus(f / "corpus")], "out of date: .* files")
    ],
    "corpus stats": [(lambda f, _: ["--check", "-c", damaged_corpus(f)], "no case expects")],
    "corpus verify": [(lambda f, _: [damaged_corpus(f)], "1 problem")],
    "diff": [(lambda _, s: ["--impl", QUICK, "--impl", ACCEPTS, "--corpus", s], r"\bnew\b")],
    "fuzz": [(lambda _, __: ["--impl", ACCEPTS, "--max-execs", "2", "--seed", "1"], "finding")],
    "fuzz replay": [(lambda f, _: [finding(f), "--impl", ACCEPTS, "--times", "1"], "STILL WRONG")],
    "impl sync": [(lambda _, __: ["reference"], "reference: failed: planted")],
    "publish": [(lambda f, _: ["--check", "-o", str(f)], "index.html: does not match")],
    "report": [(lambda f, s: [damaged_record(f, s), "-o", f"{f}/out", "--corpus", s], "line 3")],
    "rules build": [(lambda f, _: ["--check", "-o", str(f)], "is out of date")],
    "run": [
        (lambda _, s: ["--impl", ACCEPTS, "--corpus", s, "--no-smoke"], "wrong-accept [1-9]"),
        (lambda _, s: ["--impl", LAX, "--corpus", s, "--case", HOLE], f"{HOLE}.*WRONG-ACCEPT"),
        (lambda f, s: ["--impl", QUICK, "--corpus", s, "--baseline", stale(f)], "framing/one-tensor"),
    ],
    "trophies": [(lambda _, __: ["--check"], "trophies.md")],
}
"""Command -> arguments with which it exits with 1, and the reason that it must print."""
NEVER = {
    "baseline show",
    "baseline update",
    "corpus list",
    "corpus show",
    "examples",
    "impl clean",
    "impl info",
    "impl list",
    "rules show",
    "site build",
    "trend",
}
"""Commands that exit with 1 only after an error message of click."""
FORMS = ("--quiet", "--json", "--sarif")
COMMANDS = {
    name.removeprefix("stc "): command
    for name, command, _ in walk(main, "stc")
    if not isinstance(command, click.Group) or command.invoke_without_command
}
"""The commands that do something themselves."""
PROGRAMS = {
    "stc": main,
    "benchmarks": benchmarks,
    "proof.broken": matrix,
    "proof.documents": documents,
    "proof.mutation": mutants,
    "proof.promote": promote,
    "tools.covering": covering,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(corpus_of(tmp_path_factory.mktemp("corpus"), *BASICS))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replace what takes long or needs a network by something small that fails."""
    some = all_cases()[::500]
    monkeypatch.setattr(build_module, "all_cases", lambda: some)
    monkeypatch.setattr(impl, "_start", lambda *_, **__: "failed: planted")
    monkeypatch.setattr(publish, "load_published", lambda _: {})
    monkeypatch.setattr(publish, "pages", lambda *_: {"index.html": "new"})
    monkeypatch.setattr(trophies_cli, "docs_folder", lambda: tmp_path / "docs")
    (tmp_path / "reports").symlink_to(REPOSITORY / "reports")
    (tmp_path / "conformance").symlink_to(REPOSITORY / "conformance")
    monkeypatch.chdir(tmp_path)
    load_once(monkeypatch)


def test_marks_that_keep_lines_do_not_show_and_trend_explains_the_words_of_its_output() -> None:
    r"""A raw docstring shows ``\b`` and joins the lines after it."""
    texts = {name: text for program in PROGRAMS for name, _, text in walk(PROGRAMS[program], program)}
    assert [name for name, text in texts.items() if "\\b" in text or "\b" in text] == []
    assert [word for word in WORDS.values() if word.lower() not in texts["stc trend"]] == []


def test_every_command_is_known() -> None:
    assert sorted(COMMANDS) == sorted({*PROVOKED, *NEVER})
    documented = {
        name
        for name, command in COMMANDS.items()
        if re.search(r"[Ee]xit status.*[ ,;]1\b", command.help or "", re.DOTALL)
    }
    assert documented == PROVOKED.keys()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [pytest.param(name, *one, id=name) for name, several in PROVOKED.items() for one in several],
)
def test_exit_status_1_has_a_reason_in_every_form(
    name: str, arguments: Callable[[Path, str], list[str]], reason: str, small: str, tmp_path: Path
) -> None:
    options = {opt: param for param in COMMANDS[name].params for opt in param.opts}
    for form in ("", *(form for form in FORMS if form in options)):
        folder = tmp_path / (form or "plain")
        (folder / "given").mkdir(parents=True)
        words = [*name.split(), *arguments(folder / "given", small)]
        if form:
            flag = options[form].is_flag  # type: ignore[attr-defined]
            words += [form] if flag else [form, str(folder / "log.sarif")]
        status, output = invoke(*words)
        assert status == 1, output
        assert re.search(reason, output), output
        if form == "--sarif":
            (log,) = folder.rglob("*.sarif")
            assert json.loads(log.read_text())["runs"][0]["results"]
