"""Commands that run no reader: ``stc impl``, ``stc examples`` and ``stc site build``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from safetensors_conformance.cli import site as module
from safetensors_conformance.cli.examples import copy_examples, examples
from safetensors_conformance.cli.impl import impl
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve

from ..support import REPOSITORY, call, fake

EXAMPLES = REPOSITORY / "docs" / "examples"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("STC_CACHE", str(tmp_path))
    return tmp_path


def test_an_environment_is_removed_and_its_absence_told(cache: Path) -> None:
    env = resolve("safetensors==9.9").environment
    assert env is not None
    env.folder.mkdir()
    clean = ("clean", "safetensors==9.9")
    assert call(impl, *clean) == (0, f"removed {env.folder.name}\n")
    assert list(cache.iterdir()) == []
    assert call(impl, *clean) == (0, f"nothing to remove: {env.folder.name} does not exist\n")
    for name in ("reference", fake("Good"), "cmd:sh"):
        status, out = call(impl, "clean", name)
        assert (status, "has no environment of its own" in out, "removed" in out) == (2, True, False)


def test_the_list_has_one_line_for_each_and_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = call(impl, "list")[1].splitlines()
    entries = [d.selector(e) for d in descriptors().values() for e in d.entries]
    assert [line.split()[0] for line in piped] == ["--impl", *entries, str(len(descriptors()))]
    assert next(line for line in piped if line.startswith("candle ")).endswith("save_safetensors")
    monkeypatch.setattr("safetensors_conformance.cli.impl.width_of_terminal", lambda: 80)
    *narrow, _ = call(impl, "list")[1].splitlines()
    assert [line.split()[0] for line in narrow] == ["--impl", *entries]
    assert max(map(len, narrow)) <= 80


@pytest.mark.parametrize(("name", "how"), [("tgi", "py:PROGRAM:CLASS"), ("csafetensors", "cmd:PROGRAM")])
def test_what_is_built_by_hand_is_brought_as_its_language_takes(name: str, how: str) -> None:
    assert f"then give: --impl {name}={how}\n" in call(impl, "info", name)[1]


def test_all_are_there_and_a_language_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} <= set(examples())
    status, out = call(copy_examples)
    assert (status, [line.split()[0] for line in out.splitlines()]) == (0, list(examples()))
    monkeypatch.setattr("safetensors_conformance.cli.examples.FOLDERS", (tmp_path / "shims", tmp_path / "no"))
    for name in ("go/shim.go", "go/example/main.go", "_cache/x", "one.py"):
        (tmp_path / "shims" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shims" / name).write_text(name)
    assert call(copy_examples) == (0, "go      go/example/main.go go/shim.go\none.py\n")
    folder = tmp_path / "out"
    go = ("go", "-o", str(folder))
    assert call(copy_examples, *go) == (0, f"{folder}/go/example/main.go\n{folder}/go/shim.go\n")
    (folder / "go" / "shim.go").write_text("mine")
    (folder / "go" / "example" / "main.go").unlink()
    assert call(copy_examples, *go)[0] == 1
    assert not (folder / "go" / "example" / "main.go").exists()


def test_one_is_copied_with_its_mode_and_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(copy_examples, "exit_check.sh") == (0, "exit_check.sh\n")
    source, copied = EXAMPLES / "exit_check.sh", tmp_path / "exit_check.sh"
    assert copied.read_bytes() == source.read_bytes()
    assert os.access(copied, os.X_OK) == os.access(source, os.X_OK)
    assert call(copy_examples, "-o", "new/folder", "mylib.py") == (0, "new/folder/mylib.py\n")
    copied.write_text("mine")
    for name, status, says in (
        ("exit_check.sh", 1, "and differs"),
        ("stdio_reader.cc", 2, "mean stdio_reader.c"),
    ):
        done, out = call(copy_examples, name)
        assert (done, says in out, copied.read_text()) == (status, True, "mine")


def test_a_site_has_facts_of_every_descriptor_and_one_that_cannot_be_made_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = {program.name: program for program in module.programs()}
    assert facts.keys() == descriptors().keys()
    assert facts["mlx"].kind == "returns tensors"
    (tmp_path / "mine").write_text("x")
    monkeypatch.setattr(module, "load_data", lambda *_: None)
    status, said = call(module.site, "build", "--repository", "javascript:alert(1)")
    assert (status, "https://" in said) == (2, True)
    pytest.importorskip("myst_parser")
    for says in ("choose another folder", "[site]"):
        status, said = call(module.site, "build", "-o", str(tmp_path))
        assert (status, says in said, (tmp_path / "mine").read_text()) == (2, True, "x")
        monkeypatch.setattr(module, "find_spec", lambda _name: None)  # without the generator
