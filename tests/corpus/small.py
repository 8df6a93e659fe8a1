"""A small corpus with one case of every kind, for tests of what is done with a corpus."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from safetensors_corpus.author.actions import ConcurrentBuilder, LifecycleBuilder, SliceBuilder
from safetensors_corpus.author.file import Builder, FileBuilder, RecipeBuilder
from safetensors_corpus.author.index import IndexBuilder
from safetensors_corpus.author.write import WriteBuilder
from safetensors_corpus.cli import corpus
from safetensors_corpus.document import read_document
from safetensors_corpus.packed import corpus_root

LICENSE = b"Apache-2.0, in short.\n"
STEPS = {"read": ["open", "read"], "resource": ["open"]}


def run(*args: str | Path, status: int | None = None, out: str = "", err: str = "", **env: str) -> Result:
    """Run ``stc corpus``; anything but an answer or an orderly error message fails the test.

    ``status`` is the exit status to expect; ``out`` and ``err`` are parts of the output to expect.
    """
    env = {"COLUMNS": "200", "NO_COLOR": "1", **env}
    result = CliRunner().invoke(corpus, [str(a) for a in args], env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert status in (None, result.exit_code), result.output
    assert out in result.stdout
    assert err in result.stderr
    return result


def row(
    case_id: str,
    kind: str,
    builder: Builder,
    rules: list[str],
    files: dict[str, bytes],
    expect: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the manifest's row of a case, and add its files to ``files``."""
    stored, new = builder.stored(case_id)
    files.update(new)
    action = builder.action()
    made: dict[str, Any] = {"id": case_id, "kind": kind, "steps": STEPS.get(kind, [kind]), "input": stored}
    made |= {"title": f"The title of {case_id} [not markup].", "description": "Why it matters."}
    made |= {"rules": rules, "level": "must", "importance": "high", "features": builder.features()}
    made |= {"heavy": False, "smoke": False, "source": {"kind": "hand"}, "affects": [], "status": "active"}
    made |= {"action": action} if action else {}
    made |= {"budget": builder.budget} if builder.budget else {}
    return {**made, "expect": expect or {"outcome": "accept", "content": builder.content()}, **more}


def reject(code: str) -> dict[str, Any]:
    """Refusal with one fault code."""
    return {"outcome": "reject", "codes": [code]}


def small_cases(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return one case of every kind; their files go to ``files``."""
    plain = FileBuilder()
    plain.tensor("w", "F32", [2])
    hole = FileBuilder()
    hole.gap(4)
    hole.tensor("b\x1b[2J", "F32", [1])
    null = FileBuilder()
    null.member('"__metadata__"', "null")
    part = SliceBuilder()
    part.tensor("w", "U8", [4, 6])
    part.ask("w", 1, ..., slice(0, 4, 2))
    saved = WriteBuilder(target="link", properties=["keeps-link"], file_size_limit=100)
    saved.before.tensor("old", "U8", [1])
    saved.storage("memory", bytes(range(16)))
    saved.tensor("a", "U16", [2, 2], storage="memory", offset=2, strides=[2, 4], byteorder="big")
    saved.metadata({"k": "v"})
    shards = IndexBuilder()
    shards.shard("one.safetensors", w=("U8", [2]))
    shards.index(raw='{"weight_map":{"w":"@ROOT@/model/one.safetensors","x":"\x07"}}', template=True)
    script = LifecycleBuilder()
    script.tensor("w", "U8", [2])
    script.open()
    script.truncate(20)
    script.rewrite(b"zz", at=3)
    script.replace(b"{}" * 50)
    script.append(b"!")
    script.unlink()
    script.read("w")
    script.close()
    readers = ConcurrentBuilder(taken_before=("w",), taken_after=("w",))
    readers.tensor("w", "U8", [2])
    readers.reader("w", "w")
    readers.reader("w")
    readers.reader("x\x07", unknown=True)
    header = RecipeBuilder(budget={"seconds": 5, "peak_bytes": 1 << 20})
    header.header("{", {"each": '"{i}":0', "count": 3, "first": 5, "separator": ","}, "}")
    header.pad_header(100)
    sparse = RecipeBuilder()
    sparse.header('{"w":{"dtype":"U8","shape":[8589934592],"data_offsets":[0,8589934592]}}')
    sparse.data({"zeros": 1 << 33})
    sparse.expect_count(1, "U8")
    gone = FileBuilder()
    return [
        row("framing/plain", "read", plain, ["FRM-01"], files, smoke=True),
        row("layout/hole", "read", hole, ["OFF-07", "DAT-03"], files, reject("OFF_HOLE"),
            source={"kind": "report", "issue": "https://example.org/1"},
            affects=[{"bug": "FB-01", "project": "lib", "reference": "o/r#1", "versions": "<2"}]),
        row("metadata/null", "read", null, ["MET-02"], files,
            {"choice": "metadata-null", "options": {"reject": reject("MET_NOT_MAP"),
             "absent": {"outcome": "accept", "content": null.content()}}}, level="may"),
        row("metadata/withdrawn", "read", gone, ["MET-01"], files, status="withdrawn"),
        row("slice/part", "slice", part, ["API-05"], files),
        row("writer/link", "write", saved, ["WRT-15"], files, level="should",
            expect={"outcome": "accept", "content": saved.content(), "properties": ["keeps-link"]}),
        row("index/absolute", "index", shards, ["IDX-04"], files, reject("IDX_BAD_FILENAME")),
        row("lifecycle/all", "lifecycle", script, ["API-12"], files, level="may"),
        row("concurrent/all", "concurrent", readers, ["DAT-06"], files),
        row("resource/header", "resource", header, ["LIM-03"], files, reject("ENT_NOT_OBJECT"),
            level="should"),
        row("resource/sparse", "resource", sparse, ["LIM-07"], files, heavy=True),
    ]  # fmt: skip


def small_corpus(folder: Path) -> dict[str, Any]:
    """Write the small corpus, with schema and licence, to ``folder`` and return its manifest."""
    shutil.copytree(corpus_root() / "schema", folder / "schema")
    files: dict[str, bytes] = {}
    bug = {
        "id": "FB-01", "project": "lib", "language": "C", "references": ["o/r#1"], "date": "2024",
        "family": "layout", "trigger": "A hole opens.", "versions": "<2", "fixed": "", "not_shown": "",
    }  # fmt: skip
    raw = {**_frame(), "field_bugs": [bug], "cases": small_cases(files)}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "LICENSE").write_bytes(LICENSE)
    save(folder, raw)
    return raw


@cache
def _frame() -> dict[str, Any]:
    real = read_document(corpus_root()).raw
    return {key: value for key, value in real.items() if key != "cases"}


def save(folder: Path, raw: Mapping[str, Any]) -> None:
    (folder / "corpus.json").write_text(json.dumps(raw, indent=1) + "\n")


def edit(folder: Path, how: Callable[[dict[str, Any]], object]) -> None:
    raw = json.loads((folder / "corpus.json").read_text())
    how(raw)
    save(folder, raw)


def case_of(raw: dict[str, Any], case_id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in raw["cases"] if c["id"] == case_id)
    return found


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
