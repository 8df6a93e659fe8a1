"""Names of shards lead to files beside the index and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from urllib.parse import unquote, urljoin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from safetensors_reference.files.names import shard_name
from safetensors_reference.model.index import name_faults
from safetensors_reference.model.read import explain_index

INDEX = "model.safetensors.index.json"
NAME, EXTENSION = ("IDX_BAD_FILENAME", "IDX-04"), ("IDX_BAD_EXTENSION", "IDX-07")
REMOTE = ("IDX_BAD_FILENAME", "IDX-05")


def found(name: str) -> list[tuple[str, str]]:
    return [(code, rule) for code, rule, _ in name_faults(name)]


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "diffusion_pytorch_model.fp16.safetensors",
        "mit leerzeichen.safetensors",
        "模型.safetensors",
        "..safetensors",
        "...safetensors",
        "a..b.safetensors",
        "~.safetensors",
        "-rf.safetensors",
        "$HOME.safetensors",
        "a%20b.safetensors",
        "100%.safetensors",
        "a?b#c.safetensors",
        "x" * 243 + ".safetensors",
    ],
)
def test_bare_file_names_are_shard_names(name: str, tmp_path: Path) -> None:
    assert found(name) == []
    save_file({"w": np.zeros(2)}, tmp_path / name)
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"w": name}}))
    assert explain_index(tmp_path / INDEX).faults == []


REFUSED = {
    **dict.fromkeys(
        [
            "/abs.safetensors",
            "//host/share/x.safetensors",
            "../x.safetensors",
            "./x.safetensors",
            "sub/x.safetensors",
            "a/../../x.safetensors",
            "a/../x.safetensors",
            "x.safetensors/../y.safetensors",
            "..\\x.safetensors",
            ".\\x.safetensors",
            "sub\\x.safetensors",
            "\\x.safetensors",
            "\\\\host\\share\\x.safetensors",
            "\\\\?\\C:\\x.safetensors",
            "C:\\x.safetensors",
            "C:/x.safetensors",
            "C:x.safetensors",
            "x.txt:y.safetensors",
            "file:x.safetensors",
            "https://example.org/x.safetensors",
            "%2e%2e/x.safetensors",
            "x\x00.safetensors",
            "x.bin\x00.safetensors",
            "x\n.safetensors",
            "\x1b[2J.safetensors",
            "\x7f.safetensors",
            "\ud800.safetensors",
            "x" * 244 + ".safetensors",
            "",
            ".",
            "..",
        ],
        (NAME,),
    ),
    **dict.fromkeys(
        [
            "%2e%2e%2fx.safetensors",
            "..%2Fx.safetensors",
            "..%5cx.safetensors",
            "%252e%252e%252fx.safetensors",
            "%25252fx.safetensors",
            "C%3ax.safetensors",
            "x%00.safetensors",
        ],
        (REMOTE,),
    ),
    **dict.fromkeys(
        ["x", "x.bin", "x.pt", "x.safetensors.bin", "x.SAFETENSORS", "x.safetensors ", "xsafetensors"],
        (EXTENSION,),
    ),
    "%2e%2e": (REMOTE, EXTENSION),
    "../x.bin": (NAME, EXTENSION),
}
"""Name -> codes and rules: of everything that is no bare name, leaves the folder once it is decoded, or is no
name of a safetensors file.
"""


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_refused(name: str) -> None:
    assert tuple(found(name)) == REFUSED[name]


def test_a_name_is_reported_once_however_often_it_is_used(tmp_path: Path) -> None:
    text = json.dumps({"metadata": {}, "weight_map": {"a": "../x.bin", "b": "../x.bin"}})
    (tmp_path / INDEX).write_text(text)
    faults = explain_index(tmp_path / INDEX).faults
    assert [(f.code, f.rule) for f in faults] == [NAME, EXTENSION]
    for fault in faults:
        assert fault.path == ("weight_map", "a")
        assert text[fault.start : fault.end] == '"../x.bin"'


PIECES = ("..", ".", "/", "\\", ":", "%2e", "%2F", "%5c", "%25", "%00", "a", "C", "\x00", "é", ".safetensors")


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=8))
def test_a_name_without_faults_stays_in_the_directory_whatever_takes_it_for_a_path_or_url(stem: str) -> None:
    name = stem + ".safetensors"
    if found(name):
        return
    while True:
        windows = PureWindowsPath(name)
        assert (windows.name, windows.parts) == (name, (name,))
        assert Path("/d", name).parts == ("/", "d", name)
        assert name not in (".", "..")
        assert "\x00" not in name
        base = "https://host/org/repo/resolve/main/"
        assert urljoin(base, name.replace("?", "%3f").replace("#", "%23").strip()).startswith(base)
        if unquote(name) == name:
            break
        name = unquote(name)


def test_a_shard_may_have_a_number_of_more_than_five_digits() -> None:
    assert shard_name("model", 99_999, 100_000) == "model-99999-of-100000.safetensors"


def test_decoding_takes_bounded_time() -> None:
    assert found("%" + "25" * 500_000 + ".safetensors") == [NAME]


WATCH = """
import json, os, sys
from safetensors_reference.model.read import explain_index
root, path = sys.argv[1:]
seen = set()
def hook(event, args):
    if event.split(".")[0] in ("open", "os", "shutil", "glob", "socket", "urllib", "subprocess", "mmap"):
        seen.update((event, os.fspath(a)) for a in args if isinstance(a, (str, bytes, os.PathLike)))
sys.addaudithook(hook)
faults = explain_index(path).faults
print(json.dumps([sorted(seen), sorted({f.code for f in faults})]))
"""


def test_no_file_outside_the_directory_is_ever_opened(tmp_path: Path) -> None:
    """Valid shards lie wherever a name could lead; the interpreter reports every file that is opened."""
    folder = tmp_path / "outer" / "model"
    (folder / "sub").mkdir(parents=True)
    decoys = [tmp_path / "outer", tmp_path, folder / "sub"]
    for place in (*decoys, folder):
        save_file({"w": np.zeros(2)}, place / "x.safetensors")
    (folder / "..\\x.safetensors").write_bytes(b"decoy")
    (folder / "C:x.safetensors").write_bytes(b"decoy")
    (folder / "%2e%2e%2fx.safetensors").write_bytes(b"decoy")
    (folder / "x.bin").write_bytes(b"decoy")
    names = [
        "../x.safetensors",
        "../../x.safetensors",
        "sub/x.safetensors",
        "./x.safetensors",
        "sub/../x.safetensors",
        str(tmp_path / "x.safetensors"),
        f"file://{tmp_path}/x.safetensors",
        "..\\x.safetensors",
        "C:x.safetensors",
        "%2e%2e%2fx.safetensors",
        "x.safetensors\x00.safetensors",
        "x.bin",
        "..",
        "",
        "x.safetensors",
    ]
    index = folder / INDEX
    index.write_text(
        json.dumps({"metadata": {}, "weight_map": {f"w{n}": name for n, name in enumerate(names)}})
    )
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(tmp_path), str(index)], capture_output=True, text=True, check=True
    )
    events, codes = json.loads(done.stdout)
    opened = {name for event, name in events if event == "open" and name.startswith(str(tmp_path))}
    assert opened == {str(index), str(folder / "x.safetensors")}
    assert {event for event, _ in events} == {"open"}
    assert codes == ["IDX_BAD_EXTENSION", "IDX_BAD_FILENAME", "IDX_TENSOR_MISSING", "IDX_TENSOR_UNINDEXED"]
