"""What ``stc check`` says about the neighbours of a file: missing names, strays, gaps, and empty files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ..audit.support import INDEX as INDEX_TEXT
from ..audit.support import MODEL, SHARDS, read_row, stc_audit, write_tree
from ..support import ABCD, W, entry, make
from .support import INDEX, VALID, harmless, load_log, results, row, rows, run

A, B = SHARDS
NAME = "m.safetensors"


@pytest.mark.parametrize(
    ("beside", "clause"),
    [
        *(
            (f"{NAME}{ending}", ", an unfinished download")
            for ending in (".incomplete", ".part", ".crdownload", ".aria2", f".{'a' * 40}.incomplete")
        ),
        ("M.SafeTensors", ", which differs only in case"),
        ("m (1).safetensors", ", which may be a copy of it"),
        ("m\n.safetensors", None),
        ("mm.safetensors.part", None),
    ],
)
def test_a_missing_file_is_looked_for_beside_its_name(
    tmp_path: Path, beside: str, clause: str | None
) -> None:
    (tmp_path / beside).write_bytes(b"")
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"w": NAME}}))
    end = "" if clause is None else f'; the folder contains "{beside}"{clause}'
    error = run(tmp_path / NAME).stderr
    assert error == f"{tmp_path}/{NAME}: No such file or directory{end} (IO_ERROR)\n"
    (fault,) = row(tmp_path / INDEX)["faults"]
    assert fault["message"] == f'shard "{NAME}" does not exist{end}'


def test_a_dangling_link_says_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to("blobs/\x1b[31m")
    found = run(tmp_path).stderr
    target = '; it is a symbolic link to "blobs/\\u001b[31m", which does not exist'
    assert target in found
    assert harmless(found)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).symlink_to("blobs/abc")
    write_tree(tmp_path, {"blobs/abc.incomplete": b""})
    assert '"abc.incomplete" is an unfinished download of it' in run(tmp_path).stderr
    note = read_row(stc_audit(tmp_path).stdout.encode()).note
    assert note.startswith("No such file or directory; it is a symbolic link to")


def test_a_folder_without_models_names_an_unfinished_download(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{NAME}.aria2": b""})
    result = run(tmp_path)
    assert result.exit_code == 2
    assert f'"{NAME}.aria2" in it looks like an unfinished download' in result.stderr
    write_tree(tmp_path, {A: VALID, f"{B}.part": b""})
    assert f'"{B}" does not exist; the folder contains "{B}.part", an unfinished' in run(tmp_path).stdout


@pytest.mark.parametrize("index", [True, False])
def test_a_stray_file_with_tensors_of_a_model_is_noted(tmp_path: Path, index: bool) -> None:
    files = {**MODEL, f"{A[:-12]} (1).safetensors": VALID, "lora.safetensors": make(f'{{"x":{W}}}', ABCD)}
    if not index:
        del files[INDEX]
    result = run(write_tree(tmp_path, files))
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if "not part of the model" in line]
    assert len(lines) == 1
    assert f'"{A[:-12]} (1).safetensors" is not part of the model, but contains 1 of its tensors' in lines[0]


def test_nothing_is_left_over_of_an_index_that_cannot_be_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {**SHARDS, INDEX: b"<html>"})
    assert "IDX-19" not in run(tmp_path).stdout
    write_tree(tmp_path, {INDEX: INDEX_TEXT.replace(b'"w":"' + A.encode() + b'",', b"")})
    assert "IDX-19" in run(tmp_path).stdout
    write_tree(tmp_path, {INDEX: b'{"metadata":{},"weight_map":{}}'})
    assert run(tmp_path).stdout.count("IDX-19") == len(SHARDS)


DCP = '"__metadata__":{"DCP_SHARDING_INFO":"{}"}'


@pytest.mark.parametrize(
    ("data", "rule", "words"),
    [
        (make("{}"), "FRM-09", "contains no tensors"),
        (make(f'{{"a":{entry("F32", "[0]", "[0,0]")}}}'), "SHP-04", "contains no data"),
        (make(f'{{{DCP},"w":{W}}}', ABCD), "MET-09", "parts of larger tensors"),
    ],
)
def test_a_valid_file_that_may_be_useless_gets_a_note(
    tmp_path: Path, data: bytes, rule: str, words: str
) -> None:
    name = "shard-00000-model-00001-of-00001.safetensors"
    write_tree(tmp_path, {name: data})
    result = run("--sarif", tmp_path / "log", tmp_path)
    assert result.exit_code == 0
    assert words in result.stdout.splitlines()[0]
    assert ("shard-00000-model: whole model" in result.stdout) == (rule != "MET-09")
    (found,) = (found for found in results(load_log(tmp_path / "log")) if found["ruleId"] == rule)
    assert found["level"] == "none"
    file, model = rows(run("--json", tmp_path))
    assert [note["rule"] for note in file["notes"]] == [rule]
    assert model["partial"] == (rule == "MET-09")
    assert run("-q", tmp_path).stdout == ""


def test_a_gap_between_numbered_files_is_noted(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"out-{number:05}.safetensors": VALID for number in (0, 1, 3)})
    result = run(tmp_path)
    assert result.exit_code == 0
    text = 'the numbers in the names have a gap: "out-00002.safetensors" does not exist (IDX-15)'
    assert f"{tmp_path}/out-00003.safetensors: note: {text}" in result.stdout.splitlines()


@pytest.mark.parametrize("damage", [False, True])
def test_blobs_of_a_hub_cache_have_their_digest_as_name(tmp_path: Path, damage: bool) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots"
    for name, data in MODEL.items():
        # git hash-object prints this id; the Hub uses it for files that are not stored in LFS
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        digest = git if name == INDEX else hashlib.sha256(data).hexdigest()
        blob = blobs / digest
        write_tree(blobs, {digest: data.replace(b"abcd", b"abcx") if damage and name == A else data})
        snapshot.mkdir(exist_ok=True)
        (snapshot / name).symlink_to(blob)
    result = run(snapshot, "--digests", "hub")
    assert result.exit_code == int(damage)
    assert (f"{snapshot}/{A}: SHA-256 differs from the Hub cache" in result.stdout) == damage
    counts = f"{3 - damage} as listed, {int(damage)} differs, 0 missing, 0 not listed, 0 unreadable"
    assert result.stderr.endswith(f"digests: {counts}\n")
    if damage:
        index = snapshot / INDEX
        index.resolve().write_bytes(INDEX_TEXT + b" ")
        assert f"{index}: Git object id differs from the Hub cache" in run(index, "--digests", "hub").stdout
        copied = write_tree(tmp_path / "copy", {NAME: VALID}) / NAME
        outside = run(copied, "--digests", "hub")
        assert outside.exit_code == 1
        assert f"{copied}: is not in the Hub cache" in outside.stdout


def test_the_share_of_aligned_tensors_and_bytes(tmp_path: Path) -> None:
    entries = f'"a":{entry("U8", "[64]", "[0,64]")},"b":{entry("U8", "[36]", "[64,100]")}'
    entries += f',"e":{entry("U8", "[0]", "[100,100]")},"c":{entry("U8", "[100]", "[100,200]")}'
    text = "{" + entries + "}"
    data = make(text + " " * (-(len(text) + 8) % 64), bytes(200))
    path = write_tree(tmp_path, {NAME: data}) / NAME
    # a and b begin at multiples of 64, and c begins 100 bytes after one
    assert "; 2 of 3 tensors and 50.0 % of the bytes aligned to 64\n" in run(path, "--alignment", "64").stdout
    share = row(path, "--alignment", "64")["alignment"]["share"]
    assert share == {"boundary": 64, "tensors": 2, "of_tensors": 3, "bytes": 100, "of_bytes": 200}
    audited = read_row(stc_audit(path, "--alignment", "64").stdout.encode())
    assert (audited.aligned_tensors, audited.aligned_bytes) == (2, 100)
    assert "share" not in row(path)["alignment"]
    assert read_row(stc_audit(path).stdout.encode()).aligned_bytes is None
    assert run(path, "--alignment", "0").exit_code == 2


def test_a_folder_with_the_name_hub_does_not_hide_the_keyword(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "hub", {NAME: VALID})
    monkeypatch.chdir(tmp_path)
    assert "digests: " in run("hub", "--digests", "hub").stderr
    empty = run("hub", "--digests", "")
    assert (empty.exit_code, "the name of the file is empty" in empty.stderr) == (2, True)
