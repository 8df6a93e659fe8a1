"""``python -m proof.promote``: turn a finding into a case of the corpus, with its origin.

Cases are permanent, so the command refuses a finding that shows nothing new, and explains why.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click
import tomlkit
from tomlkit.items import Array

from proof.broken import matrix
from proof.mutation.engine import Limits, run_all
from proof.mutation.reader import objection, probes_of, reader_loader, reader_mutants, warm
from proof.mutation.result import load_result
from safetensors_cases.from_fuzzing import case_of
from safetensors_corpus import Case, Manifest, ManifestError, load_manifest, recipe
from safetensors_corpus.author.case import AREAS
from safetensors_corpus.judging.verdicts import SECURITY, kind_of
from safetensors_fuzz.finding import Finding, FindingError, blamed_selector, load
from safetensors_fuzz.loop.question import opinion
from safetensors_fuzz.plans.question import fuzzed_case
from safetensors_reference import PROFILES, explain, rule_book
from safetensors_reference.main import UnusableError
from safetensors_reference.rules.book import ProfileName
from safetensors_reports.text import visible

ROOT = Path(__file__).parents[1]
MATRIX = "proof/broken/matrix.json"
MUTANTS = "proof/mutation/mutants.json"
READ_AREAS = {"FRM": "framing", "HDR": "header", "ENT": "entry", "DTY": "dtype", "SHP": "shape"}
READ_AREAS |= {"OFF": "layout", "MET": "metadata", "DAT": "data"}


@dataclass(frozen=True)
class News:
    """Contribution of a new case.

    Attributes:
        mutants: name and fault of each surviving mutant of the strict reader that the case kills.
        variants: broken readers that fail the case.
        alike: existing cases that exactly the same broken readers fail. They have a code in common with the
            case, or both expect the file to be accepted.
        compared: number of cases in the comparison.
    """

    mutants: Mapping[str, str]
    variants: tuple[str, ...]
    alike: tuple[str, ...]
    compared: int

    @property
    def anything(self) -> bool:
        return bool(self.mutants) or (bool(self.variants) and not self.alike)

    @property
    def lines(self) -> list[str]:
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
            out.append(f"{fail} it, and none of {self.compared} cases has exactly this set: {shown}")
        return out


def disagreement(case: Case) -> str | None:
    """Return the strict reader's objection to the expectation of a case, or None."""
    for probe in probes_of([case]):
        explanation = explain(probe.data, cast(ProfileName, probe.profile))
        if objection(explanation, probe):
            codes = ", ".join(sorted({f.code for f in explanation.faults})) or "no fault"
            return f"under profile {probe.profile} the reader finds {codes}"
    return None


def look_for_news(case: Case, cases: Iterable[Case], root: Path, jobs: int = 2) -> News:
    """Determine the contribution of a case.

    Args:
        case: the new case; its file must exist.
        cases: the existing cases.
        root: the checkout.
        jobs: number of processes.

    Raises OSError and ValueError if the committed results cannot be used.
    """
    known = list(cases)
    rows = [row for row in matrix.load((c.id for c in known), root / MATRIX) if row.kind == "read"]
    failing = failing_variants(case, {row.name for row in rows})
    near = [c.id for c in known if c.kind == "read" and not c.heavy and _codes(c) & _codes(case)]
    vectors = {name: frozenset(row.name for row in rows if name in row.fails) for name in near}
    alike = tuple(name for name, vector in vectors.items() if vector == frozenset(failing))
    return News(killed_mutants(case, root, jobs), tuple(sorted(failing)), alike, len(near))


def _codes(case: Case) -> set[str]:
    return {demand.codes[0] if demand.codes else "" for demand in case.demands}


def failing_variants(case: Case, known: Collection[str]) -> list[str]:
    """Return the broken readers of the committed matrix that fail a case."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            variant.name
            for variant in matrix.light_variants()
            if variant.name in known and matrix.why(variant.make(), case, Path(folder)) is not None
        ]


def killed_mutants(case: Case, root: Path, jobs: int) -> dict[str, str]:
    """Return the mutants that survive the corpus but not this case, as name -> the fault."""
    survivors = {row["name"] for row in load_result(root / MUTANTS).get("survivors", ())}
    mutants = {m.name: m for m in reader_mutants() if m.name in survivors}
    probes = probes_of([case])
    warm()
    work = ((name, reader_loader(mutant), probes) for name, mutant in mutants.items())
    killed = {name for name, outcome in run_all(work, Limits(), jobs) if outcome.status == "killed"}
    return {name: f"{m.before} -> {m.after}" for name, m in mutants.items() if name in killed}


READING = ("open", "read")
"""Steps whose findings can become cases."""


class PromotionError(Exception):
    """The finding cannot become a case; the message gives the reason."""


def input_of(finding: Finding) -> bytes:
    """Return the file for the case. Raises PromotionError for a finding of another kind."""
    if finding.step not in READING:
        raise PromotionError(
            f"it was found at step {finding.step}; only findings of open and read can be promoted. Write "
            "the case by hand as described in docs/add-a-case.md"
        )
    if list(finding.files) != [finding.entry] or finding.action is not None:
        raise PromotionError("it consists of more than one file; write the case by hand")
    return finding.files[finding.entry]


def entry_of(
    finding: Finding, case_id: str | None = None, title: str | None = None, issue: str | None = None
) -> dict[str, Any]:
    """Return the row of ``found.toml`` for a finding. Raises PromotionError."""
    known = rule_book().rules
    rules = [rule for rule in finding.rules if rule in known]
    if not rules:
        raise PromotionError(
            "the finding's rule is not known; write the case by hand as described in docs/add-a-case.md"
        )
    data, expectation = input_of(finding), finding.expectation
    area = READ_AREAS.get(rules[0][:3], "data")
    row: dict[str, Any] = {
        # The digest is converted to a number, because hexadecimal digits can spell words that an id must not
        # contain.
        "id": case_id or f"{area}/found-{int(finding.digest[:8], 16)}",
        "title": title or f"A file found by fuzzing that concerns {rules[0]}: {known[rules[0]].title}.",
        "rules": rules,
        "level": expectation.get("level") or known[rules[0]].level,
        "importance": "high" if kind_of(finding.verdict) in SECURITY else "medium",
        "steps": list(READING),
        "bytes": _readable(data),
    }
    contents: list[Any] = []
    if "choice" in expectation:
        options: Mapping[str, Any] = expectation["options"]
        row |= {"choice": expectation["choice"]}
        row["options"] = {name: list(option.get("codes", ())) for name, option in options.items()}
        contents = [o["content"] for o in options.values() if o["outcome"] == "accept"]
        if any(content != contents[0] for content in contents):
            raise PromotionError("its options require different contents; write the case by hand")
    elif expectation["outcome"] == "reject":
        row["codes"] = list(expectation["codes"])
    else:
        contents = [expectation["content"]]
    if contents:
        row |= _content(data, contents[0])
    row["source"] = {"engine": finding.engine or "hand", "seed": finding.seed, "found_on": _found_on(finding)}
    if issue:
        row["source"]["issue"] = issue
    return row


def primary_first(finding: Finding) -> Finding:
    """Return the finding with the codes of its first rule in front."""
    codes = list(finding.expectation.get("codes", ()))
    rule = rule_book().rules.get(finding.rules[0]) if finding.rules else None
    if rule is None or not codes:
        return finding
    codes.sort(key=lambda code: code not in rule.codes)
    return replace(finding, expectation={**finding.expectation, "codes": codes})


def _found_on(finding: Finding) -> str:
    selector = blamed_selector(finding)
    shown = re.sub(r"[^\s:]*/", "", selector)
    version = finding.versions.get(selector, "")
    return f"{shown.partition('==')[0]} {version}" if version else shown or "unknown"


def _readable(data: bytes) -> list[dict[str, Any]]:
    """Return a recipe of a file, divided into length, header and data."""
    end = 8 + int.from_bytes(data[:8], "little") if len(data) >= 8 else len(data)
    pieces = [data[:8], data[8:end], data[end:]] if end <= len(data) else [data[:8], data[8:]]
    rest = (part for piece in pieces[1:] for part in recipe.from_bytes(piece))
    return [{"hex": data[:8].hex()}, *(part for mixed in rest for part in _apart(mixed))]


def _apart(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "hex" not in part:
        yield part
        return
    for piece in re.split(rb"([ -~]{8,})", bytes.fromhex(part["hex"])):
        if piece:
            text = len(piece) >= 8 and piece.isascii() and piece.decode().isprintable()
            yield {"text": piece.decode()} if text else {"hex": piece.hex()}


def _content(data: bytes, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata and tensors with the bytes that match the expected digests. Raises PromotionError."""
    header = explain(data, "text").header or explain(data, "official").header
    if header is None or "tensors" not in content:
        raise PromotionError("its content cannot be determined; write the case by hand")
    tensors = []
    for told in content["tensors"]:
        place = header.tensors.get(told["name"])
        start = 8 + header.length
        held = b"" if place is None else data[start + place.begin : start + place.end]
        if hashlib.sha256(held).hexdigest() != told["sha256"]:
            raise PromotionError(
                f"the file contains no bytes of tensor {told['name']!r} with the required digest"
            )
        tensors.append(
            {
                "name": told["name"],
                "dtype": told["dtype"],
                "shape": list(told["shape"]),
                "data": recipe.from_bytes(held),
            }
        )
    out: dict[str, Any] = {} if content.get("metadata") is None else {"metadata": dict(content["metadata"])}
    return {**out, "tensor": tensors}


def rendered(row: Mapping[str, Any]) -> str:
    """Return the TOML of one case, with one line per part of a recipe."""
    table = tomlkit.table()
    for key, value in row.items():
        if key == "tensor":
            tensors = tomlkit.aot()
            for tensor in value:
                inner = tomlkit.table()
                inner.update({k: _parts(v) if k == "data" else v for k, v in tensor.items()})
                tensors.append(inner)
            table.append(key, tensors)
        else:
            table.append(key, _parts(value) if key == "bytes" else value)
    document = tomlkit.document()
    cases = tomlkit.aot()
    cases.append(table)
    document.append("case", cases)
    return tomlkit.dumps(document)


def _parts(parts: list[dict[str, Any]]) -> Array:
    array = tomlkit.array().multiline(len(parts) > 1)
    for part in parts:
        inline = tomlkit.inline_table()
        for key, value in part.items():
            inline.append(key, _value(value))
        array.append(inline)
    return array


def _value(value: Any) -> Any:
    if isinstance(value, str) and '"' in value and "'" not in value:
        return tomlkit.string(value, literal=True)
    if not isinstance(value, dict):
        return value
    inline = tomlkit.inline_table()
    inline.update(value)
    return inline


VERDICT_WORDS = re.compile("valid|reject|accept|bad|good|wrong|refuse|correct|malicious|attack")
"""Words for the required behaviour. Ids must not contain them, because an id stays when the behaviour
changes.
"""


class NothingNewError(PromotionError):
    """The finding would add nothing to the corpus; the message names the existing case."""


@dataclass(frozen=True)
class Checkout:
    """A checkout of this project, which contains the sources of the corpus."""

    root: Path

    @property
    def found(self) -> Path:
        return self.corpus / "safetensors_cases" / "found.toml"

    @property
    def corpus(self) -> Path:
        return self.root / "corpus"

    @classmethod
    def at(cls, root: Path) -> Checkout:
        """Return the checkout in a folder. Raises PromotionError."""
        needed = ("corpus/corpus.json", MATRIX, MUTANTS, "corpus/safetensors_cases/found.toml")
        missing = [name for name in needed if not (root / name).is_file()]
        if missing:
            raise PromotionError(f"{root} is not a checkout of this project: {missing[0]} is missing")
        return cls(root)


@dataclass(frozen=True)
class Promotion:
    """A finding as a case: its row in ``found.toml``, the TOML text, and its contribution."""

    row: Mapping[str, Any]
    text: str
    news: News


def promote(
    finding: Finding,
    checkout: Checkout,
    *,
    case_id: str | None = None,
    title: str | None = None,
    issue: str | None = None,
    dry_run: bool = False,
) -> Promotion:
    """Add a finding to the sources of the corpus, unless it adds nothing.

    Args:
        finding: a finding of the step open or read.
        checkout: checkout to change.
        case_id: ``area/slug``; None to derive it from the rule's area and the digest.
        title: special property of the file, in one sentence.
        issue: URL of the public report of the bug.
        dry_run: True to write nothing.

    Raises:
        NothingNewError: existing cases already show everything that the finding shows.
        PromotionError: it cannot become a case.
        OSError: the sources cannot be read or written.
    """
    finding = primary_first(finding)
    data = input_of(finding)
    try:
        manifest = load_manifest(checkout.corpus)
    except ManifestError as err:
        raise PromotionError(str(err)) from err
    old = checkout.found.read_text(encoding="utf-8")
    _refuse_known(data, manifest, old)
    _refuse_open(finding, data)
    row = entry_of(finding, case_id, title, issue)
    _refuse_id(row["id"], manifest, old)
    try:
        case_of(row)
    except ValueError as err:
        raise PromotionError(f"the result is not a valid case: {err}") from err
    news = _news(finding, manifest, checkout.root)
    text = old.rstrip("\n") + "\n\n" + rendered(row)
    if tomllib.loads(text)["case"][-1] != row:
        raise PromotionError("TOML cannot represent it; a name or a value has characters that are not text")
    if not dry_run:
        part = checkout.found.with_name(checkout.found.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(checkout.found)
    return Promotion(row, rendered(row), news)


def _refuse_known(data: bytes, manifest: Manifest, found: str) -> None:
    """Raise NothingNewError if the bytes are already a case."""
    digest = hashlib.sha256(data).hexdigest()
    for case in manifest.cases:
        if case.kind in ("read", "resource") and case.sha256 == digest and case.size == len(data):
            raise NothingNewError(f"the same {len(data):,} bytes are already case {case.id}")
    for row in tomllib.loads(found).get("case", []):
        if recipe.expand(row["bytes"]) == data:
            raise NothingNewError(
                f"the same {len(data):,} bytes are case {row['id']}, which has not been built yet"
            )


def _refuse_open(finding: Finding, data: bytes) -> None:
    """Raise PromotionError if readers need not meet the expectation."""
    expectation = finding.expectation
    if "choice" in expectation:
        return
    # The strict reader's opinion is needed only to decide whether the answer may vary.
    views = [explain(data, profile) for profile in PROFILES]
    choices = set(opinion(data).choices) if opinion(data).required == "open" else set()
    if len({view.valid for view in views}) > 1:
        choices |= {f.choice for view in views for f in (*view.faults, *view.tolerated) if f.choice}
    if choices:
        raise PromotionError(
            f"the required answer depends on choice {', '.join(sorted(choices))}, but the expectation "
            "names none; write it by hand as a case of the choice"
        )
    if expectation.get("outcome") not in ("accept", "reject"):
        raise PromotionError("the finding requires neither accept nor reject, so there is nothing to expect")


def _refuse_id(case_id: str, manifest: Manifest, found: str) -> None:
    """Raise PromotionError if an id is malformed or was used before."""
    used = {row["id"] for row in manifest.raw["cases"]} | {
        row["id"] for row in tomllib.loads(found).get("case", [])
    }
    areas = [area for area, kind in AREAS.items() if kind == "read"]
    if not re.fullmatch(r"[a-z]+/[a-z0-9]+(-[a-z0-9]+)*", case_id) or case_id.partition("/")[0] not in areas:
        raise PromotionError(
            f"id {case_id!r} must be area/slug in lower case with hyphens; areas: {', '.join(areas)}"
        )
    if word := VERDICT_WORDS.search(case_id):
        raise PromotionError(
            f"id {case_id!r} states the required behaviour ({word[0]}), which may change while the id stays"
        )
    if case_id in used:
        raise PromotionError(f"id {case_id!r} is already used, and ids are permanent")


def _news(finding: Finding, manifest: Manifest, root: Path) -> News:
    """Return the contribution. Raises NothingNewError, and PromotionError if the reader disagrees."""
    with tempfile.TemporaryDirectory(prefix="stc-promote-") as folder:
        case = fuzzed_case(finding, Path(folder))
        objection = disagreement(case)
        if objection is not None:
            raise PromotionError(f"the strict reader does not agree with the expectation: {objection}")
        news = look_for_news(case, manifest.cases, root)
    if not news.anything:
        raise NothingNewError("it adds nothing: " + "; ".join(news.lines))
    return news


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--id", "case_id", metavar="AREA/SLUG", help="Permanent id of the case.  [default: generated]")
@click.option("--title", help="Special property of the file, in one sentence.")
@click.option("--issue", metavar="URL", help="Public report of the bug.")
@click.option(
    "--dry-run", is_flag=True, help="Print the case and its contribution without changing any file."
)
@click.option(
    "--checkout",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=ROOT,
    hidden=True,
    help="Another checkout.",
)
def command(
    folder: Path,
    case_id: str | None,
    title: str | None,
    issue: str | None,
    dry_run: bool,
    checkout: Path,
) -> None:
    """Turn the finding in FOLDER into a case of the corpus, with its origin.

    The command refuses findings that add nothing: bytes that are already a case, an answer that the format
    leaves open, or a file that detects no new fault. A file detects a new fault if it kills a mutant of the
    strict reader that no case kills, or if the set of broken readers that fail it differs from that of every
    case with the same fault code. The check takes several seconds.

    \b
    python -m proof.promote findings/off-hole-1a2b3c4d --id layout/hole-behind-empty --title "A hole ..."
    Exit status: 0 added, 1 refused because it adds nothing, 2 cannot be promoted.
    """
    try:
        finding = load(folder)
    except FindingError as err:
        raise UnusableError(visible(str(err), 600)) from err
    try:
        sources = Checkout.at(checkout)
        made = promote(finding, sources, case_id=case_id, title=title, issue=issue, dry_run=dry_run)
    except NothingNewError as err:
        click.echo(f"not promoted: {visible(str(err), 600)}")
        raise SystemExit(1) from err
    except (PromotionError, OSError, ValueError) as err:
        raise UnusableError(f"not promoted: {visible(str(err), 600)}") from err
    for line in made.news.lines:
        click.echo(visible(line, 600))
    click.echo(f"{'would add' if dry_run else 'added'} {made.row['id']} to {sources.found}:")
    for line in made.text.split("\n"):
        click.echo(visible(line, len(line)))
    if not dry_run:
        click.echo(
            "Read it and correct the title and the rules. Then run: stc corpus build, and python -m "
            "proof.broken --write"
        )
        if made.news.mutants:
            click.echo(
                "It kills mutants that survived. Run python -m proof.mutation --write, and remove their "
                "reasons"
            )


if __name__ == "__main__":
    command(prog_name="python -m proof.promote")
