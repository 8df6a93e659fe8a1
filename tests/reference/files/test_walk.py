"""Folders, lists, archives, pages and addresses lead to their files, and names make up models."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from safetensors_reference.files import walk
from safetensors_reference.files.names import (
    MAX_STRAYS,
    ModelFiles,
    SourceError,
    find_gaps,
    find_models,
    index_stem,
    is_index,
    is_model_file,
    missing_numbers,
    parse_shard_number,
    shard_name,
    sibling_name,
)
from safetensors_reference.files.stores import tag_of
from safetensors_reference.files.walk import ProgressBar

from ..audit.support import BROKEN, MODEL, VALID, all_alike, long_file, read_row, rows_of, write_tree
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
        assert all_alike(rows_of([], [moved])) == all_alike(rows) == all_alike(rows_of([tree]))
        (model,) = rows_of([f"{url}/d/m/model.safetensors.index.json"])
        (gone,) = rows_of([f"{url}/d/00.safetensors.safetensors"])
    assert all(row.requests <= 2 for row in rows if row.verdict == "valid")
    assert all(row.address.startswith(url) for row in rows)
    assert [(row.kind, row.verdict, row.shards) for row in (model, gone)] == [
        ("model", "valid", 2),
        ("file", "missing", None),
    ]


def test_a_store_gives_the_rows_of_the_file_system(tree: Path, tmp_path: Path) -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    for name, data in FILES.items():
        store.pipe_file(f"/d/{name}", data)
    listed = tmp_path / "list"
    listed.write_text("memory://d/no.safetensors\n")
    rows, (gone,) = rows_of(["memory://d"]), rows_of([], [listed])
    store.rm("/d", recursive=True)
    assert all_alike(rows) == all_alike(rows_of([tree]))
    assert gone.verdict == "missing"


A, B, C = (shard_name("model", n, 3) for n in (1, 2, 3))
INDEX = "model.safetensors.index.json"


@given(st.text(min_size=1), st.integers(0, 99_999), st.integers(1, 99_999))
def test_a_conventional_name_is_read_back(stem: str, number: int, total: int) -> None:
    name = shard_name(stem, number, total)
    assert parse_shard_number(name) == (stem, number, total)
    assert sibling_name(name, 7) == shard_name(stem, 7, total)


def test_other_names_have_no_number_and_a_variant_is_part_of_a_stem() -> None:
    for name in ("model.safetensors", "-1-of-2.safetensors", "m-1-of-2.bin", "m-x-of-2.safetensors", INDEX):
        assert parse_shard_number(name) is None
    indexes = (INDEX, "model.fp16.safetensors.index.json", "model.safetensors.index.fp16.json", "config.json")
    assert [*map(index_stem, indexes)] == ["model", "model.fp16", "model.fp16", None]
    assert is_index("https://h/model.safetensors.index.fp16.json?download=true")
    assert not is_index("https://h/model.safetensors?of=m.safetensors.index.json")
    assert not is_index("m.safetensors.index.x/config.json")
    assert (is_index("other.index.json"), is_index("x.json")) == (True, False)


HOOKS = yaml.safe_load((Path(__file__).parents[3] / ".pre-commit-hooks.yaml").read_text())
PARTS = (".safetensors", ".index", ".json", ".fp16", "a", "/", ".", "-00001-of-00002", "consolidated")
NAMES = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)


@given(NAMES)
def test_the_hooks_and_all_commands_look_for_the_same_names(name: str) -> None:
    assert {bool(re.search(hook["files"], name)) for hook in HOOKS} == {is_model_file(name)}
    assert is_index(name) >= (is_model_file(name) and not name.endswith(".safetensors"))


@given(st.lists(NAMES, max_size=8))
def test_a_model_is_made_of_files_that_are_looked_for(names: list[str]) -> None:
    assert all(is_model_file(name) for model in find_models(names) for name in model.files)


OTHER, SINGLE, RIVAL = shard_name("model", 1, 2), "model.safetensors", "consolidated.safetensors"
SECOND = "b.safetensors.index.json"


@pytest.mark.parametrize(
    ("names", "models"),
    [
        (
            [C, A, INDEX, OTHER, SINGLE, RIVAL, "x.safetensors"],
            [ModelFiles("model", INDEX, (OTHER, A, C), (RIVAL, SINGLE), ("x.safetensors",))],
        ),
        ([SINGLE, "x.safetensors", "config.json"], []),
        # A collection of files has no strays.
        (
            [INDEX, *(f"{number}.safetensors" for number in range(MAX_STRAYS + 1))],
            [ModelFiles("model", INDEX, (), (), ())],
        ),
        # Without an index, each count is a model.
        (
            [A, OTHER, B],
            [ModelFiles("model", None, (OTHER,), (A, B)), ModelFiles("model", None, (A, B), (OTHER,))],
        ),
        ([INDEX, SECOND], [ModelFiles("b", SECOND, (), (INDEX,)), ModelFiles("model", INDEX, (), (SECOND,))]),
    ],
)
def test_shards_go_to_the_index_of_their_stem(names: list[str], models: list[ModelFiles]) -> None:
    assert find_models(names) == models


@pytest.mark.parametrize(
    ("numbers", "gaps"),
    [
        (["00000", "00001", "00003"], {"00003": "00002"}),
        (["1", "2", "4", "8", "9", "10"], {"4": "3", "8": "5"}),
        (["08", "09", "11"], {"11": "10"}),
        (["1", "2", "3"], {}),
        (["1", "3"], {}),
        (["1000", "2000", "3000"], {}),
        (["1", "2", "4-of-4"], {}),
    ],
)
def test_gaps_in_names_without_a_total(numbers: list[str], gaps: dict[str, str]) -> None:
    name = "out-{}.safetensors".format
    expected = {name(after): name(missing) for after, missing in gaps.items()}
    assert find_gaps([*map(name, numbers), "out.safetensors", "other-7.safetensors"]) == expected


@given(st.sets(st.integers(0, 30)), st.integers(1, 20))
def test_the_gaps_are_the_numbers_that_are_missing(numbers: set[int], count: int) -> None:
    first = 0 if 0 in numbers else 1
    missing = [n for low, high in missing_numbers(numbers, count) for n in range(low, high + 1)]
    assert missing == sorted(set(range(first, first + count)) - numbers)


def test_a_count_without_end_costs_nothing() -> None:
    assert missing_numbers({1, 5}, 999_999_999) == [(2, 4), (6, 999_999_999)]


def test_the_bar_tells_files_rate_and_time_left(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{n}.safetensors": VALID for n in range(4)})
    console = Console(force_terminal=True, width=80, record=True)
    with ProgressBar([str(tmp_path), "x.safetensors"], console) as bar:
        bar._count()
        bar._drawn -= 10
        bar.advance(3)
        assert bar._bar is not None
        assert bar._bar.tasks[0].total == 4
    text = console.export_text()
    assert [part for part in ("3 files", "/s") if part not in text] == []
