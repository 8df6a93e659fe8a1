"""A manifest that anybody may have written: it is refused before anything is read, written or made."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus import ManifestError, load_manifest, recipe
from safetensors_corpus.document import FILES, RECIPES, action_faults, faults, path_fault

from .small import case_of, edit, run, save

Raw = dict[str, Any]
COMMANDS = (("list",), ("stats",), ("show", "framing/plain"), ("copy", "OUT"))


def put(value: Any, path: Sequence[Any], new: Any) -> None:
    """Replace what lies at a path in nested lists and objects."""
    *above, last = path
    for key in above:
        value = value[key]
    value[last] = new


def refused(folder: Path, how: Callable[[Raw], object]) -> str:
    """Change the manifest; return why it is not loaded."""
    edit(folder, how)
    with pytest.raises(ManifestError) as caught:
        load_manifest(folder)
    message = str(caught.value)
    assert str(folder / "corpus.json") in message
    assert message.isprintable()
    return message


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_what_is_not_loaded(folder: Path, command: tuple[str, ...]) -> None:
    message = refused(folder, lambda raw: case_of(raw, "framing/plain")["input"].update(file="../x"))
    words = [str(folder.parent / word) if word == "OUT" else word for word in command]
    said = run(*words, "-c", folder, status=2 if command[0] == "copy" else 1, err=message).stderr
    assert said.count("\n") == 1
    assert sorted(path.name for path in folder.parent.iterdir()) == ["corpus"]


PATHS = [
    "../x", "x/../../y", "/etc/hostname", "files/../x", "files\\..\\x", "C:/x", "//host/x", "files//x",
    "x.safetensors", "files/.git/hooks/post-checkout", "files/.git/config.json", "files/conftest.py",
    "files/sitecustomize.py", "files/x.pth", "files/Makefile", "files/a\0b.json", "files/a\nb.json",
    "files/\x1b[2J.json", "files/a\u202eb.json", "files/\ud800.json", "files/CON.json", "files/x.json ",
    "files/-rf.json", "files/x.json.", "files/a:stream.json", "files/" + "n" * 300 + ".json", "files/", "",
    "corpus.json", "schema/corpus.schema.json",
]  # fmt: skip


def test_a_stored_file_lies_below_files_and_is_nothing_that_is_run(folder: Path) -> None:
    for name in PATHS:
        message = refused(folder, partial(put, path=["cases", 0, "input", "file"], new=name))
        assert "case framing/plain names a file" in message, name


def test_a_file_of_a_folder_stays_in_its_folder(folder: Path) -> None:
    def how(raw: Raw) -> None:
        given = case_of(raw, "index/absolute")["input"]
        given["files"][0].update(path=name, recipe=parts)
        given["open"] = name

    leaves = "../absolute/model/model.safetensors.index.json"  # the folder of the case, but not the corpus
    for name in [leaves, *(n.removeprefix("files/") for n in PATHS if n.startswith(("files/.", "../")))]:
        for parts in (None, [{"zeros": 8}]):
            assert "case index/absolute names a file" in refused(folder, how), (name, parts)


def test_paths_of_the_corpus_are_all_permitted() -> None:
    manifest = load_manifest()
    assert list(faults(manifest.raw, manifest.root)) == []
    largest = max(case.size for case in manifest.cases)
    assert largest * 2 > recipe.LARGEST_FILE > largest  # as low as the cases allow, by powers of two


@given(st.text("./\\:a-\0\n ", max_size=12) | st.text(max_size=12))
def test_what_is_permitted_stays_below_on_every_system(name: str) -> None:
    if path_fault(f"{name}.json", FILES, RECIPES) is None:
        path = Path(f"{name}.json")
        assert os.path.normpath(path) == str(path)
        assert path.parts[0] in (FILES, RECIPES)
        assert not set(name) & set("\\:")
        assert not any(part.startswith(".") for part in path.parts)


@pytest.mark.parametrize("target", ["/etc/hostname", "/dev/zero", "../../../../outside.safetensors"])
@pytest.mark.parametrize("whole_folder", [False, True])
def test_no_link_leads_out(folder: Path, target: str, whole_folder: bool) -> None:
    place = folder / "files/framing/plain.safetensors"
    (folder.parent.parent / "outside.safetensors").write_bytes(place.read_bytes())
    place.unlink()
    if whole_folder:
        place.parent.rmdir()
    (place.parent if whole_folder else place).symlink_to("/etc" if whole_folder else target)
    assert "case framing/plain names a file that a link places outside" in refused(folder, lambda _: None)


def test_a_link_inside_of_the_corpus_is_no_matter(folder: Path) -> None:
    place = folder / "files/framing/plain.safetensors"
    place.rename(folder / "files/framing/other.safetensors")
    place.symlink_to("other.safetensors")
    assert load_manifest(folder).by_id["framing/plain"].read_input()


@pytest.mark.parametrize("name", ["framing/plain.safetensors", "index/absolute/model/one.safetensors"])
def test_only_regular_files_are_opened(folder: Path, name: str) -> None:
    manifest = load_manifest(folder)
    (folder / "files" / name).unlink()
    os.mkfifo(folder / "files" / name)
    assert "other than a regular file" in refused(folder, lambda _: None)
    run("verify", folder, status=1, out="other than a regular file")
    (touched,) = (c for c in manifest.cases if name.startswith(c.id))
    with pytest.raises((ManifestError, OSError), match="not a regular file"):
        touched.set_up(folder.parent)


HUGE = [
    {"repeat": {"text": "x"}, "count": 10**15},
    {"repeat": {"hex": ""}, "count": 10**15},
    {"each": "", "count": 10**15},
    {"each": "x" * 10**6, "count": 1},
    {"zeros": 10**15},
    {"each": "{i}", "count": 1, "first": 10**40},
    {"repeat": {"text": "x" * 1000}, "count": 1 << 20},
    {"repeat": {"text": "x"}, "count": True},
    {"repeat": 7, "count": 1},
    {"text": 7},
    7,
]


@pytest.mark.by_day(11)
@pytest.mark.parametrize("part", HUGE)
@pytest.mark.parametrize(
    ("case_id", "path", "field"),
    [
        ("resource/header", ["input", "recipe"], "input.recipe"),
        ("writer/link", ["action", "storages", "memory"], "action.storages"),
        ("lifecycle/all", ["action", "script", 2, "bytes"], "action.script"),
        ("framing/plain", ["expect", "content", "tensors", 0, "name"], "a string in expect that cannot"),
    ],
)
def test_sizes_come_before_files(folder: Path, part: Any, case_id: str, path: list[Any], field: str) -> None:
    def how(raw: Raw) -> None:
        put(case_of(raw, case_id), path, {"parts": [part]} if path[0] == "expect" else [part])

    began = time.process_time()
    message = refused(folder, how)
    assert f"case {case_id} has {field}" in message
    assert run("verify", folder, "--heavy").exit_code == 1
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda r: r.pop("cases"), "(it has no cases); run: stc corpus build"),
        (lambda r: r.pop("schema_version"), "KeyError: 'schema_version'"),
        (lambda r: r.pop("corpus_version"), "it has no corpus_version"),
        (lambda r: r.update(cases=[7]), "case number 0 must be an object, not 7"),
        (lambda r: r["cases"][0].pop("id"), "case number 0 has no id"),
        (lambda r: r["cases"][0].pop("input"), "has no input"),
        (lambda r: r["cases"][0].update(expect={}), "has no expect.outcome"),
        (lambda r: r["cases"][0].update(input=7), "has input 7"),
        (lambda r: r["cases"][0].update(expect=7), "has expect 7"),
        (lambda r: r["spec"].update(repository="javascript:x"), "has spec.repository 'javascript:x'"),
        (lambda r: r["cases"].append(r["cases"][0]), "case framing/plain appears twice"),
        (lambda r: r["cases"][0].update(id="../x"), "case number 0 has id '../x'"),
        (lambda r: r["cases"][0].update(id="framing/plain\n"), "case number 0 has id"),
        (lambda r: r["cases"][0].update(budget={"seconds": "x"}), "has budget[...]"),
        (lambda r: r["cases"][0]["input"].update(size=-1), "has input.size -1"),
        (lambda r: r["cases"][0]["input"].update(sha256="0"), "has input.sha256 '0'"),
        (lambda r: r["cases"][0]["expect"].update(content=None), "has expect.content null"),
        (lambda r: r["cases"][0]["expect"]["content"].update(metadata=[1]), "has expect.content.metadata"),
        (lambda r: r["cases"][0].update(expect={"choice": "x", "options": {}}), "has expect.options"),
        (lambda r: case_of(r, "index/absolute")["input"].update(open="x.json"), "has input.open 'x.json'"),
        (lambda r: case_of(r, "index/absolute")["input"].update(files=[]), "has input.files"),
        (
            lambda r: (given := case_of(r, "index/absolute")["input"]).update(files=2 * given["files"]),
            "has the same path twice in input.files",
        ),
        (lambda r: case_of(r, "slice/part").pop("action"), "case slice/part has no action"),
        (lambda r: case_of(r, "writer/link")["action"].update(do="slice"), "has an action that is not write"),
        (lambda r: case_of(r, "writer/link")["action"]["tensors"][0].update(storage="x"), "storage 'x'"),
        (lambda r: case_of(r, "lifecycle/all")["action"]["script"][0].update(step="rm"), "step 'rm'"),
        (lambda r: case_of(r, "concurrent/all")["action"].update(by="fibres"), "has action.by 'fibres'"),
        (lambda r: case_of(r, "concurrent/all")["action"].update(times=10**9), "has action.times"),
        (lambda r: case_of(r, "concurrent/all")["action"].update(readers=[]), "has action.readers"),
        (lambda r: case_of(r, "concurrent/all")["action"].update(closed=1), "continues to read a file that"),
        (lambda r: case_of(r, "concurrent/all")["action"].update(opened="each"), "opens for itself"),
        (lambda r: case_of(r, "metadata/null")["expect"].update(choice="no"), "the unknown choice 'no'"),
        (lambda r: r.update(corpus_version="1\x1b[2J"), "has corpus_version"),
        (lambda r: r["field_bugs"][0].update(trigger="\x1b[31m"), "unprintable characters in 'field_bugs'"),
        (lambda r: r["codes"].update({"a\n::error::b": ""}), "unprintable characters in 'codes'"),
        (lambda r: r["cases"][0].update(title="a\n::error::b"), "characters in its description"),
        (
            lambda r: r["cases"][0].update(expect={"choice": "x", "options": {"\x9b": 1}}),
            "characters in the name of an option",
        ),
    ],
)
def test_wrong_types_are_one_clear_error(folder: Path, how: Callable[[Raw], object], words: str) -> None:
    assert words in refused(folder, how)


def test_repeated_requests_for_an_open_file_follow_its_opening() -> None:
    for requests, why in (
        (["read"], None),
        (["hold", "hold", "tensor", "read", "tensor", "close", "hold"], None),
        (["tensor"], "tensor"),
        (["hold", "close", "tensor"], "tensor"),
        (["hold", "close", "read", "close"], "close"),
    ):
        action = {"do": "repeated", "requests": requests, "times": 100, "tensor": "w"}
        reason = f"has an action that requests {why} while the file is not open"
        assert list(action_faults("repeated", action)) == ([reason] if why else []), requests


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "9" * 5000, "1e999", "NaN", "[" * 900 + "]" * 900, '{"a":' * 200 + "1" + "}" * 200],
    ids=range(6),
)
@pytest.mark.parametrize("where", ["cases", "size", "metadata"])
def test_numbers_and_nesting_without_end_are_refused(folder: Path, text: str, where: str) -> None:
    raw = json.loads((folder / "corpus.json").read_text())
    holder = {
        "cases": raw,
        "size": raw["cases"][0]["input"],
        "metadata": case_of(raw, "writer/link")["action"],
    }
    holder[where][where] = "PLACE"
    (folder / "corpus.json").write_text(json.dumps(raw).replace('"PLACE"', text))
    with pytest.raises(ManifestError, match="not a usable manifest"):
        load_manifest(folder)
    assert run("verify", folder).exit_code in (1, 2)


def test_a_schema_of_others_is_not_followed(folder: Path) -> None:
    (folder / "schema/corpus.schema.json").write_text('{"$ref": "file:///etc/hostname"}')
    run("verify", folder, status=0, out="is intact")


def test_a_copy_removes_and_writes_nothing_but_files_of_a_corpus(folder: Path, tmp_path: Path) -> None:
    target, outside = tmp_path / "target", tmp_path / "outside"
    for path in (target / ".git/hooks", outside):
        path.mkdir(parents=True)
    (target / ".git/hooks/pre-commit").write_text("mine")
    raw = json.loads((folder / "corpus.json").read_text())
    case_of(raw, "framing/plain")["input"]["file"] = ".git/hooks/pre-commit"
    save(target, raw)
    (target / "files").symlink_to(outside)
    run("copy", "-c", folder, target, "--force", status=2, err="a link leads out")
    assert (target / ".git/hooks/pre-commit").read_text() == "mine"
    assert list(outside.iterdir()) == []
