"""Names of shards lead to files beside the index and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from urllib.parse import unquote, urljoin

import numpy as np
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


def test_names_of_files_and_others() -> None:
    bare = "model mit\u00a0模型 ... a..b ~ -rf $HOME a%20b 100% a?b#c"
    for stem in [*bare.split(" "), "mit leerzeichen", "x" * 243]:
        assert found(f"{stem}.safetensors") == [], stem
    refused: dict[tuple[tuple[str, str], ...], list[str]] = {
        (NAME,): [
            "/abs", "//host/share/x", "../x", "./x", "sub/x", "a/../../x", "x.safetensors/../y", "..\\x",
            ".\\x", "sub\\x", "\\x", "\\\\host\\x", "\\\\?\\C:\\x", "C:\\x", "C:/x", "C:x", "x.txt:y",
            "https://example.org/x", "%2e%2e/x", "x\0", "x.bin\0", "x\n", "\x1b[2J", "\x7f", "\ud800",
            "x" * 244,
        ],
        (REMOTE,): ["%2e%2e%2fx", "..%2Fx", "..%5cx", "%252e%252e%252fx", "%25252fx", "C%3ax", "x%00"],
    }  # fmt: skip
    for told, stems in refused.items():
        for stem in stems:
            assert found(f"{stem}.safetensors") == [*told], stem
    for name in ("", ".", ".."):
        assert found(name) == [NAME]
    for name in ("x", "x.bin", "x.safetensors.bin", "x.SAFETENSORS", "x.safetensors ", "xsafetensors"):
        assert found(name) == [EXTENSION]
    assert (found("%2e%2e"), found("../x.bin")) == ([REMOTE, EXTENSION], [NAME, EXTENSION])
    assert shard_name("model", 99_999, 100_000) == "model-99999-of-100000.safetensors"
    assert found("%" + "25" * 500_000 + ".safetensors") == [NAME], "decoding takes bounded time"


def test_a_name_is_reported_once_however_often_it_is_used(tmp_path: Path) -> None:
    text = json.dumps({"metadata": {}, "weight_map": {"a": "../x.bin", "b": "../x.bin"}})
    (tmp_path / INDEX).write_text(text)
    faults = explain_index(tmp_path / INDEX).faults
    assert [(f.code, f.rule) for f in faults] == [NAME, EXTENSION]
    for fault in faults:
        assert (fault.path, text[fault.start : fault.end]) == (("weight_map", "a"), '"../x.bin"')


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
    for place in (tmp_path / "outer", tmp_path, folder / "sub", folder):
        save_file({"w": np.zeros(2)}, place / "x.safetensors")
    stems = ["../x", "../../x", "sub/x", "./x", "sub/../x", "..\\x", "C:x", "%2e%2e%2fx"]
    stems += ["x.safetensors\0", "x", str(tmp_path / "x"), f"file://{tmp_path}/x"]
    names = [*(f"{stem}.safetensors" for stem in stems), "x.bin", "..", ""]
    for decoy in ("..\\x.safetensors", "C:x.safetensors", "%2e%2e%2fx.safetensors", "x.bin"):
        (folder / decoy).write_bytes(b"decoy")
    index = folder / INDEX
    weight_map = {f"w{n}": name for n, name in enumerate(names)}
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    said = subprocess.check_output([sys.executable, "-c", WATCH, tmp_path, index])
    events, codes = json.loads(said)
    opened = {name for _, name in events if name.startswith(str(tmp_path))}
    assert opened == {str(index), str(folder / "x.safetensors")}
    assert {event for event, _ in events} == {"open"}
    assert codes == ["IDX_BAD_EXTENSION", "IDX_BAD_FILENAME", "IDX_TENSOR_MISSING", "IDX_TENSOR_UNINDEXED"]
