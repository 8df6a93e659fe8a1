"""Generator of the page ``docs/formats.md`` from the measurements."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from safetensors_reference.rules.pages import templates_of
from safetensors_reports.text import code, visible

from .marks import cell, layout_facts
from .run import ROUNDS, Measured
from .table import FORMATS, PROPERTIES, README

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
RECORDS = Path(__file__).with_name("records.json")
NOTES = Path(__file__).with_name("notes.toml")
SIGNS = {"+": "✓", "-": "✗", "~": "~", "?": "?", None: "–"}


def load_records() -> dict[str, Measured]:
    return msgspec.json.decode(RECORDS.read_bytes(), type=dict[str, Measured])


def load_notes() -> dict[str, Any]:
    return tomllib.loads(NOTES.read_text(encoding="utf-8"))


def page(records: Mapping[str, Measured]) -> str:
    cells = {name: {key: cell(name, key, records.get(name)) for key in PROPERTIES} for name in FORMATS}
    verdicts = Counter(one.verdict for row in cells.values() for one in row.values())
    environment = templates_of("benchmarks")
    environment.filters |= {"code": code, "visible": visible}
    return environment.get_template("formats.md").render(
        cells=cells,
        facts=layout_facts,
        formats=FORMATS,
        notes=load_notes(),
        readme=README,
        records=records,
        rounds=ROUNDS,
        runs=sorted({f"{found.date}, {found.machine}" for found in records.values()}),
        signs=SIGNS,
        verdicts=verdicts,
        zip=zip,
    )
