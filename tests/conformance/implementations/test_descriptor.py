"""Descriptors and adapters of real implementations, checked without installing them; selectors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from safetensors_conformance.cli.impl import impl
from safetensors_conformance.implementations import selectors
from safetensors_conformance.implementations.descriptor import (
    DOCUMENT,
    HERE,
    DescriptorError,
    descriptors,
    load,
    longest_first,
    outside_descriptors,
)
from safetensors_conformance.implementations.selectors import SelectorError, resolve
from safetensors_corpus import load_manifest
from safetensors_corpus.author.case import AREAS
from safetensors_corpus.manifest import AREA_OF_RULES

from ..support import call

FILES = sorted(HERE.glob(f"*/{DOCUMENT}"))
KNOWN = sorted(descriptors().values(), key=lambda d: d.name)
ENTRIES = [(d, e) for d in KNOWN for e in d.entries]
UNPINNED = {"safetensors": {"numpy"}}
"""The old releases of the official library are run with whatever NumPy suits the interpreter."""


def test_names_are_unique_and_nothing_here_builds_a_repository_of_others() -> None:
    assert [load(path).name.replace("-", "_") for path in FILES] == [path.parent.name for path in FILES]
    assert len(descriptors()) == len(FILES)
    assert len({d.selector(e) for d, e in ENTRIES}) == len(ENTRIES)
    assert all(d.entries[0].name == "" for d in KNOWN if len(d.entries) == 1)
    for source in (d.source for d in KNOWN if d.source and d.source.kind == "git"):
        assert (source.build, source.address.partition("//")[0]) == ((), "https:"), source


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
    # The parsers of the hub in Python and JavaScript are judged alike.
    files = set(AREA_OF_RULES.values())
    python, script = (descriptors()[name].entries[0] for name in ("huggingface-hub", "huggingface-hub-js"))
    assert files & set(python.areas) == files & set(script.areas)


def test_every_adapter_file_belongs_to_an_entry_and_lacks_features_that_cases_have() -> None:
    named = [e for _, entry in ENTRIES for e in (entry, entry.whole) if e]
    used = {e.adapter.partition(":")[0] for e in named if e.adapter}
    sources = [(d.folder.name, d.source) for d in KNOWN if d.source]
    used |= {f"{folder}/program.py" for folder, source in sources if "python3" in source.toolchain}
    files = [path for document in FILES for path in document.parent.iterdir() if path.is_file()]
    found = {path.relative_to(HERE).as_posix() for path in files if path.suffix in (".py", ".mjs")}
    assert found == used
    features = {feature for case in load_manifest().cases for feature in case.features}
    for path in files:
        assert set(re.findall(r'"(dtype-[a-z0-9-]+)"', path.read_text(encoding="utf-8"))) <= features, path


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


def test_what_takes_longest_comes_first_and_nothing_is_left_out() -> None:
    names = [descriptor.name for descriptor in longest_first()]
    assert sorted(names) == sorted(descriptors())
    long = [found.name for found in descriptors().values() if found.long]
    assert {"mlx", "orbax"} <= set(long)
    assert sorted(names[: len(long)]) == sorted(long)
    assert names.index("candle") > names.index("vllm") >= len(long)


def test_each_resolves_and_tells_its_facts_and_what_is_listed_never_runs_beside_the_suite() -> None:
    for descriptor, entry in ENTRIES:
        target = resolve(descriptor.selector(entry))
        assert (target.descriptor, target.entry) == (descriptor, entry)
        assert (target.kind == "node") == entry.adapter.endswith(".mjs"), entry.adapter
    for descriptor in KNOWN:
        assert descriptor.homepage in call(impl, "info", descriptor.name)[1]
    targets = [resolve(selector) for d in KNOWN for selector in d.listed]
    assert {t.descriptor.name for t in targets if t.descriptor and t.environment is None} == {"reference"}
    assert len(targets) == sum(not d.by_hand(e) for d, e in ENTRIES)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[[entry]]", "[[entry]]\ncolour = 'red'", "entry[0]: unknown key 'colour'; there are about,"),
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
    monkeypatch.setenv("STC_IMPLEMENTATIONS", "/no/such/folder")
    with pytest.raises(SelectorError, match="there is no folder /no/such/folder"):
        resolve("mylib")
    monkeypatch.setenv("STC_IMPLEMENTATIONS", str(tmp_path))
    path = tmp_path / "mylib" / DOCUMENT
    path.parent.mkdir()
    for put in (os.mkfifo, lambda place: place.symlink_to("/dev/zero")):
        put(path)
        with pytest.raises(DescriptorError, match="not a regular file"):
            outside_descriptors()
        path.unlink()


# Selectors: resolution, and advice for rejected ones


@pytest.mark.parametrize(
    ("selector", "says", "plain"),
    [
        ("safetensors", "", "safetensors"),
        ("safetensors:numpy", "something else", "safetensors:numpy"),
        ("safetensors:numpy==0.7.0", "", "safetensors:numpy"),
        ("mlx==0.31.1", "", "mlx"),
        ("py:a==b:Reader", "my reader", "my reader"),
        ("py:a==b:Reader", "", "py:a==b:Reader"),
    ],
)
def test_people_call_it_by_its_name_without_version(selector: str, says: str, plain: str) -> None:
    assert resolve(selector).plain(says) == plain


def test_a_version_runs_in_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STC_CACHE", str(tmp_path))
    target = resolve("safetensors:numpy==0.7.0")
    env = target.environment
    assert env is not None
    assert not env.ready
    assert (env.requires[0], target.argv[0]) == ("safetensors==0.7.0", str(env.python))
    assert env.folder.is_relative_to(tmp_path)
    assert target.slug == "safetensors-numpy-0.7.0"
    for version in ("0.9.0", "0.9", "0.10.0", "0.9.0.post1"):  # those that the adapter supports
        assert resolve(f"tinygrad=={version}").environment is not None
    old = resolve("tinygrad==0.7.0", however_old=True).environment  # it is not run
    assert old is not None
    assert old.version == "0.7.0"


def test_an_entry_without_its_framework_has_an_environment_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = {"safetensors": "1", "torch": "1"}
    monkeypatch.setattr(selectors, "PackageNotFoundError", KeyError)
    monkeypatch.setattr(selectors, "version", here.__getitem__)
    installed = resolve("safetensors:torch")
    assert installed.environment is None
    assert installed.argv[0] == sys.executable
    flax = resolve("safetensors:flax").environment
    assert flax is not None
    assert "jax==0.10.2" in flax.requires
    here["jax"] = "1"
    assert resolve("safetensors:flax").environment is None


def test_an_adapter_without_its_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ("", r"; did you mean reader\.py\?"):
        for spec in ("raeder.py:Reader", "raeder.py"):
            with pytest.raises(SelectorError, match=rf"the file raeder\.py does not exist{more}$"):
                resolve(f"py:{spec}")
        (tmp_path / "reader.py").touch()
    assert resolve("py:reader.py").kind == "host"


def test_programs_and_modules_become_command_lines_and_plain_file_names() -> None:
    assert resolve(f"cmd:{sys.executable} -c 'a b'").argv == (sys.executable, "-c", "a b")
    target = resolve("py:package.module:object")
    assert target.kind == "host"
    assert (target.argv[0], target.argv[-1]) == (sys.executable, "package.module:object")
    for selector in ("safetensors:safe-open", "cmd:sh -c x/y", "py:a.b:C"):
        assert re.fullmatch(r"[\w.-]+", resolve(selector).slug)


@pytest.mark.parametrize(
    ("selector", "advice"),
    [
        ("safetensor", "did you mean safetensors?"),
        ("my_reader.py:Adapter", "did you mean py:my_reader.py:Adapter?"),
        ("reader.mjs", "did you mean cmd:node reader.mjs?"),
        ("safetensors:troch", "did you mean safetensors:torch "),
        ("refrence", "did you mean reference"),
        ("nothing-like-it", "known: "),
        ("safetensors:keras", "no entry 'keras'; its entries are: safetensors, safetensors:numpy"),
        ("reference==1.0", "no versions to choose from"),
        ("safetensors@local", "is not built from source"),
        ("safetensors==1=cmd:true", "unknown implementation"),
        ("nothing=cmd:true", "unknown implementation"),
        ("reference:fast=cmd:true", "no entry 'fast'"),
        ("reference=cmd:no-such-program-here", "does not exist"),
        ("safetensors==", "unknown implementation"),
        ("tinygrad==0.7.0", "supports 0.8.0 and newer"),
        ("cmd:", "no program is given"),
        ("cmd:no-such-program-here", "does not exist"),
        ("cmd:'unclosed", "No closing quotation"),
        (f"exit:{sys.executable}", "{path}"),
        ("py:", "unknown implementation"),
    ],
)
def test_a_selector_that_cannot_work_is_refused_with_advice(selector: str, advice: str) -> None:
    with pytest.raises(SelectorError) as caught:
        resolve(selector)
    assert advice in str(caught.value)


def test_without_a_home_folder_the_message_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STC_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", Mock(side_effect=RuntimeError("no home")))
    with pytest.raises(SelectorError, match="the user has no home folder; set STC_CACHE"):
        resolve("mlx==0.31.1")
