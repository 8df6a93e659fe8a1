"""Evidence for the verdict on a case, as strings for terminals, pytest, records and reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from safetensors_corpus import Case, Manifest, ManifestError
from safetensors_corpus.judging.verdicts import fails
from safetensors_corpus.typed import Count
from safetensors_reference import Fault, explain, rule_book
from safetensors_reference.header.explain import draw_layout
from safetensors_reference.rules.faults import render_path
from safetensors_reference.text import hexview

from .text import digest, plural, visible

MAX_GOT = 300
MAX_EXPLAINED = 64 << 10
"""Maximum size in bytes of an input that is explained; all stored files of the corpus are smaller."""


class Where(Struct):
    """The bytes at fault.

    Attributes:
        end: One past the last byte; it equals start for a position between bytes.
        path: JSONPath in the header.
    """

    start: Count
    end: Count
    path: str | None
    text: str


@dataclass(frozen=True)
class Evidence:
    """Explanation of one input; fields that need a small single file are empty for other inputs."""

    code: str | None = None
    where: Where | None = None
    layout: str = ""
    hex: str = ""
    data: bytes | None = None


@lru_cache(maxsize=1 << 12)
def evidence_of(case: Case, rule: str) -> Evidence:
    codes = case.codes
    first = codes[0] if codes else None
    single = case.input.file is not None and not case.input.files
    if case.kind == "index" or not single or case.size > MAX_EXPLAINED:
        return Evidence(first)
    try:
        data = case.read_input()
    except ManifestError:
        # A corpus without its files still has rules, sizes and digests.
        return Evidence(first)
    return evidence_in(data, codes, rule)


def evidence_in(data: bytes, codes: Sequence[str], rule: str) -> Evidence:
    explanation = explain(data)
    fault = _fitting([*explanation.faults, *explanation.tolerated], codes, rule)
    layout = ""
    if explanation.data_start is not None and explanation.ranges:
        layout = draw_layout(explanation.ranges, explanation.size - explanation.data_start)
    if fault is None:
        return Evidence(codes[0] if codes else None, None, layout, hexview(data, 0, 0), data)
    path = None if fault.path is None else render_path(fault.path)
    where = Where(fault.start, fault.end, path, fault.message)
    return Evidence(fault.code, where, layout, hexview(data, fault.start, fault.end), data)


def _fitting(faults: Sequence[Fault], codes: Sequence[str], rule: str) -> Fault | None:
    if not codes:
        return None

    def rank(fault: Fault) -> tuple[bool, int, bool]:
        place = codes.index(fault.code) if fault.code in codes else len(codes)
        return fault.rule != rule or place == len(codes), place, fault.rule != rule

    return min(faults, key=rank, default=None)


def expected_text(case: Case, profile: str | None) -> str:
    demand, why = case.expect, ""
    if demand is None:
        option = rule_book().choices[case.choice or ""].expected(profile)
        if option is None or option not in case.options:
            return f"one of the options of choice {case.choice}: {', '.join(case.options)}"
        under = f", profile {profile}" if profile else ""
        demand, why = case.options[option], f" [choice {case.choice}: {option}{under}]"
    if demand.outcome == "reject":
        return f"reject ({', '.join(demand.codes)}){why}" if demand.codes else f"reject{why}"
    content = demand.content or {}
    count = content.get("tensor_count", len(content["tensors"]) if "tensors" in content else None)
    return f"accept{why}" if count is None else f"accept, {plural(count, 'tensor')}{why}"


def got_text(row: Mapping[str, Any]) -> str:
    outcome, detail, message = row["outcome"], row.get("detail") or "", row.get("message") or ""
    if fails(row["verdict"], strict=True) and detail:
        return visible(detail if detail.startswith(outcome) else f"{outcome}, but {detail}", MAX_GOT)
    if outcome != "accept":
        return visible(f"{outcome}: {message}" if message else outcome, MAX_GOT)
    content = row.get("content") or {}
    tensors = content.get("tensors")
    count = None if tensors is None else content.get("tensor_count", len(tensors))
    return "accept" if count is None else f"accept, {plural(count, 'tensor')}"


def reproducer(
    selector: str, case_ids: str | Sequence[str], profile: str | None, device: str | None = None
) -> str:
    parts = ["stc", "run", "--impl", selector]
    for case_id in [case_ids] if isinstance(case_ids, str) else case_ids:
        parts += ["--case", case_id]
    parts += ["--profile", profile] if profile else []
    parts += ["--device", device] if device else []
    return shlex.join(parts)


def case_digest(case: Case) -> str:
    if case.sha256 and case.action is None:
        return case.sha256
    files = [[item.path, item.sha256] for item in case.input.files]
    return digest([case.sha256, case.input.entry, files, dict(case.action) if case.action else None])


def stored_file(case: Case, manifest: Manifest) -> str | None:
    path: Path | None = case.input.file
    if path is None or not path.is_relative_to(manifest.root):
        return None
    return path.relative_to(manifest.root).as_posix()
