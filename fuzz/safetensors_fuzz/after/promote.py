"""Making a finding a case of the corpus, with where it is from, if it adds anything.

A case stays for ever, so a finding that shows nothing new is refused, with the reason.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors_corpus
from safetensors_corpus import Manifest, ManifestError, load_manifest, recipe
from safetensors_corpus.author.case import AREAS
from safetensors_corpus.cases.from_fuzzing import case_of
from safetensors_reference import PROFILES, explain

from ..findings.finding import Finding
from ..loop.expectation import opinion
from .entry import PromotionError, entry_of, input_of, primary_first, rendered
from .news import News, disagreement, look_for_news
from .replay import case_of as asked_case

VERDICT_WORDS = re.compile("valid|reject|accept|bad|good|wrong|refuse|correct|malicious|attack")
"""Words that say what must be done with a file; a case id outlives changes of that."""


class NothingNewError(PromotionError):
    """The finding would add nothing to the corpus; the text says what is there already."""


@dataclass(frozen=True)
class Checkout:
    """The sources of the corpus: ``corpus/`` of a checkout of this project."""

    corpus: Path

    @property
    def found(self) -> Path:
        """The file that cases are added to."""
        return self.corpus / "safetensors_corpus" / "found.toml"

    @classmethod
    def here(cls) -> Checkout:
        """Return the checkout that this program runs from. Raises PromotionError for an installed copy."""
        package = Path(safetensors_corpus.__file__).resolve().parent
        return cls.at(package.parent, f"this program is installed at {package}")

    @classmethod
    def at(cls, corpus: Path, why: str = "") -> Checkout:
        """Return the checkout whose ``corpus/`` this is. Raises PromotionError."""
        needed = ("corpus.json", "matrix.json", "mutants.json", "safetensors_corpus/found.toml")
        missing = [name for name in needed if not (corpus / name).is_file()]
        if missing:
            raise PromotionError(
                f"cases are added to the sources of the corpus, and {why or corpus} has none "
                f"({missing[0]} is not there); run it in a checkout installed with: pip install -e ."
            )
        return cls(corpus)


@dataclass(frozen=True)
class Promotion:
    """A finding as a case: its row in ``found.toml``, the text of that, and what is new about it."""

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
    """Add a finding to the corpus's sources, unless it adds nothing.

    Args:
        finding: one of the steps open and read.
        checkout: where to add it.
        case_id: ``area/slug``; None makes one of the rule's area and the digest.
        title: what is special about the file, in one sentence.
        issue: URL of the public report of the bug that it was found by.
        dry_run: True writes nothing.

    Raises:
        NothingNewError: it shows nothing that no case shows.
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
        raise PromotionError(f"it makes no case: {err}") from err
    news = _news(finding, manifest)
    text = old.rstrip("\n") + "\n\n" + rendered(row)
    if tomllib.loads(text)["case"][-1] != row:
        raise PromotionError("TOML cannot hold it; a name or a value has characters that are no text")
    if not dry_run:
        part = checkout.found.with_name(checkout.found.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(checkout.found)
    return Promotion(row, rendered(row), news)


def _refuse_known(data: bytes, manifest: Manifest, found: str) -> None:
    """Refuse bytes that are a case. Raises NothingNewError."""
    digest = hashlib.sha256(data).hexdigest()
    for case in manifest.cases:
        if case.kind in ("read", "resource") and case.sha256 == digest and case.size == len(data):
            raise NothingNewError(f"the same {len(data):,} bytes are case {case.id}")
    for row in tomllib.loads(found).get("case", []):
        if recipe.expand(row["bytes"]) == data:
            raise NothingNewError(f"the same {len(data):,} bytes are case {row['id']}, not built yet")


def _refuse_open(finding: Finding, data: bytes) -> None:
    """Refuse an expectation that not every reader needs to meet. Raises PromotionError."""
    expectation = finding.expectation
    if "choice" in expectation:
        return
    # What the strict reader thinks matters here for one question alone: whether the answer may vary.
    views = [explain(data, profile) for profile in PROFILES]
    choices = set(opinion(data).choices) if opinion(data).due == "open" else set()
    if len({view.valid for view in views}) > 1:
        choices |= {f.choice for view in views for f in (*view.faults, *view.tolerated) if f.choice}
    if choices:
        raise PromotionError(
            f"what must be answered depends on choice {', '.join(sorted(choices))}, and the expectation "
            "names none; write it by hand as a case of the choice"
        )
    if expectation.get("outcome") not in ("accept", "reject"):
        raise PromotionError("the finding demands neither accept nor reject, so there is nothing to expect")


def _refuse_id(case_id: str, manifest: Manifest, found: str) -> None:
    """Refuse an id that is malformed or was ever used. Raises PromotionError."""
    used = {row["id"] for row in manifest.raw["cases"]} | {
        row["id"] for row in tomllib.loads(found).get("case", [])
    }
    areas = [area for area, kind in AREAS.items() if kind == "read"]
    if not re.fullmatch(r"[a-z]+/[a-z0-9]+(-[a-z0-9]+)*", case_id) or case_id.partition("/")[0] not in areas:
        raise PromotionError(
            f"id {case_id!r}: area/slug of lower case and hyphens; areas: {', '.join(areas)}"
        )
    if word := VERDICT_WORDS.search(case_id):
        raise PromotionError(f"id {case_id!r}: says what must be done ({word[0]}); ids outlive that")
    if case_id in used:
        raise PromotionError(f"id {case_id!r} is taken, and ids are permanent")


def _news(finding: Finding, manifest: Manifest) -> News:
    """Return what is new. Raises NothingNewError, and PromotionError when the strict reader disagrees."""
    with tempfile.TemporaryDirectory(prefix="stc-promote-") as folder:
        case = asked_case(finding, Path(folder))
        objection = disagreement(case)
        if objection is not None:
            raise PromotionError(f"the strict reader does not agree with the expectation: {objection}")
        news = look_for_news(case, manifest.cases, manifest.root)
    if not news.anything:
        raise NothingNewError("it adds nothing: " + "; ".join(news.lines))
    return news
