"""Descriptors and adapters of real implementations, checked without installing them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.implementations.descriptor import (
    DOCUMENT,
    HERE,
    DescriptorError,
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
UNPINNED = {"safetensors": {"numpy"}}
"""The old releases of the official library are run with whatever NumPy suits the interpreter."""


def test_no_two_implementations_or_entries_have_the_same_name() -> None:
    assert [load(path).name.replace("-", "_") for path in FILES] == [path.parent.name for path in FILES]
    assert len(descriptors()) == len(FILES)
    assert len({d.selector(e) for d, e in ENTRIES}) == len(ENTRIES)
    assert all(d.entries[0].name == "" for d in KNOWN if len(d.entries) == 1)


def test_areas_are_those_of_the_corpus_and_follow_from_the_documentation() -> None:
    for descriptor, entry in ENTRIES:
        kind = descriptor.kind_of(entry)
        assert set(entry.areas) <= set(AREAS), entry.adapter
        assert len(set(entry.areas)) == len(entry.areas), entry.adapter
        assert entry.areas or kind in ("reader", "device", "exporter"), entry.adapter
        assert entry.claim or not entry.areas or kind in ("reader", "device"), entry.adapter
        assert len(entry.claim) <= 250, entry.adapter
        if descriptor.by_hand(entry):
            continue
        file = HERE / entry.adapter.partition(":")[0]
        assert file.suffix != ".mjs" or "\nexport async function make(" in file.read_text("utf-8"), file


def test_every_adapter_file_belongs_to_an_entry() -> None:
    named = [e for _, entry in ENTRIES for e in (entry, entry.whole) if e]
    used = {e.adapter.partition(":")[0] for e in named if e.adapter}
    sources = [(d.folder.name, d.source) for d in KNOWN if d.source]
    used |= {f"{folder}/program.py" for folder, source in sources if "python3" in source.toolchain}
    files = (path for document in FILES for path in document.parent.iterdir())
    found = {path.relative_to(HERE).as_posix() for path in files if path.suffix in (".py", ".mjs")}
    assert found == used


def test_the_hub_parsers_in_python_and_javascript_are_judged_alike() -> None:
    files = set(AREA_OF_RULES.values())
    python, script = (descriptors()[name].entries[0] for name in ("huggingface-hub", "huggingface-hub-js"))
    assert files & set(python.areas) == files & set(script.areas)


def test_what_is_installed_is_pinned() -> None:
    for descriptor, entry in ENTRIES:
        if not descriptor.manager:
            continue
        pin = "@" if descriptor.manager == "npm" else "=="
        needed = descriptor.requirements("9.9.9", entry.whole or entry)
        wanted = [text for text in needed if not text.startswith("--")]
        assert f"{descriptor.distribution}{pin}9.9.9" in wanted, descriptor.name
        loose = {text for text in wanted if not re.fullmatch(rf"@?[^@=]+{pin}[0-9][0-9A-Za-z.]*", text)}
        assert loose <= UNPINNED.get(descriptor.name, set()), descriptor.name


def test_nothing_here_builds_a_repository_of_others() -> None:
    for source in (d.source for d in KNOWN if d.source and d.source.kind == "git"):
        assert (source.build, source.address.partition("//")[0]) == ((), "https:"), source


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


def test_adapters_and_programs_lack_features_that_cases_have() -> None:
    features = {feature for case in load_manifest().cases for feature in case.features}
    for path in (path for document in FILES for path in document.parent.iterdir() if path.is_file()):
        assert set(re.findall(r'"(dtype-[a-z0-9-]+)"', path.read_text(encoding="utf-8"))) <= features, path


def test_each_resolves_and_tells_its_facts() -> None:
    for descriptor, entry in ENTRIES:
        target = resolve(descriptor.selector(entry))
        assert (target.descriptor, target.entry) == (descriptor, entry)
        assert (target.kind == "node") == entry.adapter.endswith(".mjs"), entry.adapter
    for descriptor in KNOWN:
        assert descriptor.homepage in CliRunner().invoke(impl, ["info", descriptor.name]).output


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "[[entry]]",
            "[[entry]]\ncolour = 'red'",
            "entry[0]: unknown key 'colour'; there are about, adapter,",
        ),
        ('oldest = "0.8.0"', 'oldest = "99"', "install.version is older than install.oldest"),
        ('language = "', 'language = "\u202e', "language: must be a string of the form"),
    ],
)
def test_a_descriptor_that_breaks_its_form_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "odd.toml"
    text = (HERE / "tinygrad" / DOCUMENT).read_text(encoding="utf-8")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DescriptorError, match=rf"odd\.toml: {re.escape(says)}"):
        load(path)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STC_IMPLEMENTATIONS", str(tmp_path))
    path = tmp_path / "mylib" / DOCUMENT
    path.parent.mkdir()
    for put in (os.mkfifo, lambda place: place.symlink_to("/dev/zero")):
        put(path)
        with pytest.raises(DescriptorError, match="not a regular file"):
            outside_descriptors()
        path.unlink()
