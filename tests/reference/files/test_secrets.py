"""What a server may not learn, and numbers that it may not make results hold."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from safetensors_reference.audit.cli import audit
from safetensors_reference.audit.row import ModelIndex, file_row, model_row
from safetensors_reference.files.names import FileInput
from safetensors_reference.files.reading import LARGEST, Head, NotReadError
from safetensors_reference.files.stores import fetcher_of
from safetensors_reference.files.web import Web, WebFetcher

from ..audit.support import VALID, long_file
from .web import Tree, serve


def test_a_token_goes_to_no_other_host() -> None:
    pytest.importorskip("aiohttp")
    asked: list[tuple[str, str]] = []

    class Elsewhere(Tree):
        files: ClassVar[dict[str, bytes]] = {"a.safetensors": long_file()}

        def answer(self) -> None:
            asked.append(("there", self.headers.get("Authorization", "")))
            super().answer()

    with serve(Elsewhere) as there:

        class Front(Tree):
            def answer(self) -> None:
                asked.append(("here", self.headers.get("Authorization", "")))
                self.send(302, b"", {"Location": f"{there}/a.safetensors"})

        with serve(Front) as here:
            plain, loop = fetcher_of("https://")
            assert isinstance(plain, WebFetcher)
            fetcher = WebFetcher(Web(plain.web.fs, {"authorization": "Bearer hf_secret"}))
            url = f"{here}/a.safetensors"
            head = asyncio.run_coroutine_threadsafe(fetcher.head(FileInput(url, url)), loop).result()
    assert head.size == len(long_file())
    assert asked == [("here", "Bearer hf_secret"), ("there", ""), ("there", "")]


def test_a_length_beyond_all_files_is_no_row_that_results_cannot_hold(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("pyarrow")

    class Liar(Tree):
        def answer(self) -> None:
            size = "9" * 19
            self.send(206, VALID.ljust(65_536, b"\0"), {"Content-Range": f"bytes 0-65535/{size}"})

    with serve(Liar) as web:
        done = CliRunner().invoke(
            audit, [f"{web}/a.safetensors", "-o", str(tmp_path / "rows"), "--jobs", "1"]
        )
    assert (done.exit_code, done.output) == (2, "1 file: 1 no-ranges\n")
    import pyarrow.parquet as parquet

    assert parquet.read_table(tmp_path / "rows" / "part-000001.parquet")["verdict"].to_pylist() == [
        "no-ranges"
    ]


def test_shards_whose_sum_cannot_be_are_no_verdict() -> None:
    size = 1 << 60
    text = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    data = len(text).to_bytes(8, "little") + text.encode()
    shards = {f"{n}.safetensors": file_row(Head(f"{n}", len(data) + size, data)) for n in range(9)}
    assert sum(row.data_bytes or 0 for row, _ in shards.values()) > LARGEST
    index = json.dumps({"weight_map": {f"w{n}": name for n, name in enumerate(shards)}}).encode()
    with pytest.raises(NotReadError, match="is impossible"):
        model_row(ModelIndex(Head("x", len(index), index)), shards)
