"""``stc check`` against a list of digests, and what it writes about them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from safetensors_reference.check import digests
from safetensors_reference.source import UnreadableError

from ..audit.support import write_tree
from ..support import ABCD, W, make
from .support import BROKEN, VALID, rows, run

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
    with pytest.raises(UnreadableError, match="changed while it was being checked"):
        digests.sha256_of(str(folder / "a.safetensors"), state)


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
