"""Servers: pages of links, S3 by moto, and a server whose requests fail now and then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from safetensors_reference.files import reading
from safetensors_reference.files.stores import fetcher_of, file_system

from ..audit.support import BROKEN, MODEL, VALID, alike, long_file, rows_of, write_tree
from .web import Tree, serve

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


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_s3_gives_the_rows_of_the_file_system(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moto = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    s3fs.S3FileSystem.clear_instance_cache()
    file_system.cache_clear()
    fetcher_of.cache_clear()
    store = s3fs.S3FileSystem()
    store.mkdir("models")
    store.put(f"{tree}/", "models/all/", recursive=True)
    rows = rows_of(["s3://models"])
    assert compared(rows) == compared(rows_of([tree]))
    assert all(row.address.startswith("s3://models/") and row.tag for row in rows)
    assert [row.verdict for row in rows_of(["s3://models/all/no.safetensors"])] == ["unreadable"]
    server.stop()


def test_of_requests_that_fail_now_and_then_none_is_lost(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(reading, "LONGEST_WAIT", 0.01)

    class Failing(Tree):
        asked = 0

        def answer(self) -> None:
            Failing.asked += 1
            if Failing.asked % 20 == 0:
                self.send(503, b"later", {"Retry-After": "1"})
            elif Failing.asked % 33 == 0:
                self.close_connection = True
            else:
                super().answer()

    Failing.files = {f"d/{n:03d}.safetensors": long_file(900) for n in range(100)}
    with serve(Failing) as url:
        rows = rows_of([f"{url}/d/"], batch=50)
    assert [row.verdict for row in rows] == ["valid"] * 100
    assert len({row.address for row in rows}) == 100
    assert sum(row.requests for row in rows) > 100
