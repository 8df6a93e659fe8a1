"""What a mutant is tried with: stored case files, what each profile demands of them, and in which order."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safetensors_reference import PROFILES, rule_book

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..manifest import Case, Expectation

STEPS = frozenset({"open", "read"})
"""Steps that the strict reader can take; a case that needs others says nothing about it."""


@dataclass(frozen=True)
class Probe:
    """One case file under one profile; ``demands`` lists the expectations of which one must be met."""

    id: str
    data: bytes
    profile: str
    demands: tuple[Expectation, ...]


def probes_of(cases: Iterable[Case]) -> list[Probe]:
    """Load the case files and return them as probes, those first that differ most from one another.

    Cases are grouped by what they are about, and each round takes the next case of each group, so that few
    probes have seen every kind of fault. Profiles matter for choices alone; of the other cases only the
    hardened profile comes early. The order depends on nothing but the cases.
    """
    usable = sorted((c for c in cases if _usable(c)), key=lambda c: (c.size, c.id))
    groups: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in usable:
        expect = case.expect
        about = (case.rules[0], case.choice, expect and expect.outcome, expect and expect.codes[:1])
        groups[about].append(case)
    rounds = [
        case
        for turn in range(max(map(len, groups.values()), default=0))
        for case in (g[turn] for _, g in sorted(groups.items(), key=repr) if turn < len(g))
    ]
    early: list[Probe] = []
    late: list[Probe] = []
    for case in rounds:
        data = case.read_input()
        for profile in sorted(PROFILES):
            probe = Probe(case.id, data, profile, tuple(_demands(case, profile)))
            (early if case.choice or profile == "hardened" else late).append(probe)
    return early + late


def _usable(case: Case) -> bool:
    """Tell whether a case is one stored file; what recipes make is too large to be read so often."""
    stored = case.input.file is not None and not case.input.files
    return stored and case.kind == "read" and not case.heavy and set(case.steps) <= STEPS


def _demands(case: Case, profile: str) -> Iterator[Expectation]:
    """Yield what ``profile`` allows: one expectation, or every option where it leaves the choice open."""
    if case.choice is None:
        assert case.expect is not None
        yield case.expect
        return
    option = rule_book().choices[case.choice].expected(profile)
    if option is None:
        yield from case.options.values()
    else:
        yield case.options[option]


def objection(explanation: Any, probe: Probe) -> str | None:
    """Say what is wrong with a reader's answer to a probe; None when it is what the case demands."""
    found = [_differs(explanation, demand, probe) for demand in probe.demands]
    return None if None in found else found[0]


def _differs(explanation: Any, demand: Expectation, probe: Probe) -> str | None:
    header = explanation.header
    if (header is not None) != (demand.outcome == "accept"):
        return "verdict"
    if header is not None:
        return None if _same(header, probe.data, demand.content or {}) else "content"
    codes = {fault.code for fault in explanation.faults}
    # The first code is the fitting one and the hardened reader has to find it; a tolerant profile may take
    # what stands behind it for the first fault.
    if probe.profile == "hardened":
        return None if demand.codes[0] in codes else "codes"
    return None if codes & set(demand.codes) else "codes"


def _same(header: Any, data: bytes, content: Mapping[str, Any]) -> bool:
    """Hold what the header says, and the bytes that it points at, against the content demanded."""
    if "tensors" not in content:
        return bool(len(header.tensors) == content["tensor_count"])
    body = data[header.data_start :]
    found = [
        (t.name, t.dtype, tuple(t.shape), t.nbytes, hashlib.sha256(body[t.begin : t.end]).hexdigest())
        for t in header.tensors.values()
    ]
    wanted = [
        (t["name"], t["dtype"], tuple(t["shape"]), t["nbytes"], t["sha256"]) for t in content["tensors"]
    ]
    # The order of tensors is the reader's own affair (API-03).
    return bool(header.metadata == content["metadata"]) and sorted(found) == sorted(wanted)
