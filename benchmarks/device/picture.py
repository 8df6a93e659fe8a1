"""Chart of the results in a document.

Bars show the loaders for each file, dots show the samples, and a line shows the machine's limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from .figures import Document, Row, limit, rows, seconds
from .loaders import is_reference
from .tables import about, file_title

WIDTH = 880
_LEFT, _RIGHT, _BAR, _STEP, _TOP = 190, 110, 14, 22, 40
_STYLE = """
.stc-bench text{font:12px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#1f2328}
.stc-bench .title{font-weight:bold}
.stc-bench .quiet{fill:#57606a}
.stc-bench .ground{fill:#ffffff}
.stc-bench .bar{fill:#afb8c1}
.stc-bench .ours{fill:#2da44e}
.stc-bench .wrong{fill:#ffc1bc}
.stc-bench .dot{fill:#1f2328;fill-opacity:.55}
.stc-bench .limit{stroke:#cf222e;stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){
.stc-bench text{fill:#e6edf3}
.stc-bench .quiet{fill:#9198a1}
.stc-bench .ground{fill:#0d1117}
.stc-bench .bar{fill:#484f58}
.stc-bench .ours{fill:#238636}
.stc-bench .wrong{fill:#67231d}
.stc-bench .dot{fill:#e6edf3;fill-opacity:.7}
.stc-bench .limit{stroke:#f85149}
}
"""


def draw(document: Document) -> str:
    """Return an SVG chart of the speeds in GB/s. Longer bars are faster."""
    parts: list[str] = []
    top = _TOP
    for file in document["files"]:
        drawn, top = _file(document, file, top)
        parts += drawn
    height = top + 8
    words = "Speed of each loader in GB/s; longer bars are faster"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="stc-bench" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img"><title>{words}</title><style>{_STYLE}</style>'
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>'
        f"{_text(16, 22, _cut(about(document), 116), 'quiet')}{''.join(parts)}</svg>\n"
    )


def _file(document: Document, file: Document, top: int) -> tuple[list[str], int]:
    found = rows(document, file)
    most = limit(document) if file["state"] == "warm" else None
    speeds = [file["bytes"] / s["seconds"] / 1e9 for s in file["samples"] if s["kind"] != "first"]
    scale = (WIDTH - _LEFT - _RIGHT) / max([*speeds, most or 0.0, 1e-9])
    parts = [_text(16, top + 14, _cut(file_title(file), 116), "title")]
    top += 26
    start = top
    for row in found:
        parts += _bar(file, row, top, scale)
        top += _STEP
    if most is not None:
        x = _LEFT + most * scale
        parts.append(
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{start - 4}" y2="{top}">'
            f"<title>limit of the machine: {most:.2f} GB/s</title></line>"
        )
        parts.append(_text(x, top + 12, f"limit {most:.1f}", "quiet", "middle"))
        top += 14
    return parts, top + 16


def _bar(file: Document, row: Row, top: int, scale: float) -> list[str]:
    name = row.loader["name"]
    parts = [_text(_LEFT - 8, top + 11, _cut(name, 24), "", "end")]
    if row.speed is None:
        return [*parts, _text(_LEFT, top + 11, row.loader["status"], "quiet")]
    kind = "wrong" if row.loader["status"] == "wrong" else "ours" if is_reference(name) else "bar"
    speeds = [file["bytes"] / value / 1e9 for value in seconds(file, name)]
    length = row.speed * scale
    parts.append(f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{length:.1f}" height="{_BAR}"/>')
    parts += _dots(speeds, top, scale)
    end = _LEFT + max([row.speed, *speeds]) * scale + 8
    label = f"{row.speed:.2f} GB/s" if kind != "wrong" else f"{row.speed:.2f}, wrong"
    return [*parts, _text(end, top + 11, label, "quiet")]


def _dots(speeds: Sequence[float], top: int, scale: float) -> list[str]:
    middle = top + _BAR / 2
    return [f'<circle class="dot" cx="{_LEFT + s * scale:.1f}" cy="{middle:g}" r="2"/>' for s in speeds]


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _cut(text: str, limit_: int) -> str:
    return text if len(text) <= limit_ else text[: limit_ - 1] + "…"
