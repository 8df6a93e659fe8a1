"""``stc check`` judges a model of several files and its index as one, and tells every fault in every form."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from safetensors_reference.check.result import check_input
from safetensors_reference.files.names import shard_name
from safetensors_reference.files.walk import find_inputs

from ..audit.support import BROKEN, VALID, stc_audit, write_tree
from ..support import ABCD, W, make
from .support import INDEX, load_log, results, row, rows, run, write_model

ROOT = Path(__file__).parents[3]
A, B, C = (shard_name("model", n, 3) for n in (1, 2, 3))
WHOLE = "whole model, 3 tensors in 3 files, 12 bytes of data"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder of a whole model."""
    return write_model(tmp_path / "llama", 3).parent


def last(result: Result) -> str:
    return result.stdout.splitlines()[-1]


def test_files_are_a_model_only_together(model: Path, tmp_path: Path) -> None:
    result = run(model)
    assert result.exit_code == 0
    assert last(result) == f"{model}/model: {WHOLE}"
    assert len(result.stdout.splitlines()) == 5
    assert "whole" not in run(*model.iterdir()).output
    (tmp_path / "other").mkdir()
    for stem in ("\x1b[2J", "\udcff"):
        (tmp_path / "other" / shard_name(stem, 1, 2)).write_bytes((model / A).read_bytes())
    result = run("--json", tmp_path)
    found = rows(result, "model")
    assert [(row["model"].removeprefix(f"{tmp_path}/"), row["valid"]) for row in found] == [
        ("llama/model", True),
        ("other/\x1b[2J", False),
        ("other/\udcff", False),
    ]
    kinds = [row.get("kind") for row in rows(result)]
    assert kinds[:5] == ["file", "file", "file", "index", "model"]
    output = run(tmp_path).output
    assert output.isascii()
    assert "\x1b" not in output


@pytest.mark.parametrize("cut", [False, True])
def test_a_fault_of_a_shard_that_an_index_names_is_told_once(model: Path, cut: bool) -> None:
    # vllm #34930, #34967 and #38336, sglang #32279: the index names a shard that is absent.
    # sglang #13870, vmlx-swift #217: a download that broke off.
    data = (model / B).read_bytes()
    (model / B).unlink()
    if cut:
        (model / B).write_bytes(data[:-2])
    result = run(model)
    assert result.stdout.count("IDX_SHARD_MISSING") == int(not cut)
    assert last(result) == f"{model}/model: model is not whole: 1 fault (all listed above with their files)"
    code = "OFF_OUT_OF_BOUNDS" if cut else "IDX_SHARD_MISSING"
    assert run("-q", model).stdout.splitlines()[-1].startswith(f"{model}/{INDEX}: 1 fault: {code}")
    (row,) = rows(run("--json", model), "model")
    assert all(finding["inner"] for finding in row["findings"])


def test_each_shard_is_read_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def counting(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(os.path.basename(str(path)))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", counting)
    assert run(model).exit_code == 0
    assert sorted(name for name in opened if "model" in name) == [A, B, C, INDEX]


def test_json_of_a_model(model: Path) -> None:
    (model / "model.safetensors").write_bytes((model / A).read_bytes())
    (row,) = rows(run("--json", model), "model")
    (note,) = row.pop("findings")
    assert row == {
        "model": f"{model}/model",
        "kind": "model",
        "readable": True,
        "valid": True,
        "profile": "hardened",
        "index": INDEX,
        "shards": 3,
        "tensors": 3,
        "data_size": 12,
        "partial": False,
        "complete": True,
        "unread": {},
    }
    assert (note["kind"], note["file"], note["rule"]) == ("note", "model.safetensors", "IDX-15")
    assert "1 of its tensors" in note["message"]


def test_a_model_without_an_index_lacks_its_missing_shards(model: Path, tmp_path: Path) -> None:
    (model / INDEX).unlink()
    (model / B).unlink()
    result = run(model)
    assert result.exit_code == 1
    told = f"{model}/model: model is not whole: 1 fault"
    assert [part for part in (told, "IDX_SHARD_MISSING", f"where  {B}") if part not in result.stdout] == []
    assert result.stderr.endswith("; 1 model: 0 whole, 1 not whole, 0 unknown\n")
    assert run("-q", model).stdout == f"{told}: IDX_SHARD_MISSING\n"
    (model / C).write_bytes(make(f'{{"t0":{W}}}', ABCD))
    out = tmp_path / "out.sarif"
    assert run("--sarif", out, model).exit_code == 1
    found = results(load_log(out))
    places = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in found]
    assert [r["ruleId"] for r in found] == ["IDX-11", "IDX-08", "IDX-15"]
    assert [*map(os.path.basename, places)] == [C, B, A]


def test_an_index_that_cannot_be_read_leaves_it_open(model: Path) -> None:
    (model / INDEX).unlink()
    (model / INDEX).symlink_to("nowhere")
    result = run(model)
    assert result.exit_code == 2
    assert f"{model}/model: cannot tell whether the model is whole: {INDEX}: No such file" in result.stderr
    (row,) = rows(run("--json", model), "model")
    assert (row["readable"], row["valid"], list(row["unread"])) == (False, False, [INDEX])


def test_an_index_finds_its_shards_whatever_its_name_is(model: Path) -> None:
    (model / INDEX).rename(model / "weights.safetensors.index.json")
    assert last(run(model)) == f"{model}/weights: {WHOLE}"
    # The variant of an index is part of the stem of its shards.
    for name in (A, B, C):
        (model / name).rename(model / name.replace("model-", "model.fp16-"))
    text = (model / "weights.safetensors.index.json").read_text().replace("model-", "model.fp16-")
    (model / "weights.safetensors.index.json").unlink()
    (model / "model.safetensors.index.fp16.json").write_text(text)
    assert last(run(model)) == f"{model}/model.fp16: {WHOLE}"


def test_a_file_that_was_given_before_counts_for_the_model(model: Path) -> None:
    assert last(run(model / B, model)) == f"{model}/model: {WHOLE}"
    (model / INDEX).unlink()
    assert last(run(model / B, model)) == f"{model}/model: {WHOLE}"


@pytest.mark.parametrize("area", ["index", "sharded"])
@pytest.mark.by_day(1)
def test_files_are_answered_as_when_they_are_alone(area: str, tmp_path: Path) -> None:
    copied = tmp_path / area
    shutil.copytree(ROOT / "corpus" / "files" / area, copied, symlinks=True)
    lines = run("--json", copied).stdout.splitlines()
    told = [line for line in lines if '"kind": "model"' not in line]
    alone = [check_input(item, "hardened").to_json() for item in find_inputs([str(copied)])]
    assert told == alone
    assert len(lines) > len(told) > 20


SHARDS = [shard_name("model", n, 5) for n in range(1, 6)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return write_model(tmp_path, 5)


def test_a_valid_index(index: Path) -> None:
    result = run(index)
    assert (result.exit_code, result.output) == (
        0,
        f"{index}: valid, 5 tensors in 5 shards, 20 bytes of data\n",
    )
    told = row(index)
    values = {"valid": True, "kind": "index", "tensors": 5, "shards": 5, "data_size": 20, "complete": True}
    values |= {"file": str(index), "size": index.stat().st_size}
    values |= dict.fromkeys(("header_length", "alignment", "looks_like"))
    assert {name: told[name] for name in values} == values
    assert [told["faults"], told["tolerated"], told["notes"]] == [[], [], []]


def test_faults_of_an_index_show_its_own_bytes(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (index.parent / SHARDS[2]).unlink()
    told, out = row(index), run(index).stdout
    assert (told["valid"], told["tensors"], told["data_size"], told["shards"]) == (False, None, None, 4)
    (fault,) = told["faults"]
    assert (fault["code"], fault["path"]) == ("IDX_SHARD_MISSING", "$['weight_map']['t2']")
    assert index.read_bytes()[fault["start"] : fault["end"]].decode() == f'"{SHARDS[2]}"'
    assert [part for part in (f"{index}: 1 fault", "IDX-08 (must)", "^^") if part not in out] == []
    monkeypatch.setattr("safetensors_reference.model.index.FAULT_LIMIT", 2)
    index.write_text(json.dumps({"weight_map": {f"x{n}": f"{n}.bin" for n in range(9)}}))
    assert "the reader stopped here" in run(index).stdout
    assert row(index)["complete"] is False


def test_notes_are_printed_bounded_and_complete_in_json(index: Path, tmp_path: Path) -> None:
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
    assert index.read_bytes()[notes[0]["start"] : notes[0]["end"]].decode() == f'"{SHARDS[0]}"'
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
    assert index.read_bytes()[start : start + length].decode() == f'"{SHARDS[3]}"'
    assert len({json.dumps(r["partialFingerprints"]) for r in (fault, *others)}) == 3


INDEXES = ("m.safetensors.index.json", "m.safetensors.index.fp16.json", "m.fp16.safetensors.index.json")
DIGESTS = ("digest-differs", "digest-missing", "digest-not-listed")
FAULTS = ("file", "index", "shard-broken", "shard-missing", "tensor-elsewhere", "numbered", *DIGESTS)


def broken_model(folder: Path, index: str, fault: str) -> list[str]:
    """Write a model with one fault, and return the options under which it shows."""
    first, second = (shard_name("m.fp16" if "fp16" in index else "m", n, 2) for n in (1, 2))
    other = make(f'{{"v":{W}}}', ABCD)
    files = {first: VALID, second: other}
    files[index] = json.dumps({"weight_map": {"w": first, "v": second}}).encode()
    if fault == "file":
        files["x.safetensors"] = BROKEN
    elif fault == "index":
        files[index] = b"[]"
    elif fault == "shard-broken":
        files[second] = BROKEN
    elif fault == "tensor-elsewhere":
        files[second] = make(f'{{"u":{W}}}', ABCD)
    elif fault in ("shard-missing", "numbered"):
        del files[second]
    if fault == "numbered":
        del files[index]
    write_tree(folder, files)
    if not fault.startswith("digest"):
        return []
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if fault == "digest-not-listed":
        del digests[index]
    else:
        digests[index if fault == "digest-differs" else "gone.bin"] = "0" * 64
    (folder / "SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    return ["--digests", str(folder / "SUMS")]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_fault_is_told_in_every_form(index: str, fault: str, tmp_path: Path) -> None:
    model, sarif, intoto = tmp_path / "model", tmp_path / "x.sarif", tmp_path / "x.intoto.json"
    options = broken_model(model, index, fault)
    for form in ((), ("--quiet",), ("--json",)):
        done = run(*form, model, *options)
        assert (done.exit_code, bool(done.stdout)) == (1, True), form
    run("-q", model, *options, "--sarif", sarif, "--intoto", intoto)
    assert [r for r in results(load_log(sarif)) if r["level"] in ("error", "warning")]
    predicate = json.loads(intoto.read_bytes())["predicate"]
    assert (predicate["result"], bool(predicate["failedTests"])) == ("FAILED", True)
    if not options and fault != "numbered":  # an audit has no row for a model without an index
        done = stc_audit(model)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.exit_code, "invalid" in {row["verdict"] for row in rows}) == (1, True)
        assert "model" in {row.get("kind") for row in rows}
