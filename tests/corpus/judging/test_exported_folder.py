"""What an export did to its folder and around it: each thing that can be wrong, and what is no mistake."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from safetensors_corpus.document import action_faults
from safetensors_corpus.judging import exported_folder
from safetensors_corpus.judging.exported_folder import KEPT, TARGET, entries, flaws_of_export

A, B = b"first tensor", b"second tensor"
ACTION = {"contents": [A.hex(), B.hex()], "links": {}}
DISTINGUISHES = pytest.mark.skipif(sys.platform == "darwin", reason="its file system ignores the difference")
Export = Callable[[Path], object]


def writes(**files: bytes) -> Export:
    return lambda folder: [(folder / name).write_bytes(data) for name, data in files.items()]


def then(*steps: Export) -> Export:
    return lambda folder: [step(folder) for step in steps]


COMPLETE = writes(a=A, b=b"header" + B)


def beside(*names: str) -> Export:
    """Write all tensors, and empty files with these names."""
    return then(COMPLETE, writes(**dict.fromkeys(names, b"")))


def deep(folder: Path) -> None:
    """Nest folders beyond the limit of a path."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("a" * 200, dir_fd=here)
        inner = os.open("a" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def sparse(folder: Path) -> None:
    with (folder / "a").open("wb") as file:
        file.truncate(1 << 40)


def many(folder: Path) -> None:
    for number in range(exported_folder.MAX_ENTRIES):
        (folder / f"{number}").touch()


def elsewhere(folder: Path) -> None:
    """Replace the directory of the case by a link to another directory."""
    root = folder.parents[3]
    root.rename(root.with_name("moved"))
    root.symlink_to("moved")


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        (COMPLETE, []),
        (writes(archive=A + B), []),
        (writes(compressed=b"neither"), []),
        (writes(a=A), ["complete"]),
        (writes(), ["complete"]),
        (lambda folder: (folder / "only-a-folder").mkdir(), ["complete"]),
        (then(COMPLETE, lambda folder: (folder.parent / "x").write_bytes(A)), ["outside"]),
        (lambda folder: (folder.parent / "x").mkdir(), ["outside"]),
        (lambda folder: (folder.parents[3] / KEPT).write_bytes(A), ["outside"]),
        (lambda folder: (folder.parents[3] / KEPT).unlink(), ["outside"]),
        (then(COMPLETE, lambda folder: (folder.parents[3] / KEPT).rename(folder / "kept")), ["outside"]),
        (then(Path.rmdir, lambda folder: folder.symlink_to("..")), ["outside"]),
        (Path.rmdir, ["complete"]),
        (then(Path.rmdir, Path.mkdir, COMPLETE), []),
        (deep, ["complete"]),
        (then(deep, lambda folder: (folder.parent / "x").mkdir()), ["outside"]),
        (sparse, ["complete"]),
        (then(COMPLETE, many), ["complete"]),
        (lambda folder: os.mkfifo(folder / "pipe"), ["complete"]),
        (elsewhere, ["outside"]),
        *((beside(name), ["portable"]) for name in ("a:b", "CON", "nul.bin", "x.", "x ")),
        pytest.param(beside("A"), ["portable"], marks=DISTINGUISHES),
        pytest.param(beside("\u00e9", "e\u0301"), ["portable"], marks=DISTINGUISHES),
        (beside(".hidden", "-x", "console", "\u00e9"), []),
    ],
)  # fmt: skip
def test_what_an_export_leaves(
    export: Export, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_folder, "MAX_ENTRIES", 50)
    root = tmp_path / "root"
    folder = root / TARGET
    folder.mkdir(parents=True)
    (root / KEPT).parent.mkdir()
    (root / KEPT).write_bytes(b"kept")
    before = entries(root)
    export(folder)
    assert [f.property for f in flaws_of_export(root, before, ACTION, refused=False)] == expected
    # A rejected export may leave anything in its folder.
    outside = [name for name in expected if name == "outside"]
    assert [f.property for f in flaws_of_export(root, before, ACTION, refused=True)] == outside


@pytest.mark.parametrize(
    "links", [{"../a": "outside"}, {"a/b": ""}, {"a": ".."}, {"a": "/etc"}, {"a": "outside/../../x"}]
)
def test_the_links_of_another_corpus_stay_in_the_directory(links: dict[str, str]) -> None:
    action = {"do": "export", **ACTION}
    assert list(action_faults("export", action | {"links": {"a": "outside/kept", "b.npy": ""}})) == []
    assert list(action_faults("export", action | {"links": links})) != []
