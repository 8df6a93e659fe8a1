"""The benchmark of the audit runs, counts what a server is asked, and finds every row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.audit import AUDIT, audit

pytestmark = pytest.mark.nightly


def rows(*arguments: str) -> list[dict[str, Any]]:
    run = CliRunner().invoke(
        audit, ["--files", "30", "--tensors", "3", "--rounds", "1", "--json", *arguments]
    )
    assert run.exit_code == 0, run.output
    found: list[dict[str, Any]] = json.loads(run.output)
    return found


def test_ways_are_compared_in_one_run() -> None:
    found = {row["way"]: row for row in rows()}
    assert {AUDIT, "stc check -q", "safe_open", "huggingface_hub"} <= set(found)
    assert found[AUDIT]["wall x audit"] == found[AUDIT]["processor x audit"] == 1


def test_names_beyond_the_files_are_other_spellings() -> None:
    first, again = rows("--names", "1000")
    assert (first["rows"], again["rows"]) == (1000, 1000)


def test_each_file_behind_a_server_costs_a_request() -> None:
    pytest.importorskip("aiohttp")
    (row,) = rows("--latency", "1")
    assert (row["requests"], row["verdicts"]) == (30, "valid")
