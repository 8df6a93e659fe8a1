"""Adapters that cannot be loaded: one message, which names the place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits, StartError, make_worker

METHOD = "def read(self, path): return []"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("class Adapter:\n  def x(", ":Adapter", "SyntaxError: '(' was never closed (adapter.py, line 2)"),
        ("import no_such_library", ":Adapter", f"(adapter.py, line 1); the adapter runs in {sys.executable}"),
        ("x = 1\nraise OSError('no')", ":Adapter", "OSError: no (adapter.py, line 2)"),
        (f"class Adaptr:\n  {METHOD}", ":Adapter", "adapter.py has no 'Adapter'; did you mean 'Adaptr'?"),
        (f"class Other:\n  {METHOD}", ":Adapter", "adapter.py has no 'Adapter'; did you mean 'Other'?"),
        ("", ":Adapter", "adapter.py has no 'Adapter'"),
        ("class Adapter: pass", ":Adapter", "has none of the methods open, read,"),
        ("class Adapter:\n  def raed(self): pass", ":Adapter", "share; perhaps raed should be read"),
        (f"class Adapter:\n  {METHOD}", "", "did you mean py:adapter.py:Adapter?"),
        (
            f"class Adapter:\n  {METHOD}\n  __init__ = 1",
            ":Adapter",
            "TypeError: 'int' object is not callable",
        ),
        (f"class Adapter:\n  {METHOD}\n  def __init__(self):\n    1 / 0", ":Adapter", "(adapter.py, line 4)"),
        (
            f"class Adapter:\n  {METHOD}\n  rejects = 'x'",
            ":Adapter",
            "rejects of the adapter must be a tuple",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapter.py").write_text(text, encoding="utf-8")
    worker = make_worker(resolve(f"py:adapter.py{name}"), Limits())
    with pytest.raises(StartError) as caught:
        worker.start()
    worker.close()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
