"""Selectors: resolution, and advice for rejected ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from safetensors_conformance.implementations import selectors
from safetensors_conformance.implementations.selectors import SelectorError, resolve


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
