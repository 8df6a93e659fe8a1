"""Folders, lists, archives, pages and addresses lead to their files, each once, and to nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from safetensors_reference.files import walk
from safetensors_reference.files.names import SourceError
from safetensors_reference.files.stores import tag_of
from safetensors_reference.files.walk import ProgressBar

from ..audit.support import BROKEN, MODEL, VALID, alike, long_file, read_row, rows_of, write_tree
from .web import Tree, serve, served


def test_what_leads_to_nothing_is_a_row_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    rows = rows_of([tmp_path / "no.safetensors", tmp_path / "empty", tmp_path / "loop.safetensors", "a\0b"])
    assert [(Path(row.address).name, row.verdict) for row in rows] == [
        ("empty", "unreadable"),
        ("loop.safetensors", "unreadable"),
        ("no.safetensors", "missing"),
        ("a\0b", "unreadable"),
    ]
    assert all(row.note for row in rows)


def test_a_list_names_paths_and_addresses_and_keeps_models_together(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"m/{name}": data for name, data in MODEL.items()} | {"x.safetensors": VALID})
    lines = [*map(str, sorted((tmp_path / "m").iterdir())), "", f"{tmp_path}/x.safetensors", "nope://a/b"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    rows = rows_of([], [tmp_path / "list.txt"])
    found = [f"{row.kind} {row.verdict} {row.requests}" for row in rows]
    assert found == ["file valid 1"] * 2 + ["model valid 1", "file valid 1", "file unreadable 0"]
    assert "nope" in rows[-1].note


@pytest.mark.parametrize("kind", ["nothing", "pipe", "device", "folder"])
def test_a_list_that_is_no_file_is_an_error_in_one_line(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "list"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind != "nothing":
        place.symlink_to("/dev/zero" if kind == "device" else tmp_path)
    why = "this is not a regular file; use --list - for a pipe"
    with pytest.raises(SourceError, match="list: No such file" if kind == "nothing" else f"list: {why}$"):
        rows_of([], [place])


def test_a_line_without_end_is_an_error_in_one_line() -> None:
    code = "from safetensors_reference.audit.cli import audit; audit(['--list', '-', '--jobs', '1'])"
    with open("/dev/zero") as zeros:
        run = subprocess.run(
            [sys.executable, "-c", code], stdin=zeros, capture_output=True, text=True, check=False
        )
    assert (run.returncode, run.stderr) == (2, "-: line 1 is longer than 8,192 characters\n")


def test_files_in_an_archive_and_models_in_it(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("top.safetensors", VALID)
        for name, data in MODEL.items():
            archive.writestr(f"m/{name}", data)
    rows = rows_of([f"zip::{tmp_path}/a.zip"])
    found = [(row.address.partition("::")[0], row.verdict) for row in rows]
    assert found == [(f"zip://{name}", "valid") for name in (*map("m/{}".format, MODEL), "top.safetensors")]
    (alone,) = rows_of([f"zip://m/model.safetensors.index.json::{tmp_path}/a.zip"])
    assert (alone.kind, alone.verdict, alone.shards) == ("model", "valid", 2)


def test_the_version_that_a_listing_gives() -> None:
    versions: list[tuple[dict[str, Any], str]] = [
        ({"ETag": '"abc"'}, "abc"),
        ({"mtime": 12.5}, "12.5"),
        ({"lfs": {"sha256": "f00"}, "blob_id": "b"}, "f00"),
        ({"lfs": None, "blob_id": "b"}, "b"),
        ({"name": "x"}, ""),
    ]
    assert [tag_of(about) for about, _ in versions] == [tag for _, tag in versions]


def test_a_model_of_the_hub_costs_one_request_for_each_file(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    code = "from safetensors_reference.audit.cli import audit; audit(['hf://org/model', '--jobs', '1'])"
    with served() as hub:
        hub.files = dict(MODEL)
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret", "HF_HOME": str(tmp_path)}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = [(row.address, row.verdict) for row in map(read_row, run.stdout.splitlines())]
    assert rows == [(f"hf://org/model/{name}", "valid") for name in MODEL]
    asked = [token for call, token in zip(hub.calls, hub.tokens, strict=True) if "/resolve/" in call]
    assert asked == ["Bearer hf_secret"] * 3


@pytest.mark.parametrize(("pause", "drawn"), [(-1, True), (1000, False)])
def test_the_bar_moves_but_not_for_every_file(
    monkeypatch: pytest.MonkeyPatch, pause: float, drawn: bool
) -> None:
    monkeypatch.setattr(walk, "REFRESH", pause)
    console = Console(file=StringIO(), force_terminal=True, color_system=None, record=True)
    with ProgressBar(console=console) as bar:
        for _ in range(3):
            bar.advance()
    text = console.export_text()
    shown = [f"checked {n} files" in text for n in (1, 2, 3)]
    assert shown == [False, drawn, drawn], "the bar appears with the second file"


FILES = {f"{n:02d}.safetensors": [VALID, BROKEN, long_file()][n % 3] for n in range(12)}
FILES |= {f"m/{name}": data for name, data in MODEL.items()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("stores"), FILES)


def compared(rows: list[Any]) -> list[Any]:
    return sorted(map(alike, rows), key=repr)


def test_pages_and_redirects_give_the_rows_of_the_file_system(tree: Path, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")

    class Site(Tree):
        files: ClassVar[dict[str, bytes]] = {f"d/{name}": data for name, data in FILES.items()}

        def answer(self) -> None:
            if self.path.startswith("/moved/"):
                self.send(302, b"", {"Location": self.path.replace("moved", "d")})
            else:
                super().answer()

    moved = tmp_path / "list"
    with serve(Site) as url:
        rows = rows_of([f"{url}/d/"])
        moved.write_text("".join(f"{url}/moved/{name}\n" for name in FILES))
        assert compared(rows_of([], [moved])) == compared(rows) == compared(rows_of([tree]))
        (model,) = rows_of([f"{url}/d/m/model.safetensors.index.json"])
        (gone,) = rows_of([f"{url}/d/00.safetensors.safetensors"])
    assert all(row.requests <= 2 for row in rows if row.verdict == "valid")
    assert all(row.address.startswith(url) for row in rows)
    assert [(row.kind, row.verdict, row.shards) for row in (model, gone)] == [
        ("model", "valid", 2),
        ("file", "missing", None),
    ]
