"""``stc check`` on the index of a sharded model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from safetensors_reference.model.read import explain_index

from .support import INDEX, harmless, load_log, results, row, run

SHARDS = [f"model-{n:05}-of-00005.safetensors" for n in range(1, 6)]


def write_index(folder: Path, weight_map: dict[str, str], name: str = INDEX) -> Path:
    path = folder / name
    path.write_text(json.dumps({"metadata": {"total_size": 40}, "weight_map": weight_map}))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Five shards with one tensor of eight bytes each, and their index."""
    for number, shard in enumerate(SHARDS):
        save_file({f"t{number}": np.zeros(2, np.float32)}, tmp_path / shard)
    return write_index(tmp_path, {f"t{n}": shard for n, shard in enumerate(SHARDS)})


def test_a_valid_index(model: Path) -> None:
    result = run(model)
    assert result.stdout == f"{model}: valid, 5 tensors in 5 shards, 40 bytes of data\n"
    assert (result.stderr, result.exit_code) == ("", 0)
    told = row(model)
    values = {"valid": True, "kind": "index", "tensors": 5, "shards": 5, "data_size": 40, "complete": True}
    assert {name: told[name] for name in values} == values
    assert (told["file"], told["size"]) == (str(model), model.stat().st_size)
    empty = ("header_length", "alignment", "looks_like", "faults", "tolerated", "notes")
    assert not any(told[name] for name in empty)
    assert row(model.parent / SHARDS[0])["kind"] == "file"


def test_faults_of_an_index_show_its_own_bytes(model: Path) -> None:
    (model.parent / SHARDS[2]).unlink()
    faults = explain_index(model).faults
    assert [f.code for f in faults] == ["IDX_SHARD_MISSING"]
    result = run(model)
    assert result.exit_code == 1
    assert f"{model}: 1 fault" in result.stdout
    assert "IDX-08 (must)" in result.stdout
    text = model.read_bytes()[faults[0].start : faults[0].end].decode()
    assert text == f'"{SHARDS[2]}"'
    assert "^^" in result.stdout
    told = row(model)
    assert (told["valid"], told["tensors"], told["data_size"], told["shards"]) == (False, None, None, 4)
    assert told["faults"] == [f.to_dict() for f in faults]


def test_an_index_with_too_many_faults_says_so(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors_reference.model.index.FAULT_LIMIT", 2)
    write_index(model.parent, {f"x{n}": f"{n}.bin" for n in range(9)})
    assert "the reader stopped here" in run(model).stdout
    assert row(model)["complete"] is False


def test_a_profile_holds_for_the_shards_of_an_index(model: Path) -> None:
    shard = model.parent / SHARDS[0]
    data = shard.read_bytes()
    length = int.from_bytes(data[:8], "little") + 1
    shard.write_bytes(length.to_bytes(8, "little") + b" " + data[8:])
    assert run(model).exit_code == 1
    official = run("--profile", "official", model)
    assert official.exit_code == 0
    assert f"{model}: note: " in official.stdout
    assert "HDR-02, tolerated by profile official" in official.stdout


def test_notes_are_printed_bounded_and_complete_in_json(model: Path, tmp_path: Path) -> None:
    """The snapshots in a cache of the Hub hold nothing but links."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for name in (*SHARDS, INDEX):
        (snapshot / name).symlink_to(Path("..") / name)
    result = run(snapshot / INDEX)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.endswith("(IDX-06)") for line in lines] == [True] * 4 + [False]
    assert "… and 2 more of this kind" in lines[3]
    notes = row(snapshot / INDEX)["notes"]
    assert [note["rule"] for note in notes] == ["IDX-06"] * 5
    assert notes[0]["path"] == "$['weight_map']['t0']"
    assert run("-q", snapshot / INDEX).stdout == ""
    assert set(notes[0]) == {"rule", "message", "start", "end", "path"}
    assert model.read_bytes()[notes[0]["start"] : notes[0]["end"]].decode() == f'"{SHARDS[0]}"'
    for shard in SHARDS[:2]:
        (snapshot / shard).unlink()
        (tmp_path / shard).rename(snapshot / shard)
    (snapshot / SHARDS[2]).unlink()
    result = run("--sarif", tmp_path / "out.sarif", snapshot / INDEX)
    assert "of this kind" not in result.stdout
    fault, *others = results(load_log(tmp_path / "out.sarif"))
    assert (fault["ruleId"], fault["level"]) == ("IDX-08", "error")
    assert {(r["ruleId"], r["kind"], r["level"]) for r in others} == {("IDX-06", "informational", "none")}
    region = others[0]["locations"][0]["physicalLocation"]["region"]
    start, length = region["byteOffset"], region["byteLength"]
    assert model.read_bytes()[start : start + length].decode() == f'"{SHARDS[3]}"'
    assert len({json.dumps(r["partialFingerprints"]) for r in (fault, *others)}) == 3


@pytest.mark.parametrize("name", ["../a\x1b[31m.safetensors", "\u202ex", "a\nb.safetensors", "[red]x"])
def test_what_an_index_names_reaches_the_terminal_escaped(tmp_path: Path, name: str) -> None:
    missing = run(tmp_path / INDEX)
    assert (missing.exit_code, missing.stderr.startswith(f"{tmp_path / INDEX}: ")) == (2, True)
    result = run(write_index(tmp_path, {name: name}))
    assert result.exit_code == 1
    assert harmless(result.output)


@pytest.mark.parametrize("name", [INDEX, "other.index.json"])
def test_an_index_is_told_by_the_end_of_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    assert row(tmp_path / name)["faults"][0]["code"] == "IDX_NO_WEIGHT_MAP"
    (tmp_path / "x.json").write_text("{}")
    assert row(tmp_path / "x.json")["faults"][0]["code"] == "FRM_TOO_SHORT"
