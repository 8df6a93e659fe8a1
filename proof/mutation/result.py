"""The measured result, the reasons for all survivors, and a check that the two agree."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors_corpus import load_manifest

from .engine import Limits, Outcome, run_all
from .reader import probes_of, reader_loader, warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .mutants import Mutant
    from .reader import Probe

REASONS = Path(__file__).with_name("survivors.toml")
CLASSES = ("equivalent", "report", "position", "message", "unreachable", "wanted")
"""Classes of reasons, which ``survivors.toml`` explains; only ``wanted`` counts against the corpus."""


class UnsoundError(Exception):
    """The reader without any fault disagrees with a case, so nothing can be measured."""


@dataclass(frozen=True)
class Reason:
    """Reason why a mutant survives."""

    kind: str
    why: str


def result_path() -> Path:
    return Path(__file__).with_name("mutants.json")


def load_result(path: Path | None = None) -> dict[str, Any]:
    path = path or result_path()
    loaded: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return loaded


def load_reasons(path: Path = REASONS) -> dict[str, Reason]:
    """Load ``survivors.toml``. Raises ValueError for a repeated name or an unknown class."""
    out: dict[str, Reason] = {}
    for row in tomllib.loads(path.read_text(encoding="utf-8")).get("reason", []):
        if row["class"] not in CLASSES or not row["why"]:
            raise ValueError(f"{path.name}: class {row['class']!r} is not one of {', '.join(CLASSES)}")
        for name in row["mutants"]:
            if name in out:
                raise ValueError(f"{path.name}: {name} appears twice")
            out[name] = Reason(row["class"], row["why"])
    return out


def measure(
    mutants: Sequence[Mutant],
    known: Mapping[str, str],
    jobs: int = 2,
    tell: Callable[[int], None] = lambda _done: None,
) -> dict[str, Outcome]:
    """Run the mutants over the stored cases of the corpus.

    Args:
        mutants: the mutants.
        known: mutant -> case that killed it in the previous run; that case runs first, for stable results.
        jobs: number of parallel processes.
        tell: called with the number of finished mutants.

    Raises:
        UnsoundError: the reader itself fails a case.
    """
    warm()
    probes = probes_of(load_manifest().cases)
    ((_, sound),) = run_all([("", reader_loader(None), probes)], Limits())
    if sound.status != "survived":
        raise UnsoundError(f"the unmodified reader disagrees with case {sound.probe} ({sound.how})")
    by_case: defaultdict[str, list[Probe]] = defaultdict(list)
    for probe in probes:
        by_case[probe.id].append(probe)
    work = ((m.name, reader_loader(m), [*by_case.get(known.get(m.name, ""), ()), *probes]) for m in mutants)
    out: dict[str, Outcome] = {}
    for name, outcome in run_all(work, Limits(), jobs):
        out[name] = outcome
        tell(len(out))
    return out


def result_of(
    mutants: Iterable[Mutant], outcomes: Mapping[str, Outcome], reasons: Mapping[str, Reason]
) -> dict[str, Any]:
    """Return the results of a run in the form of ``mutants.json``.

    ``score`` is the share of killed mutants among those that any case file could distinguish from the reader.
    ``equivalent`` counts the others, by class in ``reasons``. Mutants that cannot be loaded are not counted.
    """
    survivors = []
    for mutant in sorted(mutants, key=lambda m: sort_key(m.name)):
        if outcomes[mutant.name].status == "survived":
            reason = reasons.get(mutant.name, Reason("wanted", ""))
            row = {"name": mutant.name, "before": mutant.before, "after": mutant.after}
            survivors.append({**row, "class": reason.kind, "reason": reason.why})
    killers = {n: o.probe for n, o in outcomes.items() if o.status == "killed"}
    classes = Counter(s["class"] for s in survivors)
    equivalent = len(survivors) - classes["wanted"]
    reached = len(killers) + classes["wanted"]
    return {
        "mutants": len(killers) + len(survivors),
        "killed": len(killers),
        "equivalent": equivalent,
        "reasons": {c: classes[c] for c in CLASSES},
        "score": round(len(killers) / reached, 4) if reached else 1.0,
        "stillborn": sorted((n for n, o in outcomes.items() if o.status == "stillborn"), key=sort_key),
        "survivors": survivors,
        "killers": {n: killers[n] for n in sorted(killers, key=sort_key)},
    }


def sort_key(name: str) -> tuple[object, ...]:
    module, function, operator, number = name.split(":")
    return module, function, operator, int(number)


def render(result: Mapping[str, Any]) -> str:
    return json.dumps(result, indent=1, ensure_ascii=True) + "\n"


def problems(
    outcomes: Mapping[str, str], reasons: Mapping[str, Reason], modules: Iterable[str] | None = None
) -> list[str]:
    """Describe where the reasons and the outcomes (name -> status) disagree, in either direction.

    ``modules`` limits the check to the reasons of some modules, for a run of only these modules.
    """
    within = None if modules is None else set(modules)
    survivors = [name for name, status in outcomes.items() if status == "survived"]
    out = [f"survives without a reason: {name}" for name in survivors if name not in reasons]
    for name in reasons:
        if within is not None and name.split(":")[0] not in within:
            continue
        if name not in outcomes:
            out.append(f"has a reason but no longer exists: {name}")
        elif outcomes[name] != "survived":
            out.append(f"has a reason to survive but is {outcomes[name]}: {name}")
    return sorted(out)
