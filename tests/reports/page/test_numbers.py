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
WHOLE: dict[str, Any] = json.loads((PUBLISHED / "report.json").read_text("utf-8"))
PROGRAMS: list[dict[str, Any]] = WHOLE["implementations"]
BY_LABEL = {who["label"]: who for who in PROGRAMS}
SHOWN = " ".join((ROOT / "README.md").read_text("utf-8").split())


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
        assert own[label]["counts"] | {"unsafe": 0} == who["counts"] | {"unsafe": 0}
        for row in (listed[label], newest[label]):
            # Threads and costs are left out of histories; neither breaks the text.
            assert (row["asked"], wrong(row["counts"])) == (who["due"], wrong(who["counts"])), label


def test_the_readme_says_what_follows_from_the_report() -> None:
    said = sentences(load_report(PUBLISHED))
    assert len(said) == 5
    assert [sentence for sentence in said if sentence not in SHOWN] == []
    assert f"results for corpus {WHOLE['corpus']['version']}." in SHOWN


def test_the_example_of_the_readme_is_in_the_comparison() -> None:
    found = re.search(
        r"`(\S+)` (\S+) lists the tensors of a file, and `(\S+)` (\S+) loads them. Of the (\S+) files in the "
        r"\S+ \S+, both accept (\S+) but read different content. For another (\S+) files, one of the two",
        SHOWN,
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
