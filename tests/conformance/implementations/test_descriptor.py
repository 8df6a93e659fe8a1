"""Descriptors and adapters of real implementations, checked without installing them."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.implementations.descriptor import (
    DOCUMENT,
    HERE,
    Descriptor,
    DescriptorError,
    Entry,
    descriptors,
    load,
    longest_first,
    outside_descriptors,
)
from safetensors_conformance.implementations.selectors import resolve
from safetensors_corpus import load_manifest
from safetensors_corpus.author.case import AREAS
from safetensors_corpus.manifest import AREA_OF_RULES

FILES = sorted(HERE.glob(f"*/{DOCUMENT}"))
KNOWN = sorted(descriptors().values(), key=lambda d: d.name)
ENTRIES = [(d, e) for d in KNOWN for e in d.entries]
METHODS = {"open", "read", "slice", "write", "index", "hold", "check", "device", "remote"}
UNPINNED = {"safetensors": {"numpy"}}
"""The old releases of the official library are run with whatever NumPy suits the interpreter."""


IDS = [d.selector(e) for d, e in ENTRIES]
each_entry = pytest.mark.parametrize(("descriptor", "entry"), ENTRIES, ids=IDS)


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((HERE / file).read_text(encoding="utf-8"), file)


@cache
def features() -> frozenset[str]:
    return frozenset(feature for case in load_manifest().cases for feature in case.features)


def methods(file: str, name: str) -> set[str]:
    """Names defined by a class of an adapter file and by its bases, in the same file or in support/."""
    classes = {node.name: node for node in tree(file).body if isinstance(node, ast.ClassDef)}
    imports = {
        alias.name: f"support/{node.module}.py"
        for node in tree(file).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    node = classes[name]
    found = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    found |= {
        target.id
        for n in node.body
        if isinstance(n, ast.Assign)
        for target in n.targets
        if isinstance(target, ast.Name)
    }
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            found |= methods(file, base.id)
        elif isinstance(base, ast.Name) and (HERE / imports.get(base.id, "none")).is_file():
            found |= methods(imports[base.id], base.id)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_a_descriptor_loads_and_is_named_like_its_folder(path: Path) -> None:
    assert load(path).name.replace("-", "_") == path.parent.name


def test_no_two_implementations_or_entries_have_the_same_name() -> None:
    assert len(descriptors()) == len(FILES)
    assert not [name for name, count in Counter(IDS).items() if count > 1]
    assert all(d.entries[0].name == "" for d in KNOWN if len(d.entries) == 1)


@each_entry
def test_the_adapter_is_there_and_has_steps(descriptor: Descriptor, entry: Entry) -> None:
    if descriptor.by_hand(entry):
        return
    file, _, name = entry.adapter.partition(":")
    if file.endswith(".mjs"):
        text = (HERE / file).read_text(encoding="utf-8")
        assert re.search(r"^export async function make\(", text, re.MULTILINE)
        return
    has = methods(file, name)
    assert has & METHODS
    assert not has & {"name", "language"}, "the descriptor says it"
    kind = descriptor.kind_of(entry)
    # A reader that keeps what it loads to itself can be asked for its verdict alone.
    assert ("check" in has) <= (kind in ("validator", "scanner", "reader"))
    assert kind == "reader" or not has & {"read", "slice", "write", "hold"}


def test_every_adapter_file_belongs_to_an_entry() -> None:
    named = [e for _, entry in ENTRIES for e in (entry, entry.whole) if e]
    used = {e.adapter.partition(":")[0] for e in named if e.adapter}
    sources = [(d.folder.name, d.source) for d in KNOWN if d.source]
    used |= {f"{folder}/program.py" for folder, source in sources if "python3" in source.toolchain}
    files = (path for document in FILES for path in document.parent.iterdir())
    found = {path.relative_to(HERE).as_posix() for path in files if path.suffix in (".py", ".mjs")}
    assert found == used


@each_entry
def test_the_areas_are_those_of_the_corpus(descriptor: Descriptor, entry: Entry) -> None:
    assert set(entry.areas) <= set(AREAS)
    assert len(set(entry.areas)) == len(entry.areas)
    assert entry.areas or descriptor.kind_of(entry) in ("reader", "device")


@each_entry
def test_limited_areas_name_the_documentation_that_they_follow_from(
    descriptor: Descriptor, entry: Entry
) -> None:
    if entry.areas and descriptor.kind_of(entry) in ("header", "validator", "scanner"):
        assert entry.claim
    assert len(entry.claim) <= 250


def test_the_hub_parsers_in_python_and_javascript_are_judged_alike() -> None:
    files = set(AREA_OF_RULES.values())
    python, script = (descriptors()[name].entries[0] for name in ("huggingface-hub", "huggingface-hub-js"))
    assert files & set(python.areas) == files & set(script.areas)


@each_entry
def test_what_is_installed_is_pinned(descriptor: Descriptor, entry: Entry) -> None:
    if not descriptor.manager:
        return
    pin = "@" if descriptor.manager == "npm" else "=="
    needed = descriptor.requirements("9.9.9", entry.whole or entry)
    wanted = [text for text in needed if not text.startswith("--")]
    assert f"{descriptor.distribution}{pin}9.9.9" in wanted
    loose = {text for text in wanted if not re.fullmatch(rf"@?[^@=]+{pin}[0-9][0-9A-Za-z.]*", text)}
    assert loose <= UNPINNED.get(descriptor.name, set())


@pytest.mark.parametrize("descriptor", KNOWN, ids=lambda d: d.name)
def test_nothing_here_builds_a_repository_of_others(descriptor: Descriptor) -> None:
    if descriptor.source and descriptor.source.kind == "git":
        assert not descriptor.source.build
        assert descriptor.source.address.startswith("https://")


def test_what_takes_longest_comes_first_and_nothing_is_left_out() -> None:
    names = [descriptor.name for descriptor in longest_first()]
    assert sorted(names) == sorted(descriptors())
    long = [found.name for found in descriptors().values() if found.long]
    assert {"mlx", "orbax"} <= set(long)
    assert sorted(names[: len(long)]) == sorted(long)
    assert names.index("candle") > names.index("vllm") >= len(long)


def test_what_is_listed_never_runs_beside_the_suite() -> None:
    targets = [resolve(selector) for d in KNOWN for selector in d.listed]
    assert {t.descriptor.name for t in targets if t.descriptor and t.environment is None} == {"reference"}
    assert len(targets) == sum(not d.by_hand(e) for d, e in ENTRIES)


@each_entry
def test_lacks_names_features_that_cases_have(descriptor: Descriptor, entry: Entry) -> None:
    if descriptor.by_hand(entry):
        return
    text = (HERE / entry.adapter.partition(":")[0]).read_text(encoding="utf-8")
    assert set(re.findall(r'"(dtype-[a-z0-9-]+)"', text)) <= features()


@pytest.mark.parametrize(
    "path", sorted(HERE.glob("*/[pP]rogram.*")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_program_lacks_features_that_cases_have(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r'"(dtype-[a-z0-9-]+)"', text)) <= features()


@each_entry
def test_the_selector_resolves_to_an_environment_or_to_this_interpreter(
    descriptor: Descriptor, entry: Entry
) -> None:
    target = resolve(descriptor.selector(entry))
    assert target.descriptor == descriptor
    assert target.entry == entry
    assert (target.kind == "node") == entry.adapter.endswith(".mjs")


def test_there_are_many_implementations_in_many_languages() -> None:
    assert len(KNOWN) >= 16
    assert len(ENTRIES) >= 25
    assert sum(d.independent and d.kind == "reader" for d in KNOWN) >= 14
    assert len({d.language for d in KNOWN}) >= 5


def test_they_are_listed_and_each_tells_its_facts() -> None:
    listed = CliRunner(env={"COLUMNS": "400"}).invoke(impl, ["list"])
    assert listed.exit_code == 0
    words = set(listed.output.split())
    assert set(IDS) <= words
    for descriptor in KNOWN:
        told = CliRunner().invoke(impl, ["info", descriptor.name])
        assert told.exit_code == 0
        assert descriptor.homepage in told.output


def test_a_descriptor_that_breaks_its_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(FILES[0].read_text(encoding="utf-8") + "\ncolour = 'red'\n", encoding="utf-8")
    with pytest.raises(
        DescriptorError, match=r"odd\.toml: entry\[0\]: unknown key 'colour'; there are about, adapter, areas"
    ):
        load(path)


@pytest.mark.parametrize("what", ["fifo", "/dev/zero"])
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / "mylib" / DOCUMENT
    path.parent.mkdir()
    if what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(what)
    monkeypatch.setenv("STC_IMPLEMENTATIONS", str(tmp_path))
    with pytest.raises(DescriptorError, match="not a regular file"):
        outside_descriptors()


def test_the_version_taken_by_default_is_one_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    text = (HERE / "tinygrad" / DOCUMENT).read_text(encoding="utf-8")
    path.write_text(text.replace('oldest = "0.8.0"', 'oldest = "99"'), encoding="utf-8")
    with pytest.raises(DescriptorError, match=r"odd\.toml: install\.version is older"):
        load(path)
