"""The templates and style sheets of pages and drawings. All colours are in the style sheets."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from markupsafe import Markup

from ..text import plural, visible

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_TEXT = 2_000


def render(template: str, **values: Any) -> Markup:
    return Markup(environment().get_template(template).render(values))  # noqa: S704 - it escapes


def style_sheet(*names: str) -> Markup:
    folder = files(__package__) / "styles"
    return Markup("".join((folder / f"{name}.css").read_text("utf-8") for name in names))  # noqa: S704 - ours


@cache
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda v: visible(v, MAX_TEXT) if isinstance(v, str) and not isinstance(v, Markup) else v,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["plural"] = plural
    made.filters |= {"n": "{:,}".format, "g": "{:g}".format, "xml": xml}
    return made


def xml(text: str) -> Markup:
    """Escape a string for the content of an element, where quotes are harmless."""
    return Markup(escape(text))  # noqa: S704 - escaped
