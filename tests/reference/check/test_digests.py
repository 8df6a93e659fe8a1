"""``stc check`` against lists of digests, and what it says about the neighbours of a file."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from safetensors_reference.check import digests

from ..audit.support import INDEX as INDEX_TEXT
from ..audit.support import MODEL, SHARDS, read_row, stc_audit, write_tree
from ..support import ABCD, W, entry, make
from .support import BROKEN, INDEX, VALID, harmless, load_log, results, row, rows, run

OTHER = make(f'{{"v":{W}}}', ABCD)
SHA = {data: hashlib.sha256(data).hexdigest() for data in (VALID, OTHER, BROKEN)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {"a.safetensors": VALID, "b.safetensors": OTHER, "config.json": b"{}"}
    return write_tree(tmp_path / "m", files)


def write(folder: Path, **listed: str) -> Path:
    path = folder / "SHA256SUMS"
    path.write_text("".join(f"{digest}  {name.replace('_', '.')}\n" for name, digest in listed.items()))
    return path


CONFIG = hashlib.sha256(b"{}").hexdigest()
ALL = {"a_safetensors": SHA[VALID], "b_safetensors": SHA[OTHER], "config_json": CONFIG}


@pytest.mark.parametrize(
    ("data", "listed", "status"), [(VALID, VALID, 0), (VALID, OTHER, 1), (BROKEN, BROKEN, 1)]
)
def test_a_file_is_compared_whatever_else_is_wrong_with_it(
    folder: Path, data: bytes, listed: bytes, status: int
) -> None:
    (folder / "a.safetensors").write_bytes(data)
    sums = write(folder, **ALL | {"a_safetensors": SHA[listed]})
    result = run(folder, "--digests", sums, "--intoto", folder / "out.json")
    assert result.exit_code == status
    differs = int(data != listed)
    counts = f"digests: {3 - differs} as listed, {differs} differs, 0 missing, 0 not listed, 0 unreadable\n"
    assert result.stderr.endswith(counts)
    # vllm #53537: the SHA-256 differed, and the model was served.
    text = f"SHA-256 differs from the list: the file has {SHA[data]}, the list has {SHA[listed]}"
    assert (f"{folder}/a.safetensors: {text}" in result.stdout.splitlines()) == bool(differs)
    predicate = json.loads((folder / "out.json").read_bytes())["predicate"]
    assert predicate["result"] == ("FAILED" if status else "PASSED")
    assert (f"{folder}/a.safetensors" in predicate["failedTests"]) == bool(status)


def test_missing_and_unlisted_files(folder: Path) -> None:
    listed = write(folder, a_safetensors=SHA[VALID], gone_safetensors=SHA[VALID])
    result = run(folder, "--digests", listed)
    assert result.exit_code == 1
    assert f"{folder}/b.safetensors: is not in the list of digests" in result.stdout
    assert "gone.safetensors: is in the list of digests, but does not exist" in result.stdout
    found = rows(run("--json", folder, "--digests", listed), "digest")
    assert {row["digest"].rpartition("/")[2]: row["answer"] for row in found} == {
        "a.safetensors": "as listed",
        "b.safetensors": "not listed",
        "gone.safetensors": "missing",
    }


@pytest.mark.parametrize("start", ["", "m/"])
def test_names_count_from_the_list_or_from_here(folder: Path, start: str) -> None:
    listed = (folder if not start else folder.parent) / "list"
    listed.write_text(f"{SHA[VALID]} *{start}a.safetensors\n{SHA[OTHER].upper()}  {start}b.safetensors\r\n\n")
    assert run("m", "--digests", listed).exit_code == 0


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname"])
def test_a_name_that_leads_out_is_not_opened(folder: Path, name: str) -> None:
    (folder.parent / "secret").write_bytes(VALID)
    (folder / "list").write_text(f"{SHA[VALID]}  {name}\n")
    result = run(folder, "--digests", folder / "list")
    assert result.exit_code == 2
    text = "its SHA-256 could not be computed: the name refers to a file outside the folder"
    assert f"{name}: {text}" in result.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "contains no digest"),
        ("abc  a.safetensors\n", 'line 1: "abc  a.safetensors" does not look like sha256sum output'),
        (f"{'0' * 64}  a\n{'1' * 64}  a\n", 'line 2: "a" appears again with a different SHA-256'),
        (f"SHA256 (a) = {'0' * 64}\n", "line 1: "),
    ],
)
def test_a_list_of_another_form_is_refused(folder: Path, text: str, why: str) -> None:
    (folder / "list").write_text(text)
    result = run(folder, "--digests", folder / "list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
    result = run(folder, "--digests", "nowhere")
    assert result.exit_code == 2
    assert result.stderr == "--digests nowhere: No such file or directory (IO_ERROR)\n"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_the_list_of_the_real_program(folder: Path) -> None:
    (folder / "od\nd\\\r\\n.safetensors").write_bytes(VALID)
    names = sorted(path.name for path in folder.iterdir())
    made = subprocess.run(["sha256sum", *names], cwd=folder, capture_output=True, check=True).stdout
    (folder / "list").write_bytes(made)
    result = run(folder, "--digests", folder / "list")
    assert result.exit_code == 0, result.output
    assert "digests: 4 as listed" in result.stderr


def test_a_file_that_changes_meanwhile_is_not_vouched_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = digests.state_of(str(folder / "a.safetensors"))
    (folder / "a.safetensors").write_bytes(VALID + b"!")
    digest, why = digests.digest_of(str(folder / "a.safetensors"), state)
    assert (digest, why) == (None, "the file changed while it was being checked")


def test_statement(folder: Path) -> None:
    out = folder / "out.json"
    assert run(folder, "--intoto", out).exit_code == 0
    told = json.loads(out.read_bytes())
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    names = [f"{folder}/a.safetensors", f"{folder}/b.safetensors"]
    shas = [SHA[VALID], SHA[OTHER]]
    assert [(s["name"], s["digest"]["sha256"]) for s in told["subject"]] == [*zip(names, shas, strict=True)]
    predicate = told["predicate"]
    assert (predicate["result"], predicate["passedTests"]) == ("PASSED", names)
    assert predicate["configuration"][1]["annotations"]["profile"] == "hardened"
    (folder / "a.safetensors").write_bytes(BROKEN)
    (folder / "b.safetensors").unlink()
    (folder / "b.safetensors").symlink_to("nowhere")
    assert run(folder, "--intoto", out).exit_code == 2
    told = json.loads(out.read_bytes())
    assert [s["digest"]["sha256"] for s in told["subject"]] == [SHA[BROKEN]]
    assert (told["predicate"]["result"], told["predicate"]["failedTests"]) == ("FAILED", names)
    result = run(folder / "nothing.safetensors", "--intoto", folder / "new.json")
    assert result.exit_code == 2
    assert "not written: a statement needs at least one file, but none could be read" in result.stderr
    assert not (folder / "new.json").exists()


def test_bill_of_materials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cyclonedx")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    (folder / "m-00001-of-00001.safetensors").write_bytes(VALID)
    for name in ("one.json", "two.json"):
        assert run(folder, "--cyclonedx", folder / name).exit_code == 0
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()
    told = json.loads((folder / "one.json").read_bytes())
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert told["metadata"]["timestamp"].startswith("1970-01-01T00:00:01")
    kinds = {c["name"].rpartition("/")[2]: (c["type"], c.get("hashes")) for c in told["components"]}
    one = [{"alg": "SHA-256", "content": SHA[VALID]}]
    assert kinds["a.safetensors"] == ("machine-learning-model", one)
    assert kinds["m"] == ("machine-learning-model", None)
    (folder / "m-00001-of-00001.safetensors").rename(folder / "m-00001-of-00002.safetensors")
    assert run(folder, "--cyclonedx", folder / "two.json").exit_code == 1
    assert '"value": "invalid"' in (folder / "two.json").read_text()
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    (model,) = [c for c in told["components"] if c["name"] == f"{folder}/m"]
    assert [(c["type"], c["hashes"]) for c in model["components"]] == [("file", one)]
    try:
        validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
        assert validator.validate_str((folder / "one.json").read_text()) is None
    except validation.MissingOptionalDependencyException as err:  # schemas need an extra of the library
        pytest.skip(str(err))


@pytest.mark.parametrize("option", ["--intoto", "--cyclonedx", "--sarif"])
def test_no_model_is_overwritten_and_what_cannot_be_written_is_one_line(folder: Path, option: str) -> None:
    for name, kind in (("a.safetensors", "a model file"), ("model.safetensors.index.json", "an index")):
        result = run(folder, option, folder / name)
        assert result.exit_code == 2
        assert f"would overwrite {kind}" in result.stderr
    assert (folder / "a.safetensors").read_bytes() == VALID
    assert not (folder / "model.safetensors.index.json").exists()
    result = run(folder, option, folder / "no\x1b" / "out.json")
    assert result.exit_code == 2
    assert "/out.json: not saved: No such file or directory (IO_ERROR)\n" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("option", ["--digests", "--intoto", "--cyclonedx"])
def test_digests_are_of_files_on_this_machine(folder: Path, option: str) -> None:
    result = run("hf://org/model", option, folder / "x.json")
    assert result.exit_code == 2
    assert "this option reads whole files, so it works only for local files" in result.stderr


def test_without_the_library_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    done = run(folder, "--cyclonedx", "out.json")
    assert done.exit_code == 2
    assert "--cyclonedx needs the sbom extra: pip install 'safetensors-conformance[sbom]'" in done.stderr


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
