"""Two pages for people, made from the rule book by templates: ``docs/rules.md`` and ``docs/disputed.md``."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from .book import BASES, PROFILES, Choice, RuleBook, rule_book

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .book import Level

AREAS = {
    "FRM": "Framing",
    "HDR": "Header as JSON",
    "ENT": "Tensor entries",
    "DTY": "Dtypes",
    "SHP": "Shapes",
    "OFF": "Offsets and layout",
    "MET": "Metadata",
    "DAT": "Data and values",
    "LIM": "Limits",
    "WRT": "Writers",
    "API": "Loading",
    "IDX": "Sharded index",
}
"""First letters of a rule id -> what the rules of that area are about, in the order of a reader's work."""

LEVELS: tuple[Level, ...] = ("must", "should", "may")

OFFICIAL_REPOSITORY = "huggingface/safetensors"


def escape(text: str) -> str:
    """Escape text for Markdown, in and outside of tables, and no more of it than needed."""
    text = re.sub(r"[\\`*<>|&\[\]]", r"\\\g<0>", text)
    # An underscore inside a word is plain text in GitHub's Markdown; elsewhere it would start emphasis.
    return re.sub(r"__+|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", lambda m: "\\_" * len(m.group()), text)


def anchor(name: str) -> str:
    """Return the HTML anchor of a rule, choice or code."""
    return f'<a id="{name.lower()}"></a>'


def rule_link(rule_id: str, page: str = "") -> str:
    """Return a Markdown link to a rule on ``page``, by default the page where the link stands."""
    return f"[{rule_id}]({page}#{rule_id.lower()})"


def linked(text: str) -> str:
    """Escape text and link the rules that it names."""
    return re.sub(r"\b[A-Z]{3}-\d\d\b", lambda m: rule_link(m.group()), escape(text))


def choice_link(choice_id: str, page: str = "") -> str:
    """Return a Markdown link to a choice, like ``rule_link``."""
    return f"[{choice_id}]({page}#choice-{choice_id})"


def code_link(code: str) -> str:
    """Return a Markdown link to a fault code on the same page."""
    return f"[`{code}`](#{code.lower()})"


def source_links(source: str) -> str:
    """Like ``linked``, with GitHub threads too; numbers without a repository are the official one's."""
    parts = []
    for part in source.split(";"):
        named = re.search(r"([\w.-]+/[\w.-]+)#\d", part)
        repository = named.group(1) if named else OFFICIAL_REPOSITORY
        url = f"https://github.com/{repository}/issues/"
        marked = re.sub(
            r"(?:([\w.-]+/[\w.-]+))?#(\d+)",
            lambda m, url=url: f"\0{m.group()}\1{url}{m.group(2)}\2",  # type: ignore[misc]
            part,
        )
        parts.append(linked(marked).replace("\0", "[").replace("\1", "](").replace("\2", ")"))
    return ";".join(parts)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    columns = tuple(columns)
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def rules_page(book: RuleBook | None = None) -> str:
    """Return the page of all rules. The same rule book always gives the same bytes."""
    return _render("rules.md.jinja", book or rule_book())


def disputed_page(book: RuleBook | None = None) -> str:
    """Return the page of the disputed points of the format, reproducible likewise."""
    return _render("disputed.md.jinja", book or rule_book())


def choices_of(book: RuleBook, number: int) -> list[Choice]:
    """Return the choices that answer a disputed point."""
    return [choice for choice in book.choices.values() if number in choice.points]


def state(choice: Choice) -> str:
    """Say in one word how far a choice is decided."""
    if choice.settled:
        return "settled"
    if choice.required is not None:
        return "required"
    return "limit" if choice.limit else "open"


def _render(template: str, book: RuleBook) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    def counts(area: str = "") -> str:
        """Count the rules of an area, or all, by level and then by basis."""
        rules = [rule for rule in book.rules.values() if rule.id.startswith(area)]
        found = Counter(label for rule in rules for label in (rule.level, rule.basis))
        return " | ".join(str(found[label]) for label in (*LEVELS, *BASES))

    def rules_with(code: str) -> list[str]:
        return [rule.id for rule in book.rules.values() if code in rule.codes]

    env = Environment(
        loader=PackageLoader(__package__),
        autoescape=select_autoescape(()),  # Markdown has escapes of its own
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["md"] = escape
    for filter_ in (anchor, choice_link, code_link, linked, rule_link, source_links, state):
        env.filters[filter_.__name__] = filter_
    env.globals.update(AREAS=AREAS, BASES=BASES, LEVELS=LEVELS, PROFILES=PROFILES)
    env.globals.update(choices_of=choices_of, counts=counts, rules_with=rules_with)
    return env.get_template(template).render(book=book, points=sorted(book.points.items()))
