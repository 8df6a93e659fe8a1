"""Readers built from source, from repositories created here, with the restrictions on builds."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.cli.run import run
from safetensors_conformance.implementations import commands
from safetensors_conformance.implementations import source_build as module
from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.environment import Environment, make
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve, resolve_named
from safetensors_conformance.outcome import Implementation
from safetensors_conformance.programs.sandbox import SandboxError
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits

from ..support import REPOSITORY, TRIGGER, call, cases

pytestmark = pytest.mark.usefixtures("loaded_once")

EXAMPLES = REPOSITORY / "docs" / "examples"
BUILD = 'build = [["cp", "{source}/reader.py", "{built}/reader.py"]]'
HEAD = """
name = "mylib"
title = "My library"
kind = "reader"
language = "C"
independent = true
homepage = "https://example.org/mylib"
issues = "https://example.org/mylib/issues"
"""
Describe = Callable[..., Path]
PYTHON = f'["{sys.executable}", "{{built}}/reader.py"]'


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "core.hooksPath=none")
    argv = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def committed_as(folder: Path) -> str:
    """Commit all that is in a folder; return the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=more")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two readers: one in C, one in Python."""
    folder = tmp_path / "their repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    shutil.copy(EXAMPLES / "stdio_reader.c", folder / "reader.c")
    shutil.copy(EXAMPLES / "stdio_reader.py", folder / "reader.py")
    committed_as(folder)
    (tmp_path / "link").symlink_to(folder)  # addresses have no spaces
    return folder


@pytest.fixture
def describe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path) -> Describe:
    """Write the descriptor ``mylib`` of one's own; returns its folder."""
    monkeypatch.setenv("STC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("STC_IMPLEMENTATIONS", str(tmp_path / "own"))
    folder = tmp_path / "own" / "mylib"

    def write(more: str = BUILD, program: str = PYTHON, head: str = HEAD, **given: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        source = {"kind": "git", "address": f"file://{tmp_path / 'link'}"}
        source |= {"revision": git(repository, "rev-parse", "HEAD"), **given}
        lines = (f'{key} = "{value}"' for key, value in source.items())
        entry = f"[[entry]]\nabout = 'mylib.load'\nprogram = {program}\n"
        text = "\n".join((head, "[source]", *lines, more, entry))
        (folder / "implementation.toml").write_text(text, encoding="utf-8")
        return folder

    return write


def sync(*words: str, status: int = 0) -> str:
    """Install with ``stc impl sync`` and return what it prints, if it ends with this status."""
    done, output = call(impl, "sync", *words)
    assert (done, "Traceback" in output) == (status, False), output
    return output


def left(tmp_path: Path) -> list[str]:
    """The contents of the cache, without locks."""
    found = (tmp_path / "cache").iterdir() if (tmp_path / "cache").exists() else ()
    return [path.name for path in found if path.suffix != ".lock"]


def need_a_way_to_shut_off_the_network() -> None:
    try:
        module._without_network()
    except InstallError as err:
        pytest.skip(str(err))


_always = pytest.fixture(autouse=True)(need_a_way_to_shut_off_the_network)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
def test_a_reader_in_c_is_built_and_run(describe: Describe, repository: Path, tmp_path: Path) -> None:
    commands = '[["gcc", "-O1", "-o", "{built}/reader", "{source}/reader.c"]]'
    describe(f'toolchain = ["gcc"]\nbuild = {commands}', program='["{built}/reader"]')
    assert "open, read" in sync("mylib")
    assert call(run, "--impl", "mylib", "--case", TRIGGER, "--no-smoke")[0] == 0
    assert left(tmp_path) == [f"mylib-source-{git(repository, 'rev-parse', 'HEAD')}"]
    assert not list((tmp_path / "cache").glob("*/source/.git"))


def mylib() -> Environment:
    env = resolve("mylib").environment
    assert env is not None
    return env


def test_it_is_built_once_and_again_for_another_descriptor_or_commit(
    describe: Describe, repository: Path, tmp_path: Path
) -> None:
    folder = describe()
    sync("mylib")
    mark = mylib().folder / "built" / "mark"
    mark.touch()
    make(mylib())
    assert mark.exists()
    (folder / "around.py").write_text("# the program around it", encoding="utf-8")
    assert not mylib().ready
    make(mylib())
    assert mylib().ready
    assert not mark.exists()
    assert (mylib().folder / "around" / "around.py").exists()
    text = (repository / "reader.py").read_text(encoding="utf-8")
    (repository / "reader.py").write_text(text.replace('"1.0"', '"2.0"'), encoding="utf-8")
    for selector, version in (("mylib", "1.0"), (f"mylib@{committed_as(repository)}", "2.0")):
        assert f"{selector}: {version}: " in sync(selector)
        assert answering(resolve(selector)).version == version
    assert len(left(tmp_path)) == 2


def answering(target: Target) -> Implementation:
    """Return what a program says about itself, after it has accepted a valid file."""
    with Session(target, Limits()) as session:
        assert session.judge(cases(TRIGGER)[0]).steps["read"].result.outcome == "accept"
        return session.start()


def test_a_checkout_is_copied_and_not_changed(describe: Describe, repository: Path, tmp_path: Path) -> None:
    describe('build = [["cp", "reader.py", "{built}/reader.py"], ["cp", "reader.py", "more.py"]]')
    before = sorted(path.relative_to(repository) for path in repository.rglob("*"))
    git(repository, "config", "core.fsmonitor", f"touch '{tmp_path / 'ran'}'")
    assert "mylib@local: 1.0: open, read" in sync("mylib", "--source", str(repository))
    assert sorted(path.relative_to(repository) for path in repository.rglob("*")) == before
    assert not (tmp_path / "ran").exists()
    assert left(tmp_path) == ["mylib-source-local"]
    (repository / "reader.py").write_text("raise SystemExit(3)", encoding="utf-8")
    # It is not taken for what was built before.
    assert "does not start" in sync("mylib", "--source", str(repository), status=1)


ADDRESSES = {
    "source.address": ("--upload-pack=touch ran", "ext::sh -c touch% ran", "ssh://-oProxyCommand=true/x"),
    "https:// or file://": ("ext::true", "git@example.org:mylib"),
}
FAILS = 'build = [["sh", "-c", "echo error: 7 is no 8 >&2; exit 1"]]'


@pytest.mark.parametrize(
    ("described", "argument", "says"),
    [
        ({"more": FAILS}, "", "cannot be built: sh -c echo error: 7 is no 8 >&2; exit 1: error: 7 is no 8"),
        ({"more": 'build = [["no-such-program"]]'}, "", "no-such-program"),
        ({"more": 'build = [["sh", "-c", "kill -9 $$"]]'}, "", "cannot be built"),
        ({"more": f'dependencies = "npm"\n{BUILD}'}, "", "it does not contain package.json"),
        ({"more": 'build = [["true"]]', "program": '["{built}/no"]'}, "", "did not create {built}/no"),
        ({}, f"@{'0' * 39}1", "cannot be fetched from file://"),
        ({}, "@local", "has not been built yet; run: stc impl sync mylib --source DIR"),
        ({"revision": "main"}, "", "source.revision: give the full commit"),
        *(({"address": odd}, "", says) for says, several in ADDRESSES.items() for odd in several),
        ({"kind": "npm", "address": "mylib"}, " --source .", "stc impl sync mylib@VERSION"),
        ({"more": ""}, "", "give source.build"),
        ({"program": PYTHON + '\nadapter = "adapter.py:Load"'}, "", "are mutually exclusive"),
        ({"program": PYTHON + "\n[[entry]]\nname = 'x'\nabout = ''"}, "", "give an adapter, or a program"),
    ],
)
def test_what_cannot_be_built_says_why_and_leaves_nothing(
    describe: Describe, tmp_path: Path, described: dict[str, str], argument: str, says: str
) -> None:
    if "npm" in described.get("more", "") and shutil.which("npm") is None:
        pytest.skip("no npm here")
    describe(**described)
    refused(tmp_path, says, *f"mylib{argument}".split())


def refused(tmp_path: Path, says: str, *words: str) -> None:
    """Fail unless an installation fails with these words and leaves nothing."""
    assert says in sync(*words, status=1)
    assert left(tmp_path) == []


def test_the_toolchain_is_looked_at_before_anything_is_fetched(
    describe: Describe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe('toolchain = ["mlton"]\n' + BUILD, address="https://localhost:1/nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    says = r"git, mlton not found on this machine; on Debian: apt-get install git mlton"
    with pytest.raises(InstallError, match=says):
        make(mylib())


@pytest.mark.parametrize("how", ["bubblewrap", "unshare", ""])
def test_a_build_reaches_no_network_unless_it_is_told(
    describe: Describe, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    if how != "bubblewrap":
        monkeypatch.setattr(module, "require_bubblewrap", Mock(side_effect=SandboxError("none here")))
    if not how:
        monkeypatch.setattr(module, "_UNSHARE", ["false"])
    elif how == "unshare":
        need_a_way_to_shut_off_the_network()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        fetch = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)\n"
        (repository / "fetch.py").write_text(fetch, encoding="utf-8")
        committed_as(repository)
        describe(f'build = [["{sys.executable}", "fetch.py"], ["cp", "reader.py", "{{built}}/reader.py"]]')
        refused(tmp_path, "cannot be built" if how else "stc impl sync --build-with-network", "mylib")
        sync("mylib", "--build-with-network")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap here")
def test_a_build_sees_no_home_and_writes_to_its_own_folder_alone(
    describe: Describe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("secret", encoding="ascii")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN", "secret")
    script = f"touch {tmp_path}/planted; ! test -e {tmp_path}/home/key && test -z $HF_TOKEN"
    describe(f'build = [["sh", "-c", "{script}"], ["cp", "reader.py", "{{built}}/reader.py"]]')
    sync("mylib")
    assert not (tmp_path / "planted").exists()


def test_an_interrupted_build_leaves_nothing_and_one_that_was_killed_is_begun_anew(
    describe: Describe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    describe()
    env, real = mylib(), commands.run

    def interrupted(argv: list[str], *more: Any, **named: Any) -> list[str]:
        if "cp" in argv:
            raise KeyboardInterrupt
        return real(argv, *more, **named)

    monkeypatch.setattr(module, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(env)
    assert left(tmp_path) == []
    monkeypatch.setattr(module, "run", real)
    (env.folder / "source").mkdir(parents=True)
    (env.folder / "source" / "half.py").touch()
    make(env)
    assert env.ready
    assert not (env.folder / "source" / "half.py").exists()


@pytest.mark.parametrize(
    ("find", "selector", "says"),
    [
        *((resolve, f"mylib@{x}", "full commit hash of 40") for x in ("main", "v1.0", "abcdef0", "A" * 40)),
        *((resolve_named, x, "a document may name") for x in ("mylib", "mylib@local", "mylib=cmd:true")),
        (resolve_named, "reference=cmd:true", "a document may name"),
    ],
)
def test_a_revision_is_a_full_commit_and_a_document_never_has_anything_of_ones_own_run(
    describe: Describe, find: Callable[[str], Target], selector: str, says: str
) -> None:
    describe()
    with pytest.raises(SelectorError, match=says):
        find(selector)


@pytest.mark.parametrize(
    ("to", "local"),
    [
        *((to, local) for to in ("/etc", "../../elsewhere", "loop") for local in (False, True)),
        ("{repository}/reader.py", True),  # the copy would contain a link to the original
        ("", True),
    ],
)
def test_links_that_leave_the_source_and_pipes_are_refused(
    describe: Describe, repository: Path, tmp_path: Path, to: str, local: bool
) -> None:
    if to:
        (repository / "loop").symlink_to(to.format(repository=repository))
        committed_as(repository)
    else:
        os.mkfifo(repository / "loop")
    describe()
    says = "a link that points outside: loop" if to else "neither a file nor a folder: loop"
    refused(tmp_path, says, "mylib", *(["--source", str(repository)] if local else []))


def test_submodules_are_not_followed(describe: Describe, repository: Path, tmp_path: Path) -> None:
    submodule = '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% ran\n'
    (repository / ".gitmodules").write_text(submodule, encoding="utf-8")
    git(repository, "add", ".gitmodules")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},x")
    git(repository, "commit", "--quiet", "--message=a module")
    describe()
    sync("mylib")
    assert not list(tmp_path.rglob("ran"))
    assert not list((mylib().folder / "source" / "x").iterdir())


def test_what_is_built_by_hand_is_run_when_brought_and_never_built(
    describe: Describe, tmp_path: Path
) -> None:
    path = describe() / "implementation.toml"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(x for x in lines if not x.startswith(("build", "program"))), encoding="utf-8")
    listed = CliRunner(env={"COLUMNS": "200"}).invoke(impl, ["list"])
    assert re.search("^mylib .*by hand", listed.output, re.MULTILINE)
    refused(tmp_path, "there are no build commands for it", "mylib")
    assert "--impl mylib=cmd:PROGRAM" in sync("mylib", status=1)
    commit = "1234567890" * 4
    for name in ("mylib", f"mylib@{commit}"):
        target = resolve(f"{name}=cmd:{sys.executable} {EXAMPLES / 'stdio_reader.py'}")
        assert (target.user_provided, target.plain()) == (True, "mylib")
        who = answering(target)
        assert (who.name, who.language, who.version) == ("mylib", "C", "1.0")
    # The commit is the version of a program that does not report one.
    text = (EXAMPLES / "stdio_reader.py").read_text(encoding="utf-8")
    (tmp_path / "quiet.py").write_text(text.replace('"version": "1.0", ', ""), encoding="utf-8")
    quiet = resolve(f"mylib@{commit}=cmd:{sys.executable} {tmp_path / 'quiet.py'}")
    assert answering(quiet).version == commit


def test_an_adapter_of_ones_own_is_called_as_its_descriptor_says(describe: Describe) -> None:
    folder = describe()
    entry = "[[entry]]\nadapter = 'adapter.py:Load'\nabout = 'load'\n"
    (folder / "implementation.toml").write_text(HEAD + entry, encoding="utf-8")
    (folder / "adapter.py").write_text("class Load:\n    def read(self, path): return []\n", encoding="utf-8")
    who = answering(resolve("mylib"))
    assert (who.name, who.language) == ("mylib", "C")


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (HEAD.replace("mylib", "safetensors", 1), "the name safetensors is already in use"),
        (HEAD.replace("My library", "\\u001b[2Jred"), "\\u001b[2Jred"),
    ],
)
def test_descriptors_of_ones_own_are_documents_of_others(describe: Describe, head: str, says: str) -> None:
    describe(head=head)
    _, told = call(impl, "info", "mylib")
    assert (says in told, "\x1b" in told) == (True, False)
    assert resolve("reference").descriptor is not None  # whatever others say
