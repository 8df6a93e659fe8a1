"""The resource cases: budgets, sizes and headers. Runs of the suite measure what readers use."""

from __future__ import annotations

from safetensors_cases.framing import CAP
from safetensors_cases.resource.budgets import PREFETCH, SLACK
from safetensors_corpus import Manifest
from safetensors_corpus.author.file import HEAVY


def test_every_resource_case_has_a_budget_that_its_file_can_keep(manifest: Manifest) -> None:
    for case in manifest.cases:
        if case.kind != "resource":
            continue
        assert case.budget is not None, case.id
        assert set(case.budget) == {"seconds", "peak_bytes", "read_bytes"}
        header = int.from_bytes(bytes.fromhex(case.input.recipe[0]["hex"])[:8], "little")
        assert case.budget["peak_bytes"] in (SLACK, SLACK + 20 * header), case.id
        assert case.budget["read_bytes"] in (PREFETCH, PREFETCH + 2 * header), case.id
        assert header <= CAP or case.budget["peak_bytes"] == SLACK


def test_what_runs_every_time_is_small_and_not_much(manifest: Manifest) -> None:
    light = [case for case in manifest.cases if case.kind == "resource" and not case.heavy]
    assert all(case.size <= HEAVY for case in light)
    assert len([case for case in light if case.size > 1000]) <= 25


def test_headers_are_as_long_as_their_names_say(manifest: Manifest) -> None:
    sizes = {"1mb": 1_000_000, "5mb": 5_000_000, "25mb": 25_000_000, "100mb": CAP}
    checked = 0
    for case in manifest.cases:
        size = sizes.get(case.id.rpartition("-")[2])
        if case.kind == "resource" and size and "digits" not in case.id and "decimals" not in case.id:
            assert int.from_bytes(bytes.fromhex(case.input.recipe[0]["hex"])[:8], "little") == size, case.id
            checked += 1
    assert checked > 30
