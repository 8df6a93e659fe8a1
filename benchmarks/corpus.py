"""``python -m benchmarks corpus``: counts how many readers with planted bugs the corpus catches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import click
from rich.progress import track

from proof.broken.matrix import cases_for
from proof.held_out import HELD_OUT, PARTS, TWO_CONDITIONS
from proof.planted import Planted, Probe
from safetensors_corpus.in_process import mismatch
from safetensors_corpus.judging.answer import Answer, Refused
from safetensors_corpus.manifest import COMBINED, Case, load_manifest

FEW = 3
"""If a reader fails at least this many cases, its detection does not depend on just one or two of them."""


@click.command()
@click.option(
    "--part", type=click.Choice(tuple(PARTS)), help="Part of the held-out set.  [default: all parts]"
)
@click.option(
    "--names",
    is_flag=True,
    help="List the readers that the corpus does not catch. Authors of cases must not see this list.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help=f"Print a JSON object with the name of each reader and how many cases it fails, up to {FEW}.",
)
def corpus(part: str | None, names: bool, as_json: bool) -> None:
    """Count the held-out readers that the corpus catches, with and without covering sets."""
    cases = [(case, case.read_input()) for case in cases_for(load_manifest(), "read")]
    # Reading stops after a few failed cases, and the summary has a row for single cases.
    cases.sort(key=lambda row: _combined(row[0].id))
    readers = track(PARTS[part] if part else HELD_OUT, description="held-out readers", transient=True)
    found = {planted.name: caught(planted, cases) for planted in readers}
    single = {key: [case for case in ids if not _combined(case)] for key, ids in found.items()}
    rows = {"single cases": summary(single), "with covering sets": summary(found)}
    if as_json:
        click.echo(json.dumps({"summary": rows, "failed": {k: len(v) for k, v in found.items()}}))
        return
    many = sum(_combined(case.id) for case, _ in cases)
    click.echo(
        f"{len(found)} held-out readers, {len(cases):,} cases, of which {many:,} belong to covering sets"
    )
    for title, row in rows.items():
        click.echo(
            f"  {title:<22} caught {row['caught']} ({100 * row['caught'] / len(found):.0f} %), "
            f"by one case {row['by 1']}, by two {row['by 2']}, by {FEW} or more {row['by more']}"
        )
    two = {key: ids for key, ids in found.items() if key in TWO_CONDITIONS}
    if two:
        click.echo(
            f"  of the {len(two)} readers whose bugs have two conditions: {sum(map(bool, two.values()))} "
            "caught"
        )
    unseen = [key for key, ids in found.items() if not ids]
    click.echo(f"  unseen: {', '.join(unseen) or 'none' if names else len(unseen)}")


def caught(planted: Planted, cases: Iterable[tuple[Case, bytes]]) -> list[str]:
    """Return the ids of the first cases that a reader fails, at most ``FEW``."""
    failed = (case.id for case, data in cases if mismatch(case, _answer(planted, data)) is not None)
    return list(islice(failed, FEW))


def _combined(case: str) -> bool:
    return case.startswith(f"{COMBINED}/")


def _answer(planted: Planted, data: bytes) -> Answer:
    try:
        content = planted.content(data, Probe())
    except Refused as err:
        return Answer("reject", message=str(err))
    except Exception as err:  # any other exception counts as a crash
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
