"""Converts rules to SARIF rule descriptors, and the related weaknesses to a SARIF taxonomy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .book import PROFILES, rule_book
from .cwe import CWE_NAMES, CWE_OF_CODE
from .pages import escape

if TYPE_CHECKING:
    from .book import Rule

AREAS = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "LIM", "IDX")
"""Areas whose rules a file can break. The rules of all other areas apply only to programs."""

MAX_RESULTS = 25_000

LEVELS = {"must": "error", "should": "warning", "may": "note"}

RULES = tuple(rule for rule in rule_book().rules.values() if rule.id.startswith(AREAS))
RULE_INDEX = {rule.id: index for index, rule in enumerate(RULES)}
TAXON_INDEX = {number: index for index, number in enumerate(sorted(CWE_NAMES))}

Json = dict[str, object]


def message_text(text: str) -> str:
    """Double all braces and break up links, so that no file can inject SARIF placeholders or links."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "]\\(")


def rule_name(title: str) -> str:
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", title))


def cwe_reference(number: int) -> Json:
    component = {"name": "CWE", "index": 0}
    return {"id": str(number), "index": TAXON_INDEX[number], "toolComponent": component}


def rule_descriptors() -> list[Json]:
    return [_descriptor(rule) for rule in RULES]


def _descriptor(rule: Rule) -> Json:
    numbers = dict.fromkeys(number for code in rule.codes for number in CWE_OF_CODE.get(code, ()))
    positions = [(name, getattr(rule, name)) for name in PROFILES]
    plain = "".join(f"\n{name}: {says}" for name, says in positions)
    marked = "".join(f"\n- {name}: {escape(says)}" for name, says in positions)
    out: Json = {
        "id": rule.id,
        "name": rule_name(rule.title),
        "shortDescription": {"text": message_text(f"{rule.id}: {rule.title}")},
        "fullDescription": {"text": message_text(rule.statement)},
        "help": {
            "text": message_text(f"{rule.statement}\n{plain}\nsource: {rule.source}"),
            "markdown": message_text(f"{escape(rule.statement)}\n{marked}\n\nSource: {escape(rule.source)}"),
        },
        "defaultConfiguration": {"level": LEVELS[rule.level]},
        "properties": {
            "level": rule.level,
            "basis": rule.basis,
            "choice": rule.choice,
            "codes": list(rule.codes),
            # GitHub reads only these tags and ignores the taxonomy.
            "tags": ["security", *(f"external/cwe/cwe-{n:03}" for n in numbers)] if numbers else [],
        },
    }
    if numbers:
        out["relationships"] = [{"target": cwe_reference(n), "kinds": ["relevant"]} for n in numbers]
    return out


def taxonomies() -> list[Json]:
    taxa = [
        {
            "id": str(number),
            "shortDescription": {"text": CWE_NAMES[number]},
            "helpUri": f"https://cwe.mitre.org/data/definitions/{number}.html",
        }
        for number in TAXON_INDEX
    ]
    cwe: Json = {
        "name": "CWE",
        "organization": "MITRE",
        "shortDescription": {"text": "The MITRE Common Weakness Enumeration"},
        "informationUri": "https://cwe.mitre.org/",
        "isComprehensive": False,
        "taxa": taxa,
    }
    return [cwe]
