"""Templates and style sheets of pages and drawings, and a canvas for the drawings.

All colours are in the style sheets. The widths of strings assume a fixed-pitch font.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

from markupsafe import Markup

from safetensors_reference.text import shorten

from ..text import COPIED, plural, visible

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_TEXT = 2_000


def render_markup(template: str, **values: Any) -> Markup:
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
    made.filters |= {"n": "{:,}".format, "g": "{:g}".format, "xml": xml, "copied": copied}
    return made


def copied(text: str) -> Markup:
    """Escape a string that people copy.

    A truncated string would be useless, so ``MAX_TEXT`` does not apply.
    """
    return Markup.escape(visible(text, COPIED))


def xml(text: str) -> Markup:
    """Escape a string for the content of an element, where quotes are harmless."""
    return Markup(escape(text))  # noqa: S704 - escaped


WIDTH = 880
MARGIN = 16
INNER = WIDTH - 2 * MARGIN
CHAR = 6.7
"""Width of a character in pixels, slightly larger than in fixed-pitch fonts of this size."""

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI"})


def harmless_text(text: str, limit: int = 400) -> str:
    """Escape unprintable, right-to-left and combining characters, which would affect the text around them."""
    text = shorten(text, limit)
    return text if text.isascii() and text.isprintable() else "".join(map(_harmless, text))


def _harmless(char: str) -> str:
    tame = char.isprintable() and unicodedata.bidirectional(char) not in _RIGHT_TO_LEFT
    if tame and unicodedata.category(char)[0] != "M":
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def quoted_name(name: str, limit: int = 22) -> str:
    escaped = name[: limit + 1].replace("\\", "\\\\").replace('"', '\\"')
    text = harmless_text(escaped)
    return f'"{text}"' if len(name) <= limit and columns(text) <= limit else f'"{truncate(text, limit)}"'


def columns(text: str) -> int:
    """Return the number of columns that a string occupies; East Asian characters and emoji occupy two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def truncate(text: str, limit: int) -> str:
    if columns(text) <= limit:
        return text
    while text and columns(text) > limit - 1:
        text = text[:-1]
    return text + "…"


def fit_label(label: str, limit: int) -> str:
    return truncate(harmless_text(visible(label, 80)), limit)


def text_width(text: str) -> float:
    return columns(text) * CHAR


@dataclass
class LabelRows:
    """Rows of labels that must not overlap."""

    taken: list[list[tuple[float, float]]] = field(default_factory=list)

    def place(self, middle: float, width: float, limit: int) -> tuple[float, int]:
        """Return the start and row of a label around ``middle``; the row is ``limit`` if none has space."""
        start = min(max(middle - width / 2, MARGIN), MARGIN + INNER - width)
        end = start + width
        for row in range(limit):
            if row == len(self.taken):
                self.taken.append([])
            if all(end + CHAR <= a or start - CHAR >= b for a, b in self.taken[row]):
                self.taken[row].append((start, end))
                return start, row
        return start, limit


class Shape(NamedTuple):
    """A shape of a drawing; ``at`` contains its coordinates in the order of the attributes of its element."""

    element: str
    at: tuple[float, ...]
    style: str = ""
    text: str = ""
    anchor: str = "start"
    hatch: str = ""


@dataclass
class Canvas:
    """Shapes in drawing order; ``mark`` makes the ids of this drawing unique."""

    mark: str
    shapes: list[Shape] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, style: str, hatch: str = "") -> None:
        self.shapes.append(Shape("rect", (x, y, max(width, 0.5), height), style, hatch=hatch))

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = "line") -> None:
        self.shapes.append(Shape("line", (x1, y1, x2, y2), style))

    def dot(self, x: float, y: float, style: str) -> None:
        self.shapes.append(Shape("circle", (x, y), style))

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        self.shapes.append(Shape("text", (x, y), style, text, anchor))

    def svg(self, height: float, title: str, description: str, *, style: bool = True) -> str:
        used = {shape.hatch for shape in self.shapes}
        return str(
            render_markup(
                "layout.svg",
                mark=self.mark,
                shapes=self.shapes,
                hatches=[colour for colour in ("amber", "red", "grey") if colour in used],
                width=WIDTH,
                height=height,
                title=xml(harmless_text(title)),
                description=xml(harmless_text(description, 4000)),
                style=style_sheet("layout") if style else "",
                words=lambda text: xml(harmless_text(text)),
                px=lambda number: f"{number:.1f}".removesuffix(".0"),
            )
        )
