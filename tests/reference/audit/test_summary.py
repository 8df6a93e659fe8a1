"""A summary counts what the rows say, the same out of both forms of results."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from safetensors_reference.audit.cli import audit
from safetensors_reference.audit.summary import Summary, as_text, summarize

from ..support import entry, make
from .support import BROKEN, DISPUTED, MODEL, VALID, stc_audit, write_tree

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    odd = make(
        '{"__metadata__":{"format":"<script>\\u202e"},"a":' + entry("F64", "[1]", "[0,8]") + "}", bytes(8)
    )
    files = {**{f"a/{n}.safetensors": VALID for n in range(3)}, "b/x.safetensors": BROKEN}
    files |= {"b/y.safetensors": DISPUTED, "b/<i>.safetensors": odd}
    files |= {f"m/{k}": v for k, v in MODEL.items() if "00002-of" not in k}
    tree = write_tree(tmp_path_factory.mktemp("summary") / "tree", files)
    for name in ("rows.jsonl", "rows"):
        stc_audit(tree, "-o", tree.parent / name)
    return tree


@pytest.fixture(params=["rows.jsonl", "rows"])
def results(request: pytest.FixtureRequest, tree: Path) -> Path:
    return tree.parent / str(request.param)


def rows(summary: Summary, title: str) -> list[tuple[str | int, ...]]:
    return next(section.rows for section in summary.sections if section.title == title)


def test_counts_by_verdict_fault_writer_source_and_dtype(results: Path, tree: Path) -> None:
    found = summarize(results)
    assert (found.files, found.models) == (7, 1)
    assert rows(found, "Verdicts") == [("valid", 5), ("invalid", 1), ("per-profile", 1)]
    assert rows(found, "Models") == [("invalid", 1)]
    assert [row[:2] for row in rows(found, "Faults")] == [("HDR_BAD_START", 1), ("OFF_OUT_OF_BOUNDS", 1)]
    assert [row[:2] for row in rows(found, "Faults of models")] == [("IDX_SHARD_MISSING", 1)]
    kinds = [("cut-short", 1, f"{tree}/b/x.safetensors")]
    assert rows(found, "What invalid files look like") == kinds
    assert rows(found, "Sources") == [(f"{tree}/a", 3, 0), (f"{tree}/b", 3, 2), (f"{tree}/m", 1, 0)]
    assert rows(found, "Dtypes") == [("U8", 4, 4, 16), ("F64", 1, 1, 8)]
    assert rows(found, "Writers")[0][0] == "dtype,shape,data_offsets · compact · unaligned · no format"
    assert ("dtype F64", 1, f"{tree}/b/<i>.safetensors") in rows(found, "Rarest faults, writers and dtypes")
    sizes = [row[1] for row in rows(found, "Largest files")]
    assert sizes == sorted(sizes, key=int, reverse=True)
    assert rows(found, "Cost")[0] == ("requests or reads", 7)


def test_the_command_and_texts_of_files_on_its_page(results: Path, tmp_path: Path) -> None:
    found = summarize(results)
    run = CliRunner().invoke(audit, ["summary", str(results)])
    assert (run.exit_code, run.output) == (0, as_text(found))
    assert json.loads(CliRunner().invoke(audit, ["summary", str(results), "--json"]).output)["files"] == 7
    out = tmp_path / "page.html"
    assert CliRunner().invoke(audit, ["summary", str(results), "-o", str(out)]).output == ""
    page = out.read_text()
    assert page.startswith("<!DOCTYPE html>")
    tags = re.findall(r"<(\w+)", page)
    assert {"script", "i"}.isdisjoint(tags)
    assert tags.count("table") == len(found.sections)
    assert "\u202e" not in page + as_text(found)
    assert "&lt;script&gt;" in page


def test_the_last_row_of_a_file_counts_whatever_columns_it_has(
    results: Path, tree: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet as parquet

    copy = tmp_path / results.name
    (shutil.copytree if results.is_dir() else shutil.copy)(results, copy)
    for part in copy.glob("part-*"):
        parquet.write_table(parquet.read_table(part).drop(["looks_like", "aligned_bytes"]), part)
    if copy.is_file():
        copy.write_text(copy.read_text().replace(',"looks_like":"cut-short"', ""))
    found = summarize(copy)
    assert (found.files, found.models) == (7, 1)
    assert "What invalid files look like" not in [section.title for section in found.sections]
    changed = tree / "b/x.safetensors"
    changed.write_bytes(VALID)
    stc_audit(tree, "-o", copy)
    changed.write_bytes(BROKEN)
    assert rows(summarize(copy), "Verdicts") == [("valid", 6), ("per-profile", 1)]


def test_without_duckdb_the_counts_are_the_same(
    results: Path, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_tree(tmp_path / "other", {"gguf.safetensors": b"GGUF" + bytes(40)})
    results = tmp_path / results.name
    stc_audit(tree, other, "-o", results)
    counted = ("Verdicts", "Models", "Faults", "Faults of models", "What invalid files look like")
    full = summarize(results)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    run = CliRunner().invoke(audit, ["summary", str(results), "--json"])
    assert run.stderr.endswith(" the fleet extra: pip install 'safetensors-conformance[fleet]'\n")
    if results.is_dir():
        assert (run.exit_code, run.stdout) == (2, "")
        return
    wanted = [section for section in full.sections if section.title in counted]
    assert [section.title for section in wanted] == list(counted)
    found = msgspec.json.decode(run.stdout, type=Summary)
    run = CliRunner().invoke(audit, ["summary", str(results), "-o", str(tmp_path / "page.html")])
    assert (run.exit_code, run.stderr.count("the fleet extra")) == (2, 1)
    assert found == msgspec.structs.replace(full, sections=wanted, complete=False)


def test_results_without_rows_and_of_odd_names(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "rows").mkdir()
    for name in ("rows.jsonl", "rows"):
        found = summarize(tmp_path / name)
        assert (found.files, found.models, found.sections) == (0, 0, [])
    row = '{{"address":"{}","verdict":"valid","requests":1,"read":1,"time":"2026-01-01T00:00:00Z"}}\n'
    for name in ("r*.jsonl", "r1.jsonl", "[r].jsonl"):
        (tmp_path / name).write_text(row.format(name))
    for name in ("r*.jsonl", "[r].jsonl"):
        assert rows(summarize(tmp_path / name), "Sources") == [(name, 1, 0)], "a name is no pattern"
    out = tmp_path / "unread.jsonl"
    assert stc_audit(tmp_path / "no", "-o", out).exit_code == 2
    found = summarize(out)
    assert rows(found, "Verdicts") == [("missing", 1)]
    assert [number for _, number in rows(found, "Cost")] == [0, 0, 0]


MISSING = "a row lacks a value"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x.jsonl", "no rows\n", "x.jsonl: this is not an audit result: "),
        ("x/part-000001.parquet", "no rows", "x: this is not an audit result: "),
        ("x.jsonl", None, "x.jsonl: this is not an audit result: "),
        ("pipe", None, "not a regular file"),
        ("x.jsonl", '{"a":1}\n', MISSING),
        ("x.jsonl", '{"address":null,"verdict":"valid"}\n', MISSING),
        ("x.jsonl", '{"address":"x","verdict":"valid","codes":[null]}\n', MISSING),
    ],
)
def test_what_is_no_result_is_an_error_in_one_line(
    name: str, text: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name
    if text is not None:
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    elif name == "pipe":
        os.mkfifo(place)
    run = CliRunner().invoke(audit, ["summary", str(tmp_path / name.partition("/")[0])])
    assert (run.exit_code, run.output.count("\n")) == (2, 1)
    assert why in run.output
    monkeypatch.setitem(sys.modules, "duckdb", None)
    run = CliRunner().invoke(audit, ["summary", str(tmp_path / name.partition("/")[0])])
    assert (run.exit_code, run.stdout, run.stderr.count("\n")) == (2, "", 1)
