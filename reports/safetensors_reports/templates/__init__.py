"""Render the text and Markdown templates in this folder.

Templates do not escape by default. Text from a reader or a file needs ``visible`` for a terminal and ``code``
for Markdown, where it could break the page, mention people, link to issues or hide characters.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reference.rules.pages import WHITESPACE, templates_of

from ..text import COPIED, code, listed, plural, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


def render_lines(template: str, **values: Any) -> list[str]:
    return render(template, **values).split("\n")[:-1]


@cache
def _environment() -> Environment:
    environment = templates_of("safetensors_reports")
    environment.filters |= {
        "by_token": by_token,
        "code": code,
        "command": lambda text: code(text, COPIED),
        "kind_of": kind_of,
        "listed": lambda items, limit: listed(list(items), limit),
        "ljust": str.ljust,
        "n": "{:,}".format,
        "plural": plural,
        "rjust": str.rjust,
        "visible": visible,
    }
    environment.globals["WHITESPACE"] = WHITESPACE
    return environment


def by_token(vector: Mapping[str, str]) -> Iterable[tuple[str, list[str]]]:
    """Return the answers of an outcome vector in order, each with the labels of its readers."""
    groups: dict[str, list[str]] = {}
    for label, token in vector.items():
        groups.setdefault(token, []).append(label)
    return sorted(groups.items())
