"""Shapes and safe text on a canvas, and its style sheet, which assumes a fixed-pitch font."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from safetensors_reference.rules.faults import shorten

from ..text import visible

WIDTH = 880
MARGIN = 16
INNER = WIDTH - 2 * MARGIN
CHAR = 6.7
"""Width of a character in pixels, slightly more than in fixed-pitch fonts of this size."""

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI"})

STYLE = """
.stc-layout text{font:11px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#1f2328}
.stc-layout .title{font-weight:bold;font-size:12px}
.stc-layout .quiet{fill:#57606a}
.stc-layout .halo{paint-order:stroke;stroke:#ffffff;stroke-width:4px;stroke-linejoin:round}
.stc-layout .ground{fill:#ffffff}
.stc-layout .length{fill:#fbefff;stroke:#8250df}
.stc-layout .header{fill:#ddf4ff;stroke:#0969da}
.stc-layout .padding{fill:#f6f8fa;stroke:#6e7781}
.stc-layout .data,.stc-layout .tensor{fill:#dafbe1;stroke:#1a7f37}
.stc-layout .more{fill:#f6f8fa;stroke:#1a7f37}
.stc-layout .beyond{fill:none;stroke:#cf222e;stroke-width:1.5;stroke-dasharray:5 3}
.stc-layout .edge{stroke:#9a6700}
.stc-layout .edge-red{stroke:#cf222e}
.stc-layout .edge-grey{stroke:#6e7781}
.stc-layout .amber{stroke:#bf8700;stroke-width:3}
.stc-layout .red{stroke:#cf222e;stroke-width:3}
.stc-layout .grey{stroke:#8c959f;stroke-width:2}
.stc-layout .amber-ground{fill:#fff8c5}
.stc-layout .red-ground{fill:#ffebe9}
.stc-layout .grey-ground{fill:#f6f8fa}
.stc-layout .line{stroke:#6e7781;fill:none}
.stc-layout .mark{stroke:#cf222e;stroke-width:2;fill:none}
.stc-layout .empty{stroke:#1a7f37;stroke-width:2;fill:#ffffff}
.stc-layout .end{stroke:#1f2328;stroke-width:2}
@media (prefers-color-scheme:dark){
.stc-layout text{fill:#e6edf3}
.stc-layout .quiet{fill:#9198a1}
.stc-layout .halo{stroke:#0d1117}
.stc-layout .ground{fill:#0d1117}
.stc-layout .length{fill:#2b1a45;stroke:#a371f7}
.stc-layout .header{fill:#0c2845;stroke:#4493f8}
.stc-layout .padding{fill:#21262d;stroke:#9198a1}
.stc-layout .data,.stc-layout .tensor{fill:#0f2f1a;stroke:#3fb950}
.stc-layout .more{fill:#21262d;stroke:#3fb950}
.stc-layout .beyond{stroke:#f85149}
.stc-layout .edge{stroke:#d29922}
.stc-layout .edge-red{stroke:#f85149}
.stc-layout .edge-grey{stroke:#9198a1}
.stc-layout .amber{stroke:#9e6a03}
.stc-layout .red{stroke:#b62324}
.stc-layout .grey{stroke:#484f58}
.stc-layout .amber-ground{fill:#2e2111}
.stc-layout .red-ground{fill:#3c1618}
.stc-layout .grey-ground{fill:#21262d}
.stc-layout .line{stroke:#9198a1}
.stc-layout .mark{stroke:#f85149}
.stc-layout .empty{stroke:#3fb950;fill:#0d1117}
.stc-layout .end{stroke:#e6edf3}
}
"""


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
    """Return the number of columns of a string; East Asian characters and emoji are two columns wide."""
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

    @property
    def count(self) -> int:
        return len(self.taken)

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


@dataclass
class Canvas:
    """Shapes in drawing order; ``mark`` makes the ids of this drawing unique."""

    mark: str
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, style: str, paint: str = "") -> None:
        self.parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.5))}" height="{_n(height)}" rx="2" '
            f'{paint}class="{style}"/>'
        )

    def hatch(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        edge = {"amber": "edge", "red": "edge-red", "grey": "edge-grey"}[colour]
        self.rect(x, y, width, height, edge, f'fill="url(#{colour}-{self.mark})" ')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = "line") -> None:
        self.parts.append(f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="{style}"/>')

    def dot(self, x: float, y: float, style: str) -> None:
        self.parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="3.5" class="{style}"/>')

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        kind = f' class="{style}"' if style else ""
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        words = escape(harmless_text(text))
        # Preserve double spaces, which align the columns of tables.
        space = ' xml:space="preserve"' if "  " in words else ""
        self.parts.append(f'<text x="{_n(x)}" y="{_n(y)}"{kind}{side}{space}>{words}</text>')

    def svg(self, height: float, title: str, description: str, *, style: bool = True) -> str:
        tall = _n(height)
        patterns = "".join(
            f'<pattern id="{colour}-{self.mark}" width="8" height="8" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="8" height="8" class="{colour}-ground"/>'
            f'<line x1="1.5" y1="0" x2="1.5" y2="8" class="{colour}"/></pattern>'
            for colour in ("amber", "red", "grey")
            if any(f"#{colour}-{self.mark}" in part for part in self.parts)
        )
        return "\n".join(
            [
                '<svg xmlns="http://www.w3.org/2000/svg" class="stc-layout" role="img"',
                f'width="{WIDTH}" height="{tall}" viewBox="0 0 {WIDTH} {tall}"',
                f'aria-labelledby="title-{self.mark} desc-{self.mark}">',
                f'<title id="title-{self.mark}">{escape(harmless_text(title))}</title>',
                f'<desc id="desc-{self.mark}">{escape(harmless_text(description, 4000))}</desc>',
                *([f"<style>{STYLE}</style>"] if style else []),
                *([f"<defs>{patterns}</defs>"] if patterns else []),
                f'<rect width="{WIDTH}" height="{tall}" class="ground"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
