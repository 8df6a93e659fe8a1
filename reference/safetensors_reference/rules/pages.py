"""Pages made from the rule book: ``docs/rules.md``, ``docs/disputed.md`` and ``docs/header.schema.json``.

The schema describes the header as far as that language can. It sees a JSON value and not its text, and one
part of it at a time. So it knows types, required fields, dtype codes and the range of integers, under the
hardened profile. It cannot know what parsers hide (the bytes around the object, UTF-8, duplicate keys, how a
number is spelled) or what needs arithmetic over several fields or the size of the file (sizes, holes,
overlaps, bounds).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from .book import BASES, PROFILES, Choice, RuleBook, rule_book
from .dtypes import DTYPE_BITS

if TYPE_CHECKING:
    from jinja2 import Environment

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
    "NET": "Files over a network",
}
"""First letters of a rule id -> what the rules of that area are about, in the order of a reader's work."""

LEVELS: tuple[Level, ...] = ("must", "should", "may")

OFFICIAL_REPOSITORY = "huggingface/safetensors"

WHITESPACE = (
    "Two demands of the text are open choices as far as JSON whitespace goes, which counts against nobody: "
    "that a header begins with an opening brace (HDR-02), and that only spaces pad it (HDR-03); any other "
    "byte in these places is a fault. The official library accepts any JSON "
    "whitespace in both places, has a test for each, and calls leading whitespace intentional in pull "
    "request 686 of its repository. So a reader may follow the text or the project that wrote it, and the "
    "whitespace changes no tensor. Where the official library accepts repeated keys, an entry written as "
    "an array or a dtype written as an object, we know of no test and no decision of that project for it: "
    "these a reader must refuse. The text forbids repeated keys; it shows an object and a string by an "
    "example, so that accepting another form is called a deviation. A run with --profile text demands that "
    "a reader refuses the whitespace, too."
)
"""Why two musts of the text are choices while softer points are required."""


def escape(text: str) -> str:
    """Escape text for Markdown, in and outside of tables, and no more of it than needed."""
    text = re.sub(r"[\\`*<>|&\[\]]", r"\\\g<0>", text)
    # An underscore inside a word is plain text in GitHub's Markdown; elsewhere it would start emphasis.
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
    """Return the templates of a package for text and Markdown; the filter ``md`` escapes for the latter."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    env = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(()),  # text and Markdown are no HTML
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
        found = Counter(label for rule in rules for label in (rule.level, rule.basis))
        return " | ".join(str(found[label]) for label in (*LEVELS, *BASES))

    def rules_with(code: str) -> list[str]:
        return [rule.id for rule in book.rules.values() if code in rule.codes]

    env = templates_of(__package__)
    for filter_ in (anchor, choice_link, code_link, linked, rule_link, source_links, state):
        env.filters[filter_.__name__] = filter_
    env.globals.update(AREAS=AREAS, BASES=BASES, LEVELS=LEVELS, PROFILES=PROFILES, WHITESPACE=WHITESPACE)
    env.globals.update(choices_of=choices_of, counts=counts, rules_with=rules_with)
    return env.get_template(template).render(book=book, points=sorted(book.points.items()))


SCHEMA_CODES = (
    "HDR_NOT_OBJECT",
    "ENT_NOT_OBJECT",
    "ENT_MISSING_FIELD",
    "ENT_UNKNOWN_FIELD",
    "ENT_BAD_INTEGER",
    "DTY_BAD_TYPE",
    "DTY_UNKNOWN",
    "SHP_BAD_TYPE",
    "OFF_BAD_PAIR",
    "MET_NOT_MAP",
    "MET_VALUE_NOT_STRING",
)
"""Fault codes that the schema stands for: it refuses a parsed header exactly when that has one of them.

With two limits: of ENT_BAD_INTEGER it knows only numbers that are wrong in themselves (1.0 and -0 are
integers to a schema), and where a reader stops at its depth limit the schema looks on.
"""

BEYOND = (
    "This schema is a part of the rules, not a substitute for them. It cannot see duplicate keys, how a "
    "number is spelled (1.0, 1e0, -0), invalid UTF-8, a byte-order mark, whitespace before the object, "
    "padding behind it, or anything that depends on several values or on the size of the file: byte counts, "
    "overflow, overlaps, holes, bounds, trailing bytes. A file that it accepts can still be invalid."
)

UNKNOWN_FIELDS = "This schema refuses unknown fields, as the hardened profile does."

Json = dict[str, object]


def _say(*rule_ids: str) -> str:
    rules = rule_book().rules
    return " ".join(f"{rules[rule_id].statement} ({rule_id})" for rule_id in rule_ids)


def header_schema() -> Json:
    integer: Json = {"description": _say("SHP-07"), "type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    shape: Json = {"description": _say("SHP-01"), "type": "array", "items": {"$ref": "#/$defs/integer"}}
    offsets: Json = {
        "description": _say("OFF-01", "OFF-02"),
        "type": "array",
        "items": {"$ref": "#/$defs/integer"},
        "minItems": 2,
        "maxItems": 2,
    }
    fields: Json = {
        "dtype": {"$ref": "#/$defs/dtype"},
        "shape": {"$ref": "#/$defs/shape"},
        "data_offsets": {"$ref": "#/$defs/data_offsets"},
    }
    tensor: Json = {
        "description": f"{_say('ENT-01', 'ENT-03', 'ENT-04')} {UNKNOWN_FIELDS}",
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
    metadata: Json = {
        "description": _say("MET-01"),
        "type": "object",
        "additionalProperties": {"type": "string"},
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
            "metadata": metadata,
            "tensor": tensor,
            "dtype": {"description": _say("DTY-01"), "enum": list(DTYPE_BITS)},
            "shape": shape,
            "data_offsets": offsets,
            "integer": integer,
        },
    }


def header_schema_text() -> str:
    """Return the schema as it stands in the repository; the same rule book always gives the same bytes."""
    return json.dumps(header_schema(), indent=2, ensure_ascii=False) + "\n"
