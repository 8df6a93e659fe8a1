"""The corpus without Python: the program in JavaScript from the documentation runs readers over it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Manifest, recipe
from safetensors_corpus.document import read_document
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish.build import BUILDERS

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
PROGRAM = EXAMPLES / "corpus.mjs"
READER = EXAMPLES / "corpus_reader.mjs"
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="needs Node 20, which is not installed")


def corpus_with(root: Path, cases: list[Any], **more: Any) -> Path:
    """Make a corpus of some of its cases."""
    root.mkdir(exist_ok=True)
    (root / "corpus.json").write_text(
        json.dumps({**read_document(corpus_root()).raw, "cases": cases, **more})
    )
    (root / "files").symlink_to(corpus_root() / "files")
    return root


def node(manifest: Path, reader: Path | str, tmp_path: Path) -> tuple[int, list[str], dict[str, int]]:
    """Run the program; a reader given as text is written to a file first."""
    if isinstance(reader, str):
        path = tmp_path / "reader.mjs"
        path.write_text(reader)
        reader = path
    command = [str(NODE), str(PROGRAM), str(manifest), str(reader)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.stderr == ""
    *lines, totals = result.stdout.splitlines()
    counts = (word.rsplit(" ", 1) for word in totals.split(" · "))
    return result.returncode, lines, {name: int(count) for name, count in counts}


@needs_node
@pytest.mark.parametrize("each", [12, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_example_reader_passes_every_case(each: int, raw: dict[str, Any], tmp_path: Path) -> None:
    """By day, every twelfth case and those of choices and of complex numbers."""
    reading = [c for c in raw["cases"] if c["kind"] == "read" and not c.get("heavy")]
    cases = [
        c
        for n, c in enumerate(reading)
        if not n % each or "choice" in c["expect"] or "dtype-c64" in c["features"]
    ]
    status, lines, totals = node(corpus_with(tmp_path / "x", cases) / "corpus.json", READER, tmp_path)
    assert (status, lines) == (0, [])
    assert totals["pass"] == sum(totals.values()) == len(cases) > 500


def changing(change: str) -> str:
    """Return a reader that changes what the example reader returns."""
    return (
        f'import {{ open as good }} from "{READER.as_uri()}";\n'
        f"export const open = (bytes) => good(bytes).map((t) => {{ {change}; return t; }});"
    )


ONE, HOLE, NAMES = "framing/one-tensor", "layout/hole-between-two", "entry/two-names-composed-and-decomposed"
FREE, REQUIRED = "header/leading-whitespace-line-feed", "entry/array-alone"
C64, BF16, SHOULD = "dtype/eight-elements-c64", "dtype/eight-elements-bf16", "framing/header-size-127"
NO_C64 = changing('if (t.dtype === "C64") throw new Error("no")')
REFUSED, GOT = "refused (no), must be accepted", "got ["
ANSWERS: dict[str, tuple[str, dict[str, str]]] = {
    "nothing": (
        'export function open() { throw new Error("no"); }',
        dict.fromkeys((ONE, NAMES, C64, BF16, SHOULD), REFUSED),
    ),
    "always the same": (
        'export const open = () => [{ name: "w", dtype: "F32", shape: [2n] }];',
        {
            HOLE: "accepted, must be refused (OFF_HOLE)",
            REQUIRED: "accepted, must be refused (ENT_NOT_OBJECT)",
            **dict.fromkeys((NAMES, C64, BF16, SHOULD), 'got ["w","F32",'),
        },
    ),
    "other names": (changing("t.name = t.name.normalize()"), {NAMES: GOT}),
    "other shapes": (changing("t.shape = t.shape.filter((d) => d !== 1n)"), {NAMES: GOT}),
    "other dtypes": (changing("t.dtype = t.dtype.replace('BF16', 'F16')"), {BF16: GOT}),
    "one dtype less": (NO_C64, {C64: REFUSED}),
    "one dtype less, as announced": (f'export const lacks = ["dtype-c64"];\n{NO_C64}', {}),
}
"""What a reader answers, the reader, and what is told of the cases that it fails."""


@needs_node
@pytest.mark.parametrize("what", ANSWERS)
def test_what_a_reader_answers_wrongly_is_told(what: str, manifest: Manifest, tmp_path: Path) -> None:
    reader, told = ANSWERS[what]
    chosen = (ONE, HOLE, NAMES, FREE, REQUIRED, C64, BF16, SHOULD)
    cases = [row for row in manifest.raw["cases"] if row["id"] in chosen]
    status, lines, totals = node(corpus_with(tmp_path / "x", cases) / "corpus.json", reader, tmp_path)
    assert status == (1 if told else 0)
    assert len(lines) == len(told)
    for case, why in told.items():
        start = (
            f"{'not strict' if case == SHOULD else 'fail':10}  {case}  {manifest.by_id[case].rules[0]}  {why}"
        )
        assert [line for line in lines if line.startswith(start)], lines
    assert totals["pass"] == len(chosen) - len(told) - ("announced" in what)
    assert totals["unsupported"] == ("announced" in what)


KEEPS = """
export function open(bytes) {
  const header = new TextDecoder().decode(bytes.subarray(8, 8 + bytes[0] + 256 * bytes[1]));
  const { __metadata__, ...tensors } = JSON.parse(header);
  return Object.entries(tensors).map(([name, t]) => ({ name: CHANGED, dtype: t.dtype, shape: t.shape }));
}"""


@needs_node
@pytest.mark.parametrize(
    ("changed", "right"),
    [("name", True), ("name.toWellFormed()", True), (r"name.replace(/\p{Cs}/u, '')", False)],
)
def test_a_name_with_half_a_surrogate_pair_is_kept_replaced_or_wrong(
    raw: dict[str, Any], tmp_path: Path, changed: str, right: bool
) -> None:
    cases = [c for c in raw["cases"] if c["expect"].get("choice") == "lone-surrogates"]
    cases = [c for c in cases if c["id"].startswith("header/")]  # the program does not compare metadata
    path = corpus_with(tmp_path / "names", cases) / "corpus.json"
    _, _, totals = node(path, KEEPS.replace("CHANGED", changed), tmp_path)
    assert len(cases) > 10
    assert totals["pass"] == (len(cases) if right else 0)


@needs_node
def test_a_corrupted_or_missing_file_is_no_case(written: Path, raw: dict[str, Any], tmp_path: Path) -> None:
    case = next(c for c in raw["cases"] if c["id"] == "framing/one-tensor")
    data = (written / case["input"]["file"]).read_bytes()
    rows = []
    for name, damaged in (("longer", data + b"!"), ("changed", b"\xff" + data[1:]), ("missing", None)):
        rows.append({**case, "id": f"framing/{name}", "input": {**case["input"], "file": name}})
        if damaged is not None:
            (tmp_path / name).write_bytes(damaged)
    (tmp_path / "corpus.json").write_text(json.dumps({**raw, "cases": rows}))
    status, lines, totals = node(tmp_path / "corpus.json", READER, tmp_path)
    assert (status, totals["damaged"]) == (1, 3)
    assert [line.split()[:2] for line in lines] == [["damaged", row["id"]] for row in rows]


@needs_node
def test_every_kind_of_recipe_part_is_expanded_as_in_python(tmp_path: Path) -> None:
    entries = {"each": '"k{i}-{next}":"\u00e9 $& %d"', "count": 3, "first": 9, "separator": ","}
    parts: list[dict[str, object]] = [
        {"text": '{"__metadata__":{'},
        entries,
        {"hex": "7d2c"},
        {"text": '"w":{"dtype":"U8","shape":[70000],"data_offsets":[0,70000]}}'},
        {"repeat": {"text": " "}, "count": 5},
    ]
    length: dict[str, object] = {"hex": recipe.size(parts).to_bytes(8, "little").hex()}
    parts = [length, *parts, {"repeat": {"hex": "0102"}, "count": 5000}, {"zeros": 60_000}]
    raw = read_document(corpus_root()).raw
    case = next(c for c in raw["cases"] if c["id"] == "framing/one-tensor")
    tensor = {"name": "w", "dtype": "U8", "shape": [70000], "nbytes": 70000, "sha256": "0" * 64}
    case["expect"] = {"outcome": "accept", "content": {"tensors": [tensor], "metadata": None}}
    case["input"] = {"recipe": parts, "sha256": recipe.digest(parts), "size": recipe.size(parts)}
    (tmp_path / "corpus.json").write_text(json.dumps({**raw, "cases": [case]}))
    status, lines, totals = node(tmp_path / "corpus.json", READER, tmp_path)
    assert (status, lines, totals["pass"]) == (0, [], 1)


@needs_node
def test_a_wrong_call_shows_the_usage() -> None:
    result = subprocess.run([str(NODE), str(PROGRAM)], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("usage: node corpus.mjs")


def test_the_program_is_short_and_needs_no_packages() -> None:
    text = PROGRAM.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    imports = [line for line in text.splitlines() if line.startswith("import ")]
    assert all('from "node:' in line for line in imports)
    assert "import" not in READER.read_text(encoding="utf-8").replace("important", "")


def test_the_page_shows_a_case_as_it_is(raw: dict[str, Any]) -> None:
    page = (EXAMPLES.parent / "corpus.md").read_text(encoding="utf-8")
    assert "node docs/examples/corpus.mjs corpus/corpus.json docs/examples/corpus_reader.mjs" in page
    shown = json.loads(page.split("```json\n", 1)[1].split("```", 1)[0])
    case = next(c for c in raw["cases"] if c["id"] == shown["id"])
    shown["input"]["sha256"] = case["input"]["sha256"]
    assert {key: case[key] for key in shown} == shown
    for kind in {c["kind"] for c in raw["cases"]}:
        assert f"| `{kind}` |" in page


def test_the_examples_of_the_page_about_cases_build() -> None:
    page = (EXAMPLES.parent / "add-a-case.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == len(BUILDERS)
    bodies: list[tuple[Any, tuple[Any, ...]]] = []

    def register(*_: object, over: Any = (), **__: object) -> Any:
        first = tuple(over.values() if isinstance(over, dict) else over)[:1]
        return lambda body: bodies.append((body, first))

    for example in examples:
        builder = example.split("(f: ")[1].split(",")[0].split(")")[0]
        kind = next(kind for kind, cls in BUILDERS.items() if getattr(cls, "__name__", "") == builder)
        exec(example, {"accepts": register, "rejects": register, builder: BUILDERS[kind]})
        filled = BUILDERS[kind]()
        body, arguments = bodies.pop()
        body(filled, *arguments)
        stored, files = filled.stored("area/name")
        assert stored is not None
        assert files or "recipe" in stored
        assert "@rejects" in example or filled.content()
