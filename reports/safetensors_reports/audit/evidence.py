"""What a case shows: its file, the bytes at fault, and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetensors_corpus import ManifestError
from safetensors_reference import explain, rule_book
from safetensors_reference.faults import render_path
from safetensors_reference.hexview import hexview
from safetensors_reference.layout import draw_layout

from ..text import plural
from .stable import digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from safetensors_corpus import Case, Manifest
    from safetensors_reference import Fault

LARGEST = 64 << 10
"""Largest input in bytes that is explained; all stored files of the corpus are smaller."""


@dataclass(frozen=True)
class Evidence:
    """One input looked at.

    Attributes:
        code: fault code that speaks for the case, None where no fault of a file does.
        where: ``start`` and ``end`` in the file, ``path`` in the header and ``text``; None when not known.
        layout: the data buffer in one line, empty when it cannot be drawn.
        hex: the bytes around the fault, or the first ones; empty for an input that is no small file.
        data: the whole input, None for one that is no small file.
    """

    code: str | None = None
    where: dict[str, Any] | None = None
    layout: str = ""
    hex: str = ""
    data: bytes | None = None


def evidence_of(case: Case, rule: str) -> Evidence:
    """Explain the input of a case with a rule in mind."""
    codes = case_codes(case)
    first = codes[0] if codes else None
    plain = case.input.file is not None and not case.input.files
    if case.kind == "index" or not plain or case.size > LARGEST:
        return Evidence(first)
    try:
        data = case.read_input()
    except ManifestError:
        # A corpus without its files still has its rules, sizes and digests to tell.
        return Evidence(first)
    return evidence_in(data, codes, rule)


def evidence_in(data: bytes, codes: Sequence[str], rule: str) -> Evidence:
    """Explain a file; of several faults the one that ``rule`` and the expected ``codes`` are about."""
    seen = explain(data)
    fault = _fitting([*seen.faults, *seen.tolerated], codes, rule)
    layout = ""
    if seen.data_start is not None and seen.ranges:
        layout = draw_layout(seen.ranges, seen.size - seen.data_start)
    if fault is None:
        return Evidence(codes[0] if codes else None, None, layout, hexview(data, 0, 0), data)
    where = {
        "start": fault.start,
        "end": fault.end,
        "path": None if fault.path is None else render_path(fault.path),
        "text": fault.message,
    }
    return Evidence(fault.code, where, layout, hexview(data, fault.start, fault.end), data)


def _fitting(faults: Sequence[Fault], codes: Sequence[str], rule: str) -> Fault | None:
    """Return the fault to show; none for a file whose author expects no fault of it."""
    if not codes:
        return None
    ranked = sorted(faults, key=lambda f: (f.rule != rule, f.code not in codes))
    return ranked[0] if ranked else None


def case_codes(case: Case) -> tuple[str, ...]:
    """Return the fault codes that the author of a case names, under any option of its choice."""
    demands = [case.expect] if case.expect else list(case.options.values())
    return tuple(dict.fromkeys(code for demand in demands for code in demand.codes))


def expected_text(case: Case, profile: str | None) -> str:
    """Say in one line what a case demands."""
    demand, why = case.expect, ""
    if demand is None:
        option = rule_book().choices[case.choice or ""].expected(profile)
        if option is None or option not in case.options:
            return f"one of the options of choice {case.choice}: {', '.join(case.options)}"
        demand, why = case.options[option], f" [choice {case.choice}: {option}]"
    if demand.outcome == "reject":
        return f"reject ({', '.join(demand.codes)}){why}" if demand.codes else f"reject{why}"
    tensors = (demand.content or {}).get("tensors")
    if tensors is None:
        return f"accept{why}"
    return f"accept, {plural(len(tensors), 'tensor')}{why}"


def case_digest(case: Case) -> str:
    """Return the digest of what a case gives and asks; of a plain file that of its bytes."""
    if case.sha256 and case.action is None:
        return case.sha256
    files = [[item.path, item.sha256] for item in case.input.files]
    return digest([case.sha256, case.input.entry, files, dict(case.action) if case.action else None])


def stored_file(case: Case, manifest: Manifest) -> str | None:
    """Return the path of the input below the corpus, with forward slashes; None when none is stored."""
    path: Path | None = case.input.file
    if path is None or not path.is_relative_to(manifest.root):
        return None
    return path.relative_to(manifest.root).as_posix()
