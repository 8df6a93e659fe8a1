"""``stc check`` on the index of a sharded model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from safetensors_reference.files.names import shard_name

from .support import INDEX, load_log, results, row, run, write_model

SHARDS = [shard_name("model", n, 5) for n in range(1, 6)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path, 5)


def test_a_valid_index(model: Path) -> None:
    result = run(model)
    assert (result.exit_code, result.output) == (
        0,
        f"{model}: valid, 5 tensors in 5 shards, 20 bytes of data\n",
    )
    told = row(model)
    values = {"valid": True, "kind": "index", "tensors": 5, "shards": 5, "data_size": 20, "complete": True}
    values |= {"file": str(model), "size": model.stat().st_size}
    values |= dict.fromkeys(("header_length", "alignment", "looks_like"))
    assert {name: told[name] for name in values} == values
    assert [told["faults"], told["tolerated"], told["notes"]] == [[], [], []]


def test_faults_of_an_index_show_its_own_bytes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model.parent / SHARDS[2]).unlink()
    told, out = row(model), run(model).stdout
    assert (told["valid"], told["tensors"], told["data_size"], told["shards"]) == (False, None, None, 4)
    (fault,) = told["faults"]
    assert (fault["code"], fault["path"]) == ("IDX_SHARD_MISSING", "$['weight_map']['t2']")
    assert model.read_bytes()[fault["start"] : fault["end"]].decode() == f'"{SHARDS[2]}"'
    assert [part for part in (f"{model}: 1 fault", "IDX-08 (must)", "^^") if part not in out] == []
    monkeypatch.setattr("safetensors_reference.model.index.FAULT_LIMIT", 2)
    model.write_text(json.dumps({"weight_map": {f"x{n}": f"{n}.bin" for n in range(9)}}))
    assert "the reader stopped here" in run(model).stdout
    assert row(model)["complete"] is False


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
