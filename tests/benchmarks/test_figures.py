"""Statistics, goals, documents and what is shown of them."""

from __future__ import annotations

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.device import document as documents
from benchmarks.device import figures, goals, picture, tables
from benchmarks.device.client import without_paths
from benchmarks.device.loaders import LOADERS, sweep
from benchmarks.device.session import groups

from .documents import document, file, loader, samples

SVG = "{http://www.w3.org/2000/svg}"


def two(
    ours: list[float], theirs: list[float], name: str = "instanttensor", **changes: Any
) -> dict[str, Any]:
    entries = [loader("reference"), loader(name, **changes)]
    return document([file(entries, samples("reference", ours) + samples(name, theirs))])


def answer(shown: dict[str, Any], start: str) -> goals.Goal:
    (found,) = [goal for goal in goals.goals(shown) if goal.text.startswith(start)]
    return found


LARGE, SMALL, OLD = "large, 4 GB or more: ", "small", "time / safetensors 0.8"
MISSING, WRONG = (None, "not measured"), {"status": "wrong", "reason": "1 tensor is wrong"}
ONE = samples("reference", [1.0])
MEMORY = {"device_torch": 8_000_000_000, "device_driver": 8_080_000_000}


def small(tensors: int) -> dict[str, Any]:
    shown = two([1.0], [2.0], "runai")
    shown["files"][0] |= {"kind": SMALL, "bytes": 10**8, "tensors": tensors}
    return shown


def alone(taken: list[dict[str, Any]], entry: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A document of the reference alone."""
    return document([file([entry or loader("reference")], taken, **changes)])


@pytest.mark.parametrize(
    ("shown", "start", "value", "word", "note"),
    [
        (two([0.9], [1.0]), f"{LARGE}time / best peer", 0.9, "aim", "against instanttensor"),
        (two([1.0], [1.0]), f"{LARGE}time / best peer", 1.0, "must", "against instanttensor"),
        (two([1.01], [1.0]), f"{LARGE}time / best peer", 1.01, "missed", "against instanttensor"),
        # Neither wrong tensors nor other settings of the reference make a peer.
        (two([1.0], [0.1], status="wrong"), f"{LARGE}time / best peer", *MISSING, ""),
        (two([1.0], [0.5], "reference-8x2m"), f"{LARGE}time / best peer", *MISSING, ""),
        (two([1.0], [4.0], "safetensors", version="0.8.0"), f"{LARGE}{OLD}", 0.25, "must", ""),
        (two([1.0], [4.0], "safetensors", version="0.9.0"), f"{LARGE}{OLD}", *MISSING, ""),
        # The larger count is taken.
        (alone(ONE, loader("reference", memory=MEMORY)), f"{LARGE}peak device memory", 1.01, "must", ""),
        (small(19_999), SMALL, *MISSING, ""),
        (small(20_000), SMALL, 0.5, "aim", ""),
        # Goals that cannot be judged.
        (document([], device="cpu"), f"{LARGE}share", *MISSING, "this run used cpu"),
        (document([]), f"{LARGE}share", *MISSING, "no file of this kind"),
        (alone([], bytes=10**9), f"{LARGE}share", *MISSING, "has only 1 GB"),
        (alone([]), f"{LARGE}share", *MISSING, "the reference was not measured"),
        (alone(ONE, loader("reference", **WRONG)), f"{LARGE}share", *MISSING, "1 tensor is wrong"),
    ],
)
def test_goals(shown: dict[str, Any], start: str, value: float | None, word: str, note: str) -> None:
    found = answer(shown, start)
    assert (found.value, found.word(), note in found.note) == (value, word, True)


def test_figures_are_medians_and_reasons_name_no_folders() -> None:
    assert figures.figure([2.0, 1.0, 4.0]) == figures.Figure(2.0, 1.0, 1.5, 3)
    assert figures.figure([]) is None
    assert figures.seconds(file([], samples("a", [1.0, 2.0])), "a") == [1.0, 2.0], "without the first load"
    assert without_paths("cannot open /home/me/x y/file.so: no") == "cannot open x y/file.so: no"
    assert without_paths("1/2 of https://example.org/a") == "1/2 of https://example.org/a"


def test_rows_have_the_reference_first_and_the_missing_last() -> None:
    entries = [loader("gone", status="missing", reason="x"), loader("fast"), loader("reference")]
    shown = document([file(entries, samples("fast", [0.1]) + samples("reference", [0.2]))])
    found = figures.rows(shown, shown["files"][0])
    assert [row.loader["name"] for row in found] == ["reference", "fast", "gone"]
    assert found[0].speed == pytest.approx(40.0)
    assert found[0].share == pytest.approx(0.8)
    assert found[1].ratio == pytest.approx(2.0)
    taken = samples("reference", [1.0], 0) + samples("reference", [3.0], 1) + samples("late", [6.0], 1)
    assert figures.ratio(file([], taken), "late") == 0.5, "only rounds with both count"
    assert (found[2].speed, found[2].ratio) == (None, None)
    # Neither cold loads nor those beside an unknown leg have a share of the limit: the slower leg's best.
    shown["limits"] = shown["limits"][:2]
    for one in (alone(samples("reference", [0.2]), state="cold"), shown):
        assert figures.rows(one, one["files"][0])[0].share is None
        assert answer(one, f"{LARGE}share").word() == "not measured"


def test_groups_fit_on_the_device_and_have_the_reference() -> None:
    everything = [*LOADERS, *sweep()]
    size, free = 8 * 10**9, 140 * 10**9
    found = groups(everything, size, free)
    assert len(found) > 1
    assert all(group[0].name == "reference" and len(group) * size < free for group in found)
    assert {entry.name for group in found for entry in group} == {entry.name for entry in everything}
    assert groups(everything, size, None) == [everything]
    assert groups(everything[:1], size, free) == [everything[:1]]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("device_bench",), 2),
        (("device",), "tpu"),
        (("files", 0, "state"), "hot"),
        (("files", 0, "samples", 0, "seconds"), 0),
        (("files", 0, "loaders", 0, "status"), "fine"),
        (("limits", 0, "gb_per_s"), []),
    ],
)
def test_the_schema_refuses(path: tuple[Any, ...], value: object) -> None:
    shown = two([1.0], [2.0])
    assert documents.invalid(shown) is None
    reduce(getitem, path[:-1], shown)[path[-1]] = value
    fault = documents.invalid(shown)
    assert fault is not None
    assert str(path[-1]) in fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({**two([1.0], [2.0]), "files": 1}), r"not a document of this benchmark: \$\.files"),
        ("{", "not JSON"),
        (None, "cannot be read"),
    ],
    ids=["form", "cut", "none"],
)
def test_reading_names_file_and_place(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "bad.json").write_text(text)
    with pytest.raises(documents.DocumentError, match=rf"bad\.json: {words}"):
        documents.read(tmp_path / "bad.json")


def test_pieces_are_put_together() -> None:
    one, other = two([1.0], [2.0]), document([file([], [], "small")], limits=[], stopped="interrupted")
    one["machine"]["link_generation"] = "1"
    whole = documents.merged([one, other])
    assert [f["kind"] for f in whole["files"]] == ["large", "small"]
    assert whole["limits"] == one["limits"]
    assert whole["stopped"] == "interrupted"
    other["machine"] = {**other["machine"], "gpu": "another"}
    with pytest.raises(documents.DocumentError, match="machine"):
        documents.merged([one, other])


def test_markdown_lists_what_failed_with_its_reason() -> None:
    shown = two([0.2], [0.4], status="failed", reason="Error: a|b <c>")
    text = tables.markdown(shown, "x.svg")
    assert "![Speed of each loader](x.svg)" in text
    assert "- instanttensor: failed: Error: a\\|b &lt;c>" in text
    assert "| reference | 1.0 | 1.20 | 0.2 | 0.2 | 0% | 40.00 | 80% |" in text
    assert "| instanttensor | 1.0 | 1.40 | 0.4 | 0.4 | 0% | 20.00 | 40% | 0.50 |" in text
    assert text.count("not measured") >= 7


def test_picture_has_longer_bars_for_faster_loaders() -> None:
    shown = two([0.2, 0.25, 0.3], [0.5, 0.5, 0.5])
    shown["files"][0]["loaders"].append(loader("<gone>", status="missing", reason="not installed"))
    root = ET.fromstring(picture.draw(shown))
    ours, theirs = [r for r in root.iter(f"{SVG}rect") if r.get("class") in {"ours", "bar"}]
    assert float(ours.attrib["width"]) == pytest.approx(2 * float(theirs.attrib["width"]), rel=1e-3)
    assert len(list(root.iter(f"{SVG}circle"))) == 6
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert "<gone>" in texts
    assert "missing" in texts
    assert "limit 50.0" in texts
