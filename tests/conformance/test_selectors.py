"""Selectors: what resolves, and what is refused with which advice."""

from __future__ import annotations

import sys

import pytest

from safetensors_conformance.selectors import BUILT_IN, SelectorError, resolve


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_has_an_adapter_file(name: str) -> None:
    target = resolve(name)
    path, _, attribute = target.argv[-1].rpartition(":")
    with open(path, encoding="utf-8") as adapter:
        assert f"class {attribute}" in adapter.read()


def test_a_python_selector_runs_in_our_host() -> None:
    target = resolve("py:package.module:object")
    assert target.kind == "host"
    assert target.argv[0] == sys.executable
    assert target.argv[-1] == "package.module:object"


def test_a_command_is_split_like_a_shell_splits_it() -> None:
    assert resolve(f"cmd:{sys.executable} -c 'a b'").argv == (sys.executable, "-c", "a b")


@pytest.mark.parametrize(
    ("selector", "advice"),
    [
        ("safetensor", "did you mean safetensors"),
        ("refrence", "did you mean reference"),
        ("nothing-like-it", "built in: reference"),
        ("cmd:", "names no program"),
        ("cmd:no-such-program-here", "not found"),
        ("cmd:'unclosed", "No closing quotation"),
        (f"exit:{sys.executable}", "{path}"),
        ("py:", "unknown implementation"),
    ],
)
def test_a_selector_that_cannot_work_is_refused_with_advice(selector: str, advice: str) -> None:
    with pytest.raises(SelectorError) as caught:
        resolve(selector)
    assert advice in str(caught.value)


@pytest.mark.parametrize("selector", ["safetensors:safe-open", "cmd:sh -c x/y", "py:a.b:C"])
def test_the_slug_is_a_plain_file_name(selector: str) -> None:
    slug = resolve(selector).slug
    assert slug
    assert not set(slug) & set("/: \\")
