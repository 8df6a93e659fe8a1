"""``python -m tools.covering``: searches for rows that cover all possible pairs of levels.

The search never removes or changes committed rows; it only adds missing rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

import click
import covertable
from rich.progress import track

from safetensors_cases.surroundings.model import Model, Row
from safetensors_cases.surroundings.sets import FILE, MODELS, rows, topics

PAGE = Path(__file__).parents[1] / "docs" / "covering.md"
_HEAD = """\
<!-- Made by python -m tools.covering; do not edit. -->
# Covering sets

A reader may have a special code path for something ordinary, such as the first tensor, an empty tensor, a
header without padding, metadata after the tensors, or a string of more than 4,096 bytes. A file that
isolates a fault does not reveal a bug on such a path. The covering sets therefore combine ordinary
properties. A model lists properties of a file and the levels of each property. A topic is a valid file or a
single fault, and each topic has a set of files. Every possible pair of levels of different properties occurs
in some file of the set. In the sets of valid files, every triple of the most important properties also
occurs.

The id of a case consists of the topic and the unusual levels. For example, the file of the case
`surroundings/hole-of-one-last-r3-u8-tight` has a hole of one byte before the last tensor, which has three
dimensions and dtype U8, and its header is not padded. A search with
[covertable](https://pypi.org/project/covertable/) produces the sets. They are committed in `covering.txt`
next to the models, and a test counts the combinations independently. The sets form the `surroundings` area
of the corpus.

| model | topics | files | combinations | covered | files needed for the full product |
| --- | --: | --: | --: | --: | --: |
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Only report missing pairs and whether the page is outdated.")
def covering(check: bool) -> None:
    """Extend the covering sets (covering.txt) until they contain every combination.

    The command also writes docs/covering.md. With --check, the exit status is 1 if anything would change.
    """
    try:
        known = rows(None if FILE.exists() else "")
    except ValueError as err:
        raise click.ClickException(str(err)) from err
    of = topics()
    found: dict[str, list[dict[str, str]]] = {}
    due = {topic: model.feasible(topic) for topic, model in of.items()}
    missing, total = 0, sum(map(len, due.values()))
    for topic, model in track(of.items(), description="sets", total=len(of), transient=True):
        left = due[topic] - model.covered(topic, known[topic])
        missing += len(left)
        found[topic] = extended(model, topic, known[topic]) if left else known[topic]
        if lost := due[topic] - model.covered(topic, found[topic]):
            raise click.ClickException(
                f"{topic}: the search did not cover {len(lost)} combinations, e.g. {min(lost)}"
            )
    for model in MODELS:
        joint = model.joint_faults()
        missing += len(joint.keys() - model.covered_jointly(known))
        total += len(joint)
        for chosen in sorted(joint.keys() - model.covered_jointly(found)):
            fault = min(joint[chosen], key=lambda name: len(found[name]))
            usual = {name: levels[0] for name, levels in model.levels(fault).items()}
            found[fault] = [*found[fault], usual | dict(zip(model.joint, chosen, strict=True))]
    page = written(found, {topic: len(need) for topic, need in due.items()})
    if check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page
        click.echo(
            f"{missing:,} of {total:,} combinations are missing; {PAGE.name} is {'not ' * stale}current"
        )
        raise SystemExit(missing > 0 or stale)
    lines = [f"{topic} {model.slug(row)}" for topic, model in of.items() for row in found[topic]]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    PAGE.write_text(page, encoding="utf-8")
    click.echo(f"{len(lines):,} rows for {total:,} combinations, of which {missing:,} were missing before")


def extended(model: Model, topic: str, known: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the known rows of a topic, followed by rows that cover the remaining combinations."""
    domain = {name: list(found) for name, found in model.levels(topic).items()}
    constraints = [
        {"operator": "fn", "requires": list(e.properties), "evaluate": lambda row, e=e: not e.meets(row)}
        for e in model.exclusions
    ]
    usable = [row for row in known if all(row[name] in found for name, found in domain.items())]
    core = [] if model.topics[topic].codes else [{"fields": list(model.core), "strength": 3}]
    made = covertable.make(
        domain, constraints=constraints, presets=usable, salt=topic, sub_models=core if model.core else None
    )
    new = [{name: str(row[name]) for name in domain} for row in made]
    return [*known, *(row for row in new if row not in known)]


def written(found: Mapping[str, Sequence[Row]], due: Mapping[str, int]) -> str:
    return _HEAD + "".join(f"{line}\n" for line in _lines(found, due))


def _lines(found: Mapping[str, Sequence[Row]], due: Mapping[str, int]) -> Iterator[str]:
    for model in MODELS:
        topics = model.topics
        files, need = (sum(len(found[t]) for t in topics), sum(due[t] for t in topics))
        have = sum(len(model.covered(t, found[t])) for t in topics)
        every = sum(prod(map(len, model.levels(t).values())) for t in topics)
        yield f"| {model.name} | {len(topics)} | {files:,} | {need:,} | {have:,} | {_rounded(every)} |"
    for model in MODELS:
        yield from (
            "",
            f"## {model.name.capitalize()}",
            "",
            "| property | usual | other levels and their meaning |",
            "| --- | --- | --- |",
        )
        for name, prop in model.properties.items():
            usual, *others = prop.levels
            around = prop.around_faults or tuple(prop.levels)
            words = "; ".join(
                f"`{level}`{'' if level in around else '¹'} {prop.levels[level]}" for level in others
            )
            yield f"| {name}: {prop.about} | `{usual}` | {words} |"
        if any(prop.around_faults for prop in model.properties.values()):
            yield from ("", "¹ Only in valid files.")
        if model.exclusions:
            excluded = dict.fromkeys(f"{', '.join(e.properties)}: {e.why}" for e in model.exclusions)
            yield from ("", "The model excludes these combinations of levels, each for the reason given:", "")
            yield from (f"- {combination}" for combination in excluded)
        if model.joint:
            *names, last = model.joint
            yield from (
                "",
                f"Every permitted combination of {', '.join(names)} and {last} occurs around some fault.",
            )
        yield from ("", "| topic | files | about | rule |", "| --- | --: | --- | --- |")
        for topic, about in model.topics.items():
            rules = dict.fromkeys(about.rules_of(row)[0] for row in found[topic])
            said = ", ".join(rules) if about.codes else "valid"
            yield f"| `{topic}` | {len(found[topic])} | {about.about} | {said} |"


def _rounded(number: int) -> str:
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.0f} million"


if __name__ == "__main__":
    covering(prog_name="python -m tools.covering")
