"""``stc check`` on the Hub and on web servers, with a server on this machine in their place."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.server import BEHAVIOURS, Behaviour, FileServer
from safetensors_reference.files.names import beside, shard_name
from safetensors_reference.files.reading import FIRST

from ..audit.support import BROKEN, VALID, long_file
from ..check.support import INDEX, run
from ..support import make
from .web import REPO, Hub, forget, served

pytest.importorskip("fsspec")
pytest.importorskip("huggingface_hub")
pytest.importorskip("aiohttp")
pytestmark = pytest.mark.usefixtures("quick_retries")

A, B = (shard_name("model", n, 2) for n in (1, 2))
DATA = 200_000
"""Bytes of data of a shard, which nothing may ask for."""


def shard(name: str, **more: Any) -> bytes:
    entry = {"dtype": "U8", "shape": [DATA], "data_offsets": [0, DATA]}
    return make(json.dumps({name: entry, **more}), bytes(DATA))


def whole() -> dict[str, bytes]:
    weight_map = {"a": A, "b": B}
    index = {"metadata": {"total_size": 2 * DATA}, "weight_map": weight_map}
    return {"config.json": b"{}", A: shard("a"), B: shard("b"), INDEX: json.dumps(index).encode()}


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with served() as hub:
        yield hub


@pytest.fixture
def hub(server: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A repository with a whole model; nothing is remembered of the test before."""
    from huggingface_hub import HfFileSystem

    server.files, server.failing, server.ranges, server.sent = whole(), {}, True, 0
    server.tree = None
    server.calls.clear()
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    monkeypatch.setattr("huggingface_hub.utils._http._DEFAULT_RETRY_ON_STATUS_CODES", (), raising=False)
    forget()
    HfFileSystem.clear_instance_cache()
    return server


def test_a_whole_model_on_the_hub(hub: Hub) -> None:
    result = run(f"hf://{REPO}")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"hf://{REPO}/{A}: valid, 1 tensor, {DATA:,} bytes of data",
        f"hf://{REPO}/{B}: valid, 1 tensor, {DATA:,} bytes of data",
        f"hf://{REPO}/{INDEX}: valid, 2 tensors in 2 shards, {2 * DATA:,} bytes of data",
        f"hf://{REPO}/model: whole model, 2 tensors in 2 files, {2 * DATA:,} bytes of data",
    ]
    # Each shard by one range, the index whole; the data are never read.
    asked = [call for call in hub.calls if "/resolve/" in call]
    assert len(asked) == 3
    assert hub.sent <= 3 * FIRST


def test_what_is_wrong_with_a_model_on_the_hub(hub: Hub) -> None:
    del hub.files[B]
    hub.files["model.safetensors"] = shard("a")[:-1]
    result = run("--json", f"hf://{REPO}")
    assert result.exit_code == 1
    rows = {row.get("model") or row["file"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert [f["code"] for f in rows[f"hf://{REPO}/model.safetensors"]["faults"]] == ["OFF_OUT_OF_BOUNDS"]
    told = {(f["file"], f["rule"]) for f in rows[f"hf://{REPO}/model"]["findings"]}
    assert told == {(INDEX, "IDX-08"), ("model.safetensors", "IDX-15")}


def test_bytes_around_a_fault_come_from_the_server(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"x y.safetensors": make('{"w":1}')}
    result = run("--sarif", tmp_path / "out.sarif", f"hf://{REPO}")
    assert result.exit_code == 1
    assert '{"w":1}' in result.stdout
    assert len([call for call in hub.calls if "/resolve/" in call]) == 1
    (artifact,) = json.loads((tmp_path / "out.sarif").read_bytes())["runs"][0]["artifacts"]
    assert artifact["location"]["uri"] == f"hf://{REPO}/x%20y.safetensors"


def test_a_long_header_takes_two_ranges(hub: Hub) -> None:
    hub.files = {"x.safetensors": shard("a", __metadata__={"k": "v" * FIRST})}
    assert run(f"hf://{REPO}/x.safetensors").exit_code == 0
    spans = [call.split()[-1] for call in hub.calls if "bytes=" in call]
    assert spans[0] == f"bytes=0-{FIRST - 1}"
    assert len(spans) == 2
    assert hub.sent < FIRST + 1_000 + FIRST


def test_folders_of_a_repository_are_models_of_their_own(hub: Hub) -> None:
    hub.files = {**hub.files, f"vae/{A}": shard("v")}
    result = run("-q", f"hf://{REPO}")
    assert result.stdout == f"hf://{REPO}/vae/model: model is not whole: 1 fault: IDX_SHARD_MISSING\n"
    assert run(f"hf://{REPO}@main/vae").exit_code == 1


def test_a_server_that_fails_says_nothing_about_the_model(hub: Hub) -> None:
    hub.failing[B] = 403
    result = run(f"hf://{REPO}")
    assert result.exit_code == 2
    assert "0 invalid, 2 unreadable; 1 model: 0 whole, 0 not whole, 1 unknown" in result.stderr
    assert "Traceback" not in result.output
    assert all(len(line) < 1_200 for line in result.output.splitlines())


EMPTY = b'[{"type":"file","path":"config.json","size":2,"oid":"0"}]'
ODD = [EMPTY, b"", b"[", b"{}", b"[1]", b'[{"type":"file"}]', b"<html>" + b"x" * 100_000]
NAMED = [
    json.dumps([{"type": "file", "path": f"{stem}.safetensors", "size": 10, "oid": "0" * 40}]).encode()
    for stem in ("\x1b[2J", "\ud800", "../../x", "a\nb")
]


@pytest.mark.parametrize(
    ("what", "tree"),
    [
        *((what, None) for what in (f"hf://{REPO}/no.safetensors", "hf://org/other", "hf://")),
        *((f"hf://{REPO}", tree) for tree in ODD + NAMED),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_listed_or_read_is_one_line(
    hub: Hub, what: str, tree: bytes | None, tmp_path: Path
) -> None:
    hub.tree, log = tree, tmp_path / "log"
    result, quiet, told = (run(what, "--sarif", log, *more) for more in ((), ("-q",), ("--json",)))
    assert (quiet.exit_code, quiet.output, told.exit_code) == (2, result.output, 2)
    assert (told.output.count("\n"), told.output.isascii(), "\x1b" in told.output) == (1, True, False)
    assert json.loads(log.read_text("ascii"))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "no *.safetensors" in result.stderr or tree != EMPTY
    assert (result.stderr.isascii(), "\x1b" in result.stderr) == (True, False)
    assert len(result.stderr) < 1_000


def test_an_address_of_a_file(hub: Hub) -> None:
    result = run(f"{hub.url}/plain/{A}?download=true")
    assert result.exit_code == 0, result.output
    assert hub.sent <= FIRST
    hub.ranges = False
    forget()
    result = run(f"{hub.url}/plain/{A}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_an_address_of_an_index_leads_to_its_shards(hub: Hub) -> None:
    address = f"{hub.url}/plain/{INDEX}"
    assert run(address).stdout == f"{address}: valid, 2 tensors in 2 shards, {2 * DATA:,} bytes of data\n"
    hub.files[B] = shard("c")
    forget()
    result = run("-q", address)
    assert result.stdout == f"{address}: 2 faults: IDX_TENSOR_MISSING, IDX_TENSOR_UNINDEXED\n"
    del hub.files[B]
    forget()
    assert run("-q", address).stdout == f"{address}: 1 fault: IDX_SHARD_MISSING\n"
    hub.failing[B] = 500
    forget()
    result = run("-q", address)
    assert (result.exit_code, result.stdout) == (2, "")
    assert B in result.stderr


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_server_that_lies_gets_the_verdict_of_an_audit_or_none(behaviour: Behaviour) -> None:
    for data in (VALID, BROKEN, long_file()):
        forget()
        with FileServer(data, behaviour) as server:
            result = run("-q", server.url)
        # Where the server declares the file too small, and no request reaches its end, the file is cut short.
        invalid = data is BROKEN or (behaviour == "total-too-small" and data is not VALID)
        assert result.exit_code in (2, int(invalid)), result.output
        assert server.sent <= 2 * len(data) + 3 * FIRST
        assert len(result.stdout.splitlines()) == int(result.exit_code == 1)


@pytest.mark.parametrize(
    ("address", "library"),
    [(f"hf://{REPO}", "huggingface_hub"), ("https://x.invalid/a.safetensors", "fsspec")],
)
def test_without_the_library_the_extra_is_named(address: str, library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None\nfrom safetensors_reference.main import main\nmain()"
    args = [sys.executable, "-c", code, "check", address]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    text = f"{address}: needs the remote extra: pip install 'safetensors-conformance[remote]'"
    assert done.stderr.startswith(text)
    assert len(done.stderr.splitlines()) == 1


def test_addresses_beside_each_other() -> None:
    assert beside("hf://o/m/i.json", "x y") == "hf://o/m/x y"
    assert beside("https://h/p/i.json?a=/b#c", "x?y%2F") == "https://h/p/x%3Fy%252F"
