"""Selectors: resolution, and advice for rejected ones."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from safetensors_conformance.implementations import selectors
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import SelectorError, resolve

NAMES = [f"{d.name}:{e.name}".rstrip(":") for d in descriptors().values() for e in d.entries if e.adapter]


@pytest.mark.parametrize("name", NAMES)
def test_every_known_name_resolves_to_an_adapter_file(name: str) -> None:
    target = resolve(name)
    assert target.descriptor is not None
    assert target.entry is not None
    spec = next(part for part in target.argv if target.entry.adapter.partition(":")[0] in part)
    path, _, attribute = spec.rpartition(":") if ".py" in spec else (spec, "", "")
    text = Path(path).read_text(encoding="utf-8")
    assert f"class {attribute}" in text or "make" in text


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


def test_a_version_is_run_in_an_environment_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STC_CACHE", str(tmp_path))
    target = resolve("safetensors:numpy==0.7.0")
    assert target.environment is not None
    assert not target.environment.ready
    assert target.environment.requires[0] == "safetensors==0.7.0"
    assert target.argv[0] == str(target.environment.python)
    assert target.environment.folder.is_relative_to(tmp_path)
    assert target.slug == "safetensors-numpy-0.7.0"


def test_what_is_installed_here_is_tested_here() -> None:
    pytest.importorskip("safetensors")
    target = resolve("safetensors")
    assert target.environment is None
    assert target.argv[0] == sys.executable


def test_an_entry_whose_framework_is_not_here_runs_in_an_environment_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = {"safetensors", "torch"}

    def version(name: str) -> str:
        if name not in here:
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(selectors, "version", version)
    assert resolve("safetensors:torch").environment is None
    flax = resolve("safetensors:flax").environment
    assert flax is not None
    assert "jax==0.10.2" in flax.requires
    here.add("jax")
    assert resolve("safetensors:flax").environment is None


def test_a_python_selector_runs_in_our_host() -> None:
    target = resolve("py:package.module:object")
    assert target.kind == "host"
    assert target.argv[0] == sys.executable
    assert target.argv[-1] == "package.module:object"


@pytest.mark.parametrize("spec", ["raeder.py:Reader", "raeder.py"])
def test_an_adapter_without_its_file_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spec: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SelectorError, match=r"the file raeder\.py does not exist$"):
        resolve(f"py:{spec}")
    (tmp_path / "reader.py").touch()
    with pytest.raises(SelectorError, match=r"the file raeder\.py does not exist; did you mean reader\.py\?"):
        resolve(f"py:{spec}")
    assert resolve("py:reader.py").kind == "host"


@pytest.mark.parametrize(
    ("selector", "guess"),
    [
        ("safetensor", "did you mean safetensors?"),
        ("my_reader.py:Adapter", "did you mean py:my_reader.py:Adapter?"),
        ("reader.mjs", "did you mean cmd:node reader.mjs?"),
        ("safetensors:troch", "did you mean safetensors:torch "),
    ],
)
def test_a_name_that_is_nearly_right_is_guessed(selector: str, guess: str) -> None:
    with pytest.raises(SelectorError) as caught:
        resolve(selector)
    assert guess in str(caught.value)


def test_a_command_is_split_like_a_shell_splits_it() -> None:
    assert resolve(f"cmd:{sys.executable} -c 'a b'").argv == (sys.executable, "-c", "a b")


@pytest.mark.parametrize(
    ("selector", "advice"),
    [
        ("safetensor", "did you mean safetensors"),
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


def test_a_version_that_no_adapter_fits_can_be_named_where_it_is_not_run() -> None:
    target = resolve("tinygrad==0.7.0", however_old=True)
    assert target.environment is not None
    assert target.environment.version == "0.7.0"


@pytest.mark.parametrize("version", ["0.9.0", "0.9", "0.10.0", "0.9.0.post1"])
def test_the_oldest_version_that_fits_and_newer_ones_resolve(version: str) -> None:
    assert resolve(f"tinygrad=={version}").environment is not None


@pytest.mark.parametrize("selector", ["safetensors:safe-open", "cmd:sh -c x/y", "py:a.b:C"])
def test_the_slug_is_a_plain_file_name(selector: str) -> None:
    slug = resolve(selector).slug
    assert slug
    assert not set(slug) & set("/: \\")
