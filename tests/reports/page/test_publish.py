"""``stc publish``: what it writes, that it can be checked, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.cli.publish import publish as command
from safetensors_reference.rules.pages import WHITESPACE
from safetensors_reports.audit.inputs import AuditError, load_report
from safetensors_reports.page.publish import (
    INDEX,
    PICTURE,
    README,
    Unbuilt,
    load_published,
    pages,
    publication,
    sentences,
)

from ..samples import (
    HOLE,
    TWICE,
    Make,
    as_json,
    broken,
    called,
    corpus,
    failing,
    report,
    run,
    write_finding,
    write_record,
)

FILES = {
    "index.html", "comparison.svg", "README.md", "report.json",
    "lib/report.html", "lib/report.json", "reference/report.html", "reference/report.json",
    "implementations.json", "history/lib.jsonl", "history/lib.md",
    "history/reference.jsonl", "history/reference.md",
}  # fmt: skip


invoke = partial(called, command)


def tree(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    write_record(folder / "a.jsonl", run(failing(HOLE), failing(TWICE, "pass"), name="lib", version="1"))
    entry = run(failing(HOLE, "unsafe", outcome="crash"), failing(TWICE), name="lib", version="1")
    entry.header["implementation"]["selector"] = "lib:fast"
    write_record(folder / "b.jsonl", entry)
    write_record(folder / "c.jsonl", run(failing(HOLE, "pass"), name="reference", version="9"))
    return folder


@pytest.fixture
def out(runs: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    result = invoke(runs, "-o", folder)
    assert (result.exit_code, result.output) == (0, f"{len(FILES)} files: {folder / INDEX}\n")
    return folder


def refused(says: str, *args: str | Path) -> None:
    result = invoke(*args)
    assert (result.exit_code, says in result.output) == (2, True), result.output


def test_entry_points_of_one_project_share_a_page(out: Path) -> None:
    assert set(tree(out)) == FILES
    whole, part = load_report(out / "report.json"), load_report(out / "lib/report.json")
    assert [w.label for w in whole.implementations] == ["lib 1", "lib:fast 1", "reference 9"]
    assert [w.label for w in part.implementations] == ["lib 1", "lib:fast 1"]
    assert whole.public
    # What is unsafe and not public is nowhere.
    assert not any('"verdict": "unsafe"' in text or "killed" in text for text in tree(out).values())
    for name in (INDEX, "README.md"):
        assert WHITESPACE in (out / name).read_text("utf-8")


def test_only_what_no_report_is_about_is_listed_as_built_by_hand(out: Path) -> None:
    whos = [
        Unbuilt(name, "Li | b", "Zig", f"https://x.org/{name}", "1", "No | run.") for name in ("lib", "o")
    ]
    (line,) = (x for x in pages(load_published(out), whos)["README.md"].splitlines() if "https://x.org" in x)
    assert ("Zig" in line, line.count(" | ")) == (True, 3)  # whatever it is called
    assert "Built by hand" not in pages(load_published(out), whos[:1])["README.md"]


def test_a_page_that_differs_fails_the_check_by_name(out: Path) -> None:
    again = "run stc publish --history-only"
    reports = ("index.html", "comparison.svg", "lib/report.html", "reference/report.html")
    histories = ("history/lib.md", "implementations.json", "history/reference.md")
    sources = dict.fromkeys(reports, "report.json") | dict.fromkeys(histories, "history")
    sources["README.md"] = "report.json and the descriptors"
    for name in sources:
        (out / name).write_text((out / name).read_text("utf-8").replace("a", "b", 1), "utf-8")
    (out / "reference/report.html").unlink()
    (out / "history/reference.md").write_bytes(b"\xff\xfe\x00")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = invoke("-o", out, "--check")
    assert result.exit_code == 1
    assert set(result.output.splitlines()) == {
        f"{out / name}: does not match its {source}; {again}" for name, source in sources.items()
    }
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    for path in out.rglob("report.json"):  # a question without cases has no share
        path.write_text(re.sub(r'"asked": \d+', '"asked": 0', path.read_text("utf-8")), "utf-8")
    assert "lib/report.html: does not match" in invoke("-o", out, "--check").output


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "No such file"), ("{", "not JSON"), ('{"schema": 1}', "not a report of this version")],
)
def test_a_folder_without_usable_reports_is_refused(out: Path, text: str | None, says: str) -> None:
    path = out / "report.json"
    path.unlink()
    if text is not None:
        path.write_text(text, "utf-8")
    refused(says, "-o", out, "--check")
    refused(str(path), "-o", out, "--check")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["matrix"][0]["worst"].append(None), "one column or row per implementation"),
        (lambda d: d["matrix"][0]["rules"][0]["known"].clear(), "one column or row per implementation"),
        (lambda d: d["run"].update(runs=[]), "one column or row per implementation"),
        (lambda d: d["scales"].update(verdict={}), "scales.verdict does not define a word"),
        (lambda d: d["matrix"][0].update(title="\ud800"), "surrogates not allowed"),
        (lambda d: d["corpus"]["spec"].update(repository="javascript:x"), "corpus.spec.repository"),
        (lambda d: d["implementations"][0].update(limits={"memory_bytes": "x"}), "limits"),
    ],
)
def test_a_report_whose_parts_do_not_fit_together_is_refused(
    tmp_path: Path, change: Callable[[Any], object], says: str
) -> None:
    document = as_json(report(run(failing(HOLE), name="lib", version="1")))
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    load_report(path)
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(AuditError, match=f"^{re.escape(str(path))}: .*{says}"):
        load_report(path)


def test_a_lost_report_is_named_and_one_in_another_encoding_is_read(out: Path) -> None:
    path = out / "report.json"
    path.write_text(path.read_text("utf-8"), "utf-16")
    assert invoke("-o", out, "--check").exit_code == 0
    (out / "lib/report.json").unlink()
    refused("there is no separate report for lib 1, lib:fast 1", "-o", out, "--check")


def test_what_is_no_longer_run_is_removed_and_nothing_else(runs: Path, out: Path, tmp_path: Path) -> None:
    audit = tmp_path / "mine" / "audit" / "report.json"
    audit.parent.mkdir(parents=True)
    audit.write_text("{}")
    assert invoke(runs, "-o", tmp_path / "mine").exit_code == 0
    assert audit.read_text() == "{}"
    (out / "reference/notes.txt").write_text("kept", "utf-8")
    assert invoke(runs / "a.jsonl", "-o", out).exit_code == 0
    # A history stays when its program is no longer run.
    kept = {name for name in FILES if not name.startswith("reference/")}
    assert set(tree(out)) == kept | {"reference/notes.txt"}
    write_record(runs / "a.jsonl", run(failing(HOLE), name="new", version="1"))
    assert invoke(runs / "a.jsonl", "-o", out).exit_code == 0
    assert not (out / "lib").exists()
    assert (out / "new/report.html").exists()


def test_what_cannot_be_published_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    good = write_record(tmp_path / "good.jsonl", run(failing(HOLE), name="good", version="1"))
    partial = run(failing(HOLE), name="half", version="1", footer=Make.CUT)
    elsewhere = run(failing(HOLE), name="other", version="1")
    elsewhere.header["corpus"]["digest"] = "0" * 64
    empty = tmp_path / "empty"
    empty.mkdir()
    torn = run(failing(HOLE), name="torn", version="1", footer=None)
    for bad, says in (
        (partial, "half 1: the run is not complete; run it again"),
        (torn, "torn 1: "),
        (run(name="none", version="1"), "none 1: the run is not complete"),
        (elsewhere, "other 1: this run used a different corpus; run it again"),
        (write_finding(tmp_path / "f"), "fuzzing findings are not published"),
        (tmp_path / "no.jsonl", "no.jsonl: No such file"),
        (empty, "empty: contains neither run records"),
    ):
        path = bad if isinstance(bad, Path) else write_record(tmp_path / "bad.jsonl", bad)
        refused(says, good, path, "-o", tmp_path / "pages")
        assert not (tmp_path / "pages").exists()
    refused(str(good), good, "-o", good)


def test_an_implementation_that_could_not_be_run_keeps_its_page(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The runs are not made here: what matters is that one of those known has left no record.
    monkeypatch.setattr("safetensors_conformance.cli.publish.run.main", lambda *_, **__: None)
    before = tree(out)
    done = invoke("-o", out)
    assert done.exit_code == 2
    assert re.search("adaptersentry, .* did not run; nothing is published", done.output)
    assert tree(out) == before


def test_names_become_folders_of_their_own() -> None:
    names = {"lib-x": "lib-x", "lib-x-2": "lib.x", "etc-lib-x": "../../etc/Lib X"}
    texts = publication([run(failing(HOLE), name=name, version="1") for name in names.values()], corpus())
    forms = ("{}/report.html", "{}/report.json", "history/{}.jsonl", "history/{}.md")
    shared = {INDEX, PICTURE, README, "report.json", "implementations.json"}
    assert set(texts) == shared | {form.format(folder) for folder in names for form in forms}
    with pytest.raises(AuditError, match="no run record"):
        publication([], corpus())
    for folder, name in names.items():
        assert json.loads(texts[f"{folder}/report.json"])["implementations"][0]["name"] == name


def said(*rows: Any) -> str:
    records = [run(*answers, name=name, version=str(i)) for i, (name, *answers) in enumerate(rows)]
    for record in records:
        steps = sorted({row["step"] for row in record.results})
        record.header["implementation"] |= {"kind": "reader", "steps": steps}
    return " ".join(sentences(report(*records, public=True)))


GOOD, BAD = failing(TWICE, "pass"), failing(HOLE)
REPEATED, OTHER = (broken(TWICE, "wrong-accept", rule, "text") for rule in ("HDR-09", "HDR-07"))
INDEX_ONLY = failing(next(c.id for c in corpus().cases if c.kind == "index"), "pass", step="index")
# Where the text is silent, nobody is said to break it.
SILENT = broken(HOLE, "deviation:accept", "OFF-02", "official", outcome="accept")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", BAD, OTHER)], "1 (1 parser) accept files that the format forbids because of a broken layout"),
        ([("a", BAD)], "all programs that open files make at least one of these mistakes"),
        ([("a", OTHER, REPEATED)], "1 (1 parser) accept only other kinds of forbidden files"),
        ([("a", SILENT)], "0 (0 parsers) accept files that the format forbids because of a broken layout"),
        ([("a", SILENT)], "1 of the 1 programs that open files makes none of these mistakes (a 0)"),
        ([("a", GOOD), ("b", GOOD)], "2 of the 2 programs that open files make none of these"),
        ([("a", INDEX_ONLY)], "; 1 entry point does not open files."),
    ],
)
def test_sentences_count_what_the_runs_show(rows: list[Any], words: str) -> None:
    assert words in said(*rows)
