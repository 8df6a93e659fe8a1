"""Committed reports, histories and the headline give the same numbers; a check command compares the pages."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from safetensors_corpus import load_manifest
from safetensors_reports.audit.inputs import load_report
from safetensors_reports.page.publish import sentences

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "reports" / "published"
WRONG = ("wrong-content", "wrong-accept", "wrong-reject")
OPENING = {"reader", "lister", "checker", "device"}
LAYOUT = {"overlaps", "holes", "trailing", "outside", "backwards", "inside", "sizes"}
REPEATED = {"names", "reserved", "fields", "keys"}
WHOLE: dict[str, Any] = json.loads((PUBLISHED / "report.json").read_text("utf-8"))
PROGRAMS: list[dict[str, Any]] = WHOLE["implementations"]
BY_LABEL = {who["label"]: who for who in PROGRAMS}


def wrong(counts: dict[str, int]) -> dict[str, int]:
    return {kind: counts.get(kind, 0) for kind in WRONG}


def test_roles_add_up_to_the_counts_of_a_program() -> None:
    for who in PROGRAMS:
        failed = sum((Counter(role["failed"].get("text", {})) for role in who["roles"]), Counter[str]())
        assert wrong(failed) == wrong(who["counts"]), who["label"]
        assert sum(role["asked"] for role in who["roles"]) == who["due"] <= len(load_manifest().cases)
        for role in who["roles"]:
            cells = sum((Counter(c["failed"].get("text", {})) for c in role["cells"]), Counter[str]())
            # A case that fails by rules of two areas stands in both.
            assert all(cells[kind] >= n for kind, n in role["failed"].get("text", {}).items()), who["label"]


def test_each_program_has_the_same_numbers_on_its_page_in_the_list_of_all_and_in_its_history() -> None:
    documents = json.loads((PUBLISHED / "implementations.json").read_text("utf-8"))["programs"]
    listed = {f"{row['selector']} {row['version']}": row for one in documents for row in one["entries"]}
    newest: dict[str, dict[str, Any]] = {}
    for path in sorted((PUBLISHED / "history").glob("*.jsonl")):
        for line in map(json.loads, path.read_text("utf-8").splitlines()):
            if line["corpus"]["sha256"] == WHOLE["corpus"]["sha256"][:16] and not line.get("profile"):
                newest[f"{line['entry']} {line['version']}"] = line
    pages = [json.loads(path.read_text("utf-8")) for path in PUBLISHED.glob("*/report.json")]
    own = {who["label"]: who for page in pages for who in page["implementations"]}
    assert own.keys() == BY_LABEL.keys() == listed.keys() <= newest.keys()
    for label, who in BY_LABEL.items():
        assert [own[label][key] for key in ("due", "roles", "word")] == [
            who[key] for key in ("due", "roles", "word")
        ]
        told = {kind: n for kind, n in own[label]["counts"].items() if kind != "unsafe"}
        assert told == {kind: n for kind, n in who["counts"].items() if kind != "unsafe"}
        for row in (listed[label], newest[label]):
            # Threads and costs are left out of histories; neither breaks the text.
            assert (row["asked"], wrong(row["counts"])) == (who["due"], wrong(who["counts"])), label


def test_the_readme_says_what_follows_from_the_report() -> None:
    shown = " ".join((ROOT / "README.md").read_text("utf-8").split())
    said = sentences(load_report(PUBLISHED))
    assert len(said) == 5
    assert [sentence for sentence in said if sentence not in shown] == []
    assert f"results for corpus {WHOLE['corpus']['version']}." in shown


def accepted(who: dict[str, Any]) -> set[str]:
    """Return the questions on forbidden files of which a program accepts some."""
    answers = [a for role in who["roles"] if role["role"] in OPENING for a in role["answers"]]
    return {a["question"] for a in answers if a["failed"].get("text", {}).get("wrong-accept")}


def test_the_headline_is_what_anybody_counts_in_the_report() -> None:
    shown = " ".join((ROOT / "README.md").read_text("utf-8").split())
    others = [who for who in PROGRAMS if who["name"] != "reference"]
    projects, parsers = (len({who[key] for who in others}) for key in ("name", "parser"))
    most = max(who["due"] for who in others)
    words = [f"{len(others)} entry points of {projects} projects, which use {parsers} parsers"]
    words += [f"up to {most:,} cases each"]
    told = [(who["parser"], accepted(who)) for who in others if accepted(who)]
    for group, said in (
        ([parser for parser, taken in told if taken & LAYOUT], "accept files that the format forbids"),
        ([parser for parser, taken in told if not taken & LAYOUT and taken - REPEATED], "accept only other"),
        ([parser for parser, taken in told if taken <= REPEATED], "accept forbidden files only if they have"),
    ):
        words += [f"{len(group)} ({len(set(group))} parser{'s' * (len(set(group)) != 1)}) {said}"]
    for kind, said in (("wrong-content", "return wrong data"), ("wrong-reject", "reject files that the")):
        words += [f"{sum(bool(who['counts'].get(kind)) for who in others)} {said}"]
    opens = [who for who in others if OPENING & {role["role"] for role in who["roles"]}]
    clean = [who["label"] for who in opens if not any(wrong(who["counts"]).values())]
    words += clean[:4] or ["all programs that open files make"]
    words += [f"{len(clean)} of the {len(opens)} programs that open"] * bool(clean)
    words += [f"{len(others) - len(opens)} entry points do not open files"]
    assert [text for text in words if text not in shown] == []


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
