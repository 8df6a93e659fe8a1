"""Every form of the committed publication tells the same numbers: each is parsed here by itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import load_manifest
from safetensors_reports.audit.exports import badges, sarif_log, statements
from safetensors_reports.audit.inputs import load_report
from safetensors_reports.page.publish import well_known

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "reports" / "published"
WRONG = ("wrong-content", "wrong-accept", "wrong-reject")
LAYOUT = {"overlaps", "holes", "trailing", "outside", "backwards", "inside", "sizes"}
REPEATED = {"names", "reserved", "fields", "keys"}
HEADS = {"Readers": "reader", "Header listers": "lister", "Scanners and validators": "checker",
    "Writers": "writer", "Index loaders": "index", "Device loaders": "device"}  # fmt: skip
WHOLE: dict[str, Any] = json.loads((PUBLISHED / "report.json").read_text("utf-8"))
PROGRAMS: list[dict[str, Any]] = WHOLE["implementations"]
BY_LABEL = {who["label"]: who for who in PROGRAMS}


def against_text(failed: dict[str, dict[str, int]]) -> int:
    return sum(n for kind, n in failed.get("text", {}).items() if kind != "not-strict")


def rows_of_readme() -> Iterator[tuple[str, str, list[int]]]:
    """Yield role, label and numbers of each row of the published tables."""
    role = ""
    for line in (PUBLISHED / "README.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            role = HEADS.get(line[3:], "")
        elif role and line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            yield role, cells[0].strip("`"), [int(cell.replace(",", "")) for cell in cells[2:7]]


@pytest.mark.parametrize("who", PROGRAMS, ids=lambda who: who["label"])
def test_roles_add_up_to_the_counts_of_a_program(who: dict[str, Any]) -> None:
    failed: Counter[str] = Counter()
    for role in who["roles"]:
        failed.update({kind: n for kind, n in role["failed"].get("text", {}).items() if kind in WRONG})
    assert failed == {kind: n for kind, n in who["counts"].items() if kind in WRONG}
    assert sum(role["asked"] for role in who["roles"]) == who["due"]
    for role in who["roles"]:
        cells: Counter[str] = Counter()
        for cell in role["cells"]:
            cells.update(cell["failed"].get("text", {}))
        # A case that fails by rules of two areas stands in both.
        assert all(cells[kind] >= n for kind, n in role["failed"].get("text", {}).items())


def test_the_tables_tell_what_the_report_counts() -> None:
    rows = list(rows_of_readme())
    assert {(role, label) for role, label, _ in rows} == {
        (role["role"], who["label"]) for who in PROGRAMS for role in who["roles"]
    }
    for name, label, numbers in rows:
        (role,) = (role for role in BY_LABEL[label]["roles"] if role["role"] == name)
        official, ours = (sum(role["failed"].get(basis, {}).values()) for basis in ("official", "ours"))
        missed = role["failed"].get("text", {}).get("not-strict", 0)
        assert numbers == [against_text(role["failed"]), missed, official, ours, role["asked"]], label


class Bars(HTMLParser):
    """Collects what the comparison says of the cells that hold bars."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if "bars" in (told.get("class") or "").split() and told.get("aria-label"):
            self.told.append(str(told["aria-label"]))


def cell_texts(cell: dict[str, Any]) -> str:
    return f"{against_text(cell['failed']):,} of {cell['asked']:,} cases against the text"


def test_the_comparison_page_tells_what_the_report_counts() -> None:
    parser = Bars()
    parser.feed((PUBLISHED / "index.html").read_text("utf-8"))
    told = Counter(text.partition(": ")[2].partition(",  ")[0].split(" text")[0] for text in parser.told)
    wanted: Counter[str] = Counter()
    for who in PROGRAMS:
        for role in who["roles"]:
            cells = [role, *(c for c in role["cells"] if c["area"] not in role["unclaimed"])]
            wanted.update(cell_texts(cell).split(" text")[0] for cell in cells)
    assert told == wanted


def test_the_picture_tells_what_the_report_counts() -> None:
    told = Counter(
        re.findall(
            r"<title>[^<]*?: ([^<]*?cases against the text)",
            (PUBLISHED / "comparison.svg").read_text("utf-8"),
        )
    )
    wanted: Counter[str] = Counter()
    for who in PROGRAMS:
        if who["selector"].partition("==")[0] in well_known():
            for role in who["roles"]:
                wanted.update(cell_texts(c) for c in role["cells"] if c["area"] not in role["unclaimed"])
    assert told
    assert told <= wanted


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


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*/report.json")), ids=lambda path: path.parent.name)
def test_what_is_exported_tells_the_same_numbers(path: Path) -> None:
    report = load_report(path)
    shields = badges(report)
    stated = statements(report, {who.label: "a" * 64 for who in report.implementations})
    findings = Counter(finding.implementation for finding in report.findings)
    for who in report.implementations:
        failing = sum(n for kind, n in who.counts.items() if kind not in ("unsupported", "pass", "choice"))
        fine = who.due - failing - who.counts.get("unsupported", 0)
        if who.name != "reference":
            assert f"{fine:,}/{who.due:,} no fault shown" in str(shields[who.label])
        notes = json.dumps(stated[who.label])
        assert f'"due": {who.due},' in notes
        assert f'"no fault shown": {fine},' in notes or who.name == "reference"
        for kind in WRONG:
            mine = [f for f in report.findings if (f.implementation, f.verdict) == (who.label, kind)]
            # A case may break several rules, and counts once.
            assert sum(f.case_count for f in mine) >= who.counts.get(kind, 0)
            assert bool(mine) == bool(who.counts.get(kind))
    results = sarif_log(report)["runs"][0]["results"]
    assert len(results) == sum(findings.values())


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
        f"{len(clean)} of the {len(opens)} programs that open files do"
        if clean
        else "all programs that open files"
    ) in shown
    assert all(label in shown for label in clean[:4])


def test_no_program_was_asked_more_than_the_corpus_has() -> None:
    assert max(who["due"] for who in PROGRAMS) <= len(load_manifest().cases)
