"""Render text and Markdown from the templates in this folder."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from safetensors_reference.rules.pages import escape, templates_of
from safetensors_reference.text import plural

from ..field_bugs import reference_url

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


def reference_link(reference: str) -> str:
    """Return a Markdown link to a report, or the name of a document unchanged."""
    url = reference_url(reference)
    return escape(reference) if url is None else f"[{escape(reference)}]({url})"


@cache
def _environment() -> Environment:
    environment = templates_of("safetensors_corpus")
    environment.filters |= {"json": json.dumps, "link": reference_link, "n": "{:,}".format, "plural": plural}
    return environment
