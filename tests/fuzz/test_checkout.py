"""The tools of the project are found in a checkout, and missed with words elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from safetensors_fuzz import checkout


def test_the_tools_of_this_checkout_can_be_imported_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(Path(checkout.__file__).resolve().parents[2])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", ".", root)])
    checkout.find_tools()
    assert sys.path[0] == root
    checkout.find_tools()
    assert sys.path.count(root) == 1


def test_an_installed_copy_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "safetensors_fuzz" / "checkout.py"
    monkeypatch.setattr(checkout, "__file__", str(installed))
    with pytest.raises(FileNotFoundError, match="run it in a checkout"):
        checkout.find_tools()
