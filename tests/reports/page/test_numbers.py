"""Committed reports, histories and the headline give the same numbers; a check command compares the pages."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from safetensors_corpus import load_manifest

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "reports" / "published"
WRONG = ("wrong-content", "wrong-accept", "wrong-reject")
LAYOUT = {"overlaps", "holes", "trailing", "outside", "backwards", "inside", "sizes"}
REPEATED = {"names", "reserved", "fields", "keys"}
WHOLE: dict[str, Any] = json.loads((PUBLISHED / "report.json").read_text("utf-8"))
PROGRAMS: list[dict[str, Any]] = WHOLE["implementations"]
BY_LABEL = {who["label"]: who for who in PROGRAMS}


def test_roles_add_up_to_the_counts_of_a_program() -> None:
    for who in PROGRAMS:
        failed: Counter[str] = Counter()
        for role in who["roles"]:
            failed.update({kind: n for kind, n in role["failed"].get("text", {}).items() if kind in WRONG})
        assert failed == {kind: n for kind, n in who["counts"].items() if kind in WRONG}, who["label"]
        assert sum(role["asked"] for role in who["roles"]) == who["due"], who["label"]
        for role in who["roles"]:
            cells: Counter[str] = Counter()
            for cell in role["cells"]:
                cells.update(cell["failed"].get("text", {}))
            # A case that fails by rules of two areas stands in both.
            assert all(cells[kind] >= n for kind, n in role["failed"].get("text", {}).items()), who["label"]


def test_each_program_has_the_same_numbers_on_its_own_page_and_in_the_list_of_all() -> None:
    listed = {
        f"{entry['selector']} {entry['version']}": entry
        for program in json.loads((PUBLISHED / "implementations.json").read_text("utf-8"))["programs"]
        for entry in program["entries"]
    }
    seen = set()
    for path in sorted(PUBLISHED.glob("*/report.json")):
        for who in json.loads(path.read_text("utf-8"))["implementations"]:
            whole = BY_LABEL[who["label"]]
            for key in ("due", "roles", "word"):
                assert who[key] == whole[key], (who["label"], key)
            told = {kind: n for kind, n in who["counts"].items() if kind != "unsafe"}
            assert told == {kind: n for kind, n in whole["counts"].items() if kind != "unsafe"}
            row = listed[who["label"]]
            assert row["asked"] == who["due"]
            assert {k: row["counts"].get(k, 0) for k in WRONG} == {k: who["counts"].get(k, 0) for k in WRONG}
            seen.add(who["label"])
    assert seen == BY_LABEL.keys() == listed.keys()


def test_histories_end_with_the_published_numbers() -> None:
    newest: dict[str, dict[str, Any]] = {}
    for path in sorted((PUBLISHED / "history").glob("*.jsonl")):
        for text in path.read_text("utf-8").splitlines():
            line = json.loads(text)
            if line["corpus"]["sha256"] == WHOLE["corpus"]["sha256"][:16] and not line.get("profile"):
                newest[f"{line['entry']} {line['version']}"] = line
    assert newest.keys() >= BY_LABEL.keys()
    for label, who in BY_LABEL.items():
        line = newest[label]
        assert line["asked"] == who["due"]
        # Threads and costs are left out of histories; neither breaks the text.
        assert {k: line["counts"].get(k, 0) for k in WRONG} == {k: who["counts"].get(k, 0) for k in WRONG}, (
            label
        )


def test_the_headline_is_what_anybody_computes_from_the_report() -> None:
    others = [who for who in PROGRAMS if who["name"] != "reference"]
    groups: dict[str, list[dict[str, Any]]] = {"layout": [], "other": [], "repeated": []}
    for who in others:
        taken = {
            answer["question"]
            for role in who["roles"]
            if role["role"] in ("reader", "lister", "checker", "device")
            for answer in role["answers"]
            if answer["failed"].get("text", {}).get("wrong-accept")
        }
        if taken:
            groups["layout" if taken & LAYOUT else "repeated" if taken <= REPEATED else "other"].append(who)
    opens = [w for w in others if {r["role"] for r in w["roles"]} & {"reader", "lister", "checker", "device"}]
    clean = [who["label"] for who in opens if not any(who["counts"].get(kind) for kind in WRONG)]
    shown = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"{len(others)} entry points of {len({who['name'] for who in others})} projects" in shown
    assert f"use {len({who['parser'] for who in others})} parsers" in shown
    assert f"results for corpus {WHOLE['corpus']['version']}." in shown
    assert f"up to {max(who['due'] for who in others):,} cases each" in shown
    for group, words in (
        ("layout", "accept files that the format forbids"),
        ("other", "accept only other kinds of forbidden files"),
        ("repeated", "accept forbidden files only if they have duplicate keys"),
    ):
        parsers = len({who["parser"] for who in groups[group]})
        assert f"{len(groups[group])} ({parsers} parser{'' if parsers == 1 else 's'}) {words}" in shown
    content, refuse = (
        sum(bool(who["counts"].get(kind)) for who in others) for kind in ("wrong-content", "wrong-reject")
    )
    assert f"{content} return wrong data" in shown
    assert f"{refuse} reject files that the format allows" in shown
    assert (
        f"{len(clean)} of the {len(opens)} programs that open files make"
        if clean
        else "all programs that open files"
    ) in shown
    assert all(label in shown for label in clean[:4])


def test_no_program_was_asked_more_than_the_corpus_has() -> None:
    assert max(who["due"] for who in PROGRAMS) <= len(load_manifest().cases)


def test_the_example_of_the_readme_is_in_the_comparison() -> None:
    shown = " ".join((ROOT / "README.md").read_text("utf-8").split())
    found = re.search(
        r"`(\S+)` (\S+) lists the tensors of a file, and `(\S+)` (\S+) loads them. Of the (\S+) files in the "
        r"\S+ \S+, both accept (\S+) but read different content. For another (\S+) files, one of the two",
        shown,
    )
    assert found is not None
    lister, loader = f"{found[1]} {found[2]}", f"{found[3]} {found[4]}"
    roles = [{role["role"] for role in BY_LABEL[label]["roles"]} for label in (lister, loader)]
    assert "lister" in roles[0]
    assert "reader" in roles[1]
    part = WHOLE["agreement"]
    between = {list(BY_LABEL).index(label) for label in (lister, loader)}
    (pair,) = (pair for pair in part["pairs"] if set(pair["between"]) == between)
    numbers = [int(text.replace(",", "")) for text in found.groups()[4:]]
    assert numbers == [part["compared"], pair["content"], pair["verdict"]]
