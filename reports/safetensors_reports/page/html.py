"""One report as one HTML file: no network, readable without scripts, in print, by keyboard and by ear."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from safetensors_corpus.field_bugs import reference_url

from ..audit.coverage import LETTERS
from ..drawing.canvas import STYLE
from ..record.device_checks import CHECKS
from ..text import plural, visible
from . import coverage as support
from . import findings as found
from . import labels as words
from . import sections
from .agreement import agreement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..audit.build import Report

LONGEST = 2_000
"""Most characters of one text on the page."""


def report_html(
    report: Report,
    previous: Report | None = None,
    *,
    home: str = "",
    places: Mapping[str, str] | None = None,
) -> str:
    """Return the page of a report, a pure function of it.

    Args:
        report: the report.
        previous: an older one to tell changes from; without one the baselines serve.
        home: address of the page that compares all reports; empty for none.
        places: label of an implementation -> address of its own page.
    """
    blocks = found.blocks(report)
    template = _environment().get_template("page.html")
    return template.render(
        report=report,
        home=home,
        places=places or {},
        whos=report["implementations"],
        many=len(report["implementations"]) > 1,
        numbers={who["label"]: str(i) for i, who in enumerate(report["implementations"])},
        title=_title(report),
        standing=support.standing(report),
        areas=support.areas(report),
        blocks=blocks,
        causes=sections.causes(report),
        levels=list(found.by_severity(blocks)),
        grid=found.grid(report),
        agreement=agreement(report),
        choices=sections.choices(report),
        expected=sections.expected_failures(report),
        slowest=sections.costly(report, "slowest", "wall_ms"),
        hungriest=sections.costly(report, "hungriest", "peak_bytes"),
        changes=sections.changes(report, previous),
        commands=list(sections.commands(report)),
        **_assets(),
    )


def _title(report: Report) -> str:
    labels = [who["label"] for who in report["implementations"]]
    return labels[0] if len(labels) == 1 else f"{len(labels):,} implementations of safetensors"


def _asset(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text("utf-8")


def _assets() -> dict[str, Any]:
    script = _asset("page.js")
    # The page allows this script and nothing else to run, so that no text of a file can become one.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "css": Markup(_colours() + _asset("page.css") + STYLE),  # noqa: S704 - our own
        "script": Markup(script),  # noqa: S704 - our own
        "allowed": allowed,
    }


def _colours() -> str:
    """Return the colours of verdicts as variables, and the classes of cells that use them."""

    def variables(place: int) -> str:
        pairs = ((name[2:], c[place], c[place + 1]) for name, c in words.COLOURS.items())
        return "".join(f"--{name}-bg:{ground};--{name}-fg:{text};" for name, ground, text in pairs)

    classes = "".join(
        f".{name}{{background:var(--{name[2:]}-bg);color:var(--{name[2:]}-fg)}}" for name in words.COLOURS
    )
    night = f"@media (prefers-color-scheme:dark){{:root{{{variables(2)}}}}}"
    return f":root{{{variables(0)}}}\n{night}\n{classes}\n"


def _finalized(value: Any) -> Any:
    """Make texts visible, whatever readers or files put into them."""
    return visible(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "LETTERS": LETTERS,
        "words": words,
        "plural": plural,
        "PROMISES": CHECKS,
        "reference_url": reference_url,
        "CASES": found.CASES,
        "case_words": found.case_words,
    }
    environment.filters |= {"n": "{:,}".format, "lines": _lines, "place": _place}
    return environment


def _lines(text: str) -> Markup:
    """Return a text of several lines that stays one."""
    return Markup("\n").join(visible(line, LONGEST) for line in text.split("\n"))


def _place(where: dict[str, Any]) -> str:
    """Say which bytes of the input a finding is about."""
    start, end = where["start"], where["end"]
    spot = f"byte {start:,}" if end <= start + 1 else f"bytes {start:,}..{end - 1:,}"
    return f"{spot}, {where['path']}" if where["path"] else spot
