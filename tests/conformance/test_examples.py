"""The examples of the documentation do what the pages say."""

from __future__ import annotations

import sys

import pytest

from safetensors_conformance.runner import Session, smoke
from safetensors_conformance.selectors import resolve
from safetensors_corpus import load_manifest

from .support import REPOSITORY

EXAMPLES = REPOSITORY / "docs" / "examples"
SELECTORS = {
    "mylib_adapter.py": f"py:{EXAMPLES / 'mylib_adapter.py'}:Adapter",
    "stdio_reader.py": f"cmd:{sys.executable} {EXAMPLES / 'stdio_reader.py'}",
}


@pytest.mark.parametrize("name", SELECTORS)
def test_an_example_passes_the_smoke_check_and_reads_every_ordinary_file(name: str) -> None:
    manifest = load_manifest()
    with Session(resolve(SELECTORS[name])) as session:
        assert smoke(session, manifest.cases) is None
        for case in manifest.reading:
            if case.expect is not None and case.expect.outcome == "accept":
                assert session.judge(case).verdict == "pass", case.id


def test_a_careless_reader_is_caught() -> None:
    with Session(resolve(SELECTORS["mylib_adapter.py"])) as session:
        hole = load_manifest().by_id["layout/hole-between-two"]
        assert session.judge(hole).verdict == "wrong-accept"


@pytest.mark.parametrize(("name", "limit"), [("mylib_adapter.py", 22), ("stdio_reader.py", 60)])
def test_the_examples_stay_as_short_as_the_pages_promise(name: str, limit: int) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= limit


def test_the_page_shows_the_adapter_as_it_is() -> None:
    page = (REPOSITORY / "docs" / "plug-in.md").read_text(encoding="utf-8")
    source = (EXAMPLES / "mylib_adapter.py").read_text(encoding="utf-8")
    assert source[source.index("class Adapter") :].strip() in page
