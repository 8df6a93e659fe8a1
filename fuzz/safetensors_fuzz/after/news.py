"""What a file would add to the corpus: mutants of the strict reader that it kills, failures nobody shows yet.

Both are measured here and now, against the results that are committed for the cases there are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from safetensors_corpus import Case, Expectation
from safetensors_corpus.broken import matrix
from safetensors_corpus.mutation.engine import Limits, run_all
from safetensors_corpus.mutation.probes import Probe, objection, probes_of
from safetensors_corpus.mutation.result import all_mutants, load_result, reader_loader
from safetensors_corpus.mutation.targets import warm
from safetensors_reference import explain
from safetensors_reference.rules.book import ProfileName


@dataclass(frozen=True)
class News:
    """What is new about a case.

    Attributes:
        mutants: surviving mutants of the strict reader that it kills: name -> what the fault changes.
        variants: broken readers that fail it.
        alike: cases of the same primary code, or accepting ones, that the same broken readers fail.
        compared: how many cases it was held against.
    """

    mutants: Mapping[str, str]
    variants: tuple[str, ...]
    alike: tuple[str, ...]
    compared: int

    @property
    def anything(self) -> bool:
        """True when there is a reason to keep the case."""
        return bool(self.mutants) or (bool(self.variants) and not self.alike)

    @property
    def lines(self) -> list[str]:
        """Say it to people."""
        out = [f"kills mutant {name}: {change}" for name, change in self.mutants.items()]
        out = out or ["kills no surviving mutant of the strict reader"]
        count = len(self.variants)
        fail = "1 broken reader fails" if count == 1 else f"{count} broken readers fail"
        if not count:
            out.append("no broken reader fails it")
        elif self.alike:
            out.append(f"the same {fail} {', '.join(self.alike[:3])}")
        else:
            shown = ", ".join(self.variants[:6]) + (" …" if count > 6 else "")
            out.append(f"{fail} it, a set that none of {self.compared} cases has: {shown}")
        return out


def disagreement(case: Case) -> str | None:
    """Say what the strict reader has against the expectation of a case; None for nothing."""
    for probe in probes_of([case]):
        explanation = explain(probe.data, cast(ProfileName, probe.profile))
        if objection(explanation, probe):
            codes = ", ".join(sorted({f.code for f in explanation.faults})) or "no fault"
            return f"under profile {probe.profile} it finds {codes}"
    return None


def look_for_news(case: Case, cases: Iterable[Case], folder: Path, jobs: int = 2) -> News:
    """Find out what a case adds.

    Args:
        case: the new case; its file must be there.
        cases: the cases there are.
        folder: where ``matrix.json`` and ``mutants.json`` lie.
        jobs: processes at a time.

    Raises OSError and ValueError when the committed results cannot be used.
    """
    rows = [row for row in matrix.load(folder / matrix.FILE) if row.kind == "read"]
    failing = failing_variants(case, {row.name for row in rows})
    near = [c.id for c in cases if c.kind == "read" and not c.heavy and _codes(c) & _codes(case)]
    vectors = {name: frozenset(row.name for row in rows if name in row.fails) for name in near}
    alike = tuple(name for name, vector in vectors.items() if vector == frozenset(failing))
    return News(killed_mutants(case, folder, jobs), tuple(sorted(failing)), alike, len(near))


def _codes(case: Case) -> set[str]:
    """Return the primary code of each refusing expectation, the empty one for an accepting one."""
    expectations: Sequence[Expectation] = (
        [case.expect] if case.expect is not None else list(case.options.values())
    )
    return {e.codes[0] if e.codes else "" for e in expectations}


def failing_variants(case: Case, known: Collection[str]) -> list[str]:
    """Return the broken readers, of those that the committed matrix knows, that fail a case."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            variant.name
            for variant in matrix.light_variants()
            if variant.name in known and matrix.why(variant.make(), case, Path(folder)) is not None
        ]


def killed_mutants(case: Case, folder: Path, jobs: int) -> dict[str, str]:
    """Return the mutants that survive the corpus but not this case: name -> what the fault changes."""
    survivors = {row["name"] for row in load_result(folder / "mutants.json").get("survivors", ())}
    mutants = {m.name: m for m in all_mutants() if m.name in survivors}
    probes: list[Probe] = probes_of([case])
    warm()
    work = ((name, reader_loader(mutant), probes) for name, mutant in mutants.items())
    killed = {name for name, outcome in run_all(work, Limits(), jobs) if outcome.status == "killed"}
    return {name: f"{m.before} -> {m.after}" for name, m in mutants.items() if name in killed}
