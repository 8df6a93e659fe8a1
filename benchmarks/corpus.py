"""``python -m benchmarks corpus``: which readers with planted bugs the corpus alone tells apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from rich.progress import track

from safetensors_corpus.broken.correct.json import Refused
from safetensors_corpus.broken.matrix import cases_for
from safetensors_corpus.judging.answer import Answer
from safetensors_corpus.manifest import COMBINED, Case, load_manifest
from safetensors_corpus.perform import failure

from .fuzzer import Planted, Probe
from .fuzzer.conditional import PLANTED as CONDITIONAL
from .fuzzer.conditional import TWO_CONDITIONS as TWO
from .fuzzer.conditional_second import PLANTED as SECOND
from .fuzzer.conditional_second import TWO_CONDITIONS as TWO_SECOND
from .fuzzer.held_out import HARD

SETS: Mapping[str, Sequence[Planted]] = {"hard": HARD, "conditional": CONDITIONAL, "second": SECOND}
TWO_CONDITIONS = TWO | TWO_SECOND
FEW = 3
"""Files from which on it does not hang on a single one whether a bug is seen."""


@click.command()
@click.option("--set", "name", type=click.Choice(list(SETS)), default="conditional", show_default=True)
@click.option("--names", is_flag=True, help="Name those that nothing sees. Who writes cases must not look.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, readers included.")
def corpus(name: str, names: bool, as_json: bool) -> None:
    """Run readers with planted bugs over the corpus: how many it catches, with and without covering sets.

    \b
    hard         readers with a bug under a condition, as for the fuzzer
    conditional  60 more, for 20 of which two conditions must meet; written before the covering
                 sets by somebody who knew neither these nor the corpus
    second       40 more of the kind, written when the sets had been widened by what the first
                 60 showed, by somebody who knew none of all that
    """
    cases = [(case, case.read_input()) for case in cases_for(load_manifest(), "read")]
    readers = track(SETS[name], description=name, transient=True)
    found = {planted.name: caught(planted, cases) for planted in readers}
    single = {key: [case for case in ids if not _combined(case)] for key, ids in found.items()}
    rows = {"single cases": summary(single), "with covering sets": summary(found)}
    if as_json:
        click.echo(
            json.dumps({"set": name, "summary": rows, "failed": {k: len(v) for k, v in found.items()}})
        )
        return
    many = sum(_combined(case.id) for case, _ in cases)
    click.echo(f"{name}: {len(found)} readers, {len(cases):,} cases, {many:,} of them of covering sets")
    for title, row in rows.items():
        click.echo(
            f"  {title:<22} caught {row['caught']} ({100 * row['caught'] / len(found):.0f} %), "
            f"by one case {row['by 1']}, by two {row['by 2']}, by {FEW} or more {row['by more']}"
        )
    two = {key: ids for key, ids in found.items() if key in TWO_CONDITIONS}
    if two:
        click.echo(f"  of the {len(two)} with two conditions: {sum(map(bool, two.values()))} caught")
    unseen = [key for key, ids in found.items() if not ids]
    click.echo(f"  unseen: {', '.join(unseen) or 'none' if names else len(unseen)}")


def caught(planted: Planted, cases: Iterable[tuple[Case, bytes]]) -> list[str]:
    """Return the ids of the cases that a reader fails."""
    return [case.id for case, data in cases if failure(case, _answer(planted.read, data)) is not None]


def _combined(case: str) -> bool:
    return case.startswith(f"{COMBINED}/")


def _answer(read: Callable[[bytes, Probe], dict[str, Any]], data: bytes) -> Answer:
    try:
        content = read(data, Probe())
    except Refused as err:
        return Answer("reject", message=str(err))
    except Exception as err:  # any other stands for a crash
        return Answer("crash", message=str(err))
    return Answer("accept", "", content["tensors"], content["metadata"], has_metadata=True)


def summary(found: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Count the readers by the number of cases that they fail."""
    counts = Counter(min(len(ids), FEW) for ids in found.values())
    return {
        "caught": len(found) - counts[0],
        "by 1": counts[1],
        "by 2": counts[2],
        "by more": counts[FEW],
    }
