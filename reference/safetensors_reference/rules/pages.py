"""Generates ``docs/rules.md``, ``docs/disputed.md`` and ``docs/header.schema.json`` from the rule book.

JSON Schema validates the value that a JSON parser returns, not the JSON text, and it validates each part of
the value separately. The schema therefore checks types, required fields, dtype codes and the range of
integers, under the hardened profile. It cannot check anything that parsers hide (the bytes around the object,
UTF-8, duplicate keys, the spelling of numbers) or anything that requires arithmetic on several fields or the
size of the file (sizes, holes, overlaps, bounds).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from .book import BASES, PROFILES, Choice, Level, RuleBook, rule_book
from .dtypes import DTYPE_BITS

if TYPE_CHECKING:
    from jinja2 import Environment

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
    "NET": "Files over a network",
    "EXP": "Files named after tensors",
}
"""Maps rule id prefixes to the titles of their areas, in the order in which a reader checks a file."""

LEVELS: tuple[Level, ...] = ("must", "should", "may")

OFFICIAL_REPOSITORY = "huggingface/safetensors"

WHITESPACE = (
    "The text requires that a header begin with an opening brace (HDR-02) and be padded only with spaces "
    "(HDR-03). For JSON whitespace, both requirements are open choices: a reader may accept or reject it. "
    "Any other byte in these places is a fault. The official library accepts any JSON whitespace in both "
    "places and has a test for each. Pull request 686 of its repository calls leading whitespace "
    "intentional. A reader may therefore follow either the text or the project that wrote it. The "
    "whitespace does not change any tensor. The official library also accepts repeated keys, an entry "
    "written as an array, and a dtype written as an object. We know of no test or decision in "
    "that project about these three forms, so a reader must reject them. The text forbids repeated keys. "
    "For entries and dtypes, it only shows an object and a string as examples, so the suite calls it a "
    "deviation if a reader accepts another form. A run with --profile text also requires a reader to "
    "reject the whitespace."
)
"""Explains why two requirements of the text are open choices, unlike weaker statements."""


def escape(text: str) -> str:
    """Escape text for use in Markdown, inside or outside a table. Only necessary escapes are added."""
    text = re.sub(r"[\\`*<>|&\[\]]", r"\\\g<0>", text)
    # In GitHub's Markdown, an underscore inside a word is plain text. Anywhere else, it could start emphasis.
    return re.sub(r"__+|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", lambda m: "\\_" * len(m.group()), text)


def anchor(name: str) -> str:
    return f'<a id="{name.lower()}"></a>'


def rule_link(rule_id: str, page: str = "") -> str:
    return f"[{rule_id}]({page}#{rule_id.lower()})"


def linked(text: str, page: str = "") -> str:
    return re.sub(r"\b[A-Z]{3}-\d\d\b", lambda m: rule_link(m.group(), page), escape(text))


def choice_link(choice_id: str, page: str = "") -> str:
    return f"[{choice_id}]({page}#choice-{choice_id})"


def code_link(code: str) -> str:
    return f"[`{code}`](#{code.lower()})"


def source_links(source: str) -> str:
    """Turn references to rules and GitHub issues, by default of the official repository, into links."""
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


def rules_page(book: RuleBook | None = None) -> str:
    return _render("rules.md.jinja", book or rule_book())


def disputed_page(book: RuleBook | None = None) -> str:
    return _render("disputed.md.jinja", book or rule_book())


def choices_of(book: RuleBook, number: int) -> list[Choice]:
    return [choice for choice in book.choices.values() if number in choice.points]


def state(choice: Choice) -> str:
    if choice.settled:
        return "settled"
    if choice.required is not None:
        return "required"
    return "limit" if choice.limit else "open"


def templates_of(package: str) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    env = Environment(
        loader=PackageLoader(package),
        # the templates produce text and Markdown, which need no HTML escapes
        autoescape=select_autoescape(()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["md"] = escape
    return env


def _render(template: str, book: RuleBook) -> str:
    def counts(area: str = "") -> str:
        rules = [rule for rule in book.rules.values() if rule.id.startswith(area)]
        tally = Counter(label for rule in rules for label in (rule.level, rule.basis))
        return " | ".join(str(tally[label]) for label in (*LEVELS, *BASES))

    def rules_with(code: str) -> list[str]:
        return [rule.id for rule in book.rules.values() if code in rule.codes]

    env = templates_of(__package__)
    for filter_ in (anchor, choice_link, code_link, linked, rule_link, source_links, state):
        env.filters[filter_.__name__] = filter_
    env.globals.update(AREAS=AREAS, BASES=BASES, LEVELS=LEVELS, PROFILES=PROFILES, WHITESPACE=WHITESPACE)
    env.globals.update(choices_of=choices_of, counts=counts, rules_with=rules_with)
    return env.get_template(template).render(book=book, points=sorted(book.points.items()))


BEYOND = (
    "This schema covers only part of the rules and does not replace them. It cannot detect duplicate "
    "keys, the spelling of a number (1.0, 1e0, -0), invalid UTF-8, a byte-order mark, whitespace before "
    "the object, padding after it, or anything that depends on several values or on the size of the "
    "file: byte counts, overflow, overlaps, holes, bounds, trailing bytes. A file that this schema "
    "accepts can still be invalid."
)

UNKNOWN_FIELDS = "This schema rejects unknown fields, as does the hardened profile."

Json = dict[str, object]


def _statements(*rule_ids: str) -> str:
    rules = rule_book().rules
    return " ".join(f"{rules[rule_id].statement} ({rule_id})" for rule_id in rule_ids)


def header_schema() -> Json:
    items: Json = {"type": "array", "items": {"$ref": "#/$defs/integer"}}
    fields: Json = {name: {"$ref": f"#/$defs/{name}"} for name in ("dtype", "shape", "data_offsets")}
    tensor: Json = {
        "description": f"{_statements('ENT-01', 'ENT-03', 'ENT-04')} {UNKNOWN_FIELDS}",
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Generated by: stc rules build",
        "title": "Header of a safetensors file",
        "description": BEYOND,
        "type": "object",
        "properties": {"__metadata__": {"$ref": "#/$defs/metadata"}},
        "additionalProperties": {"$ref": "#/$defs/tensor"},
        "$defs": {
            "metadata": {
                "description": _statements("MET-01"),
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
            "tensor": tensor,
            "dtype": {"description": _statements("DTY-01"), "enum": list(DTYPE_BITS)},
            "shape": {"description": _statements("SHP-01"), **items},
            "data_offsets": {
                "description": _statements("OFF-01", "OFF-02"),
                **items,
                "minItems": 2,
                "maxItems": 2,
            },
            "integer": {
                "description": _statements("SHP-07"),
                "type": "integer",
                "minimum": 0,
                "maximum": 2**64 - 1,
            },
        },
    }


def header_schema_text() -> str:
    return json.dumps(header_schema(), indent=2, ensure_ascii=False) + "\n"
