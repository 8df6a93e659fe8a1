"""Comparison of implementations: one table per kind of program, in alphabetical order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..audit.report import ROLES, CellRow, Implementation, Report, RoleRow
from ..audit.tally import not_known
from ..versions import label_key
from . import labels as words
from .cards import Part, advice, failing_cases, role_part, table_word, worst

BASES = ("text", "official", "ours")
RED = {"unsafe": "unsafe", "wrong-content": "content", "wrong-accept": "accept", "wrong-reject": "reject"}
"""Bar colour by verdict under the written format; all other verdicts have a neutral colour."""


@dataclass(frozen=True)
class Bar:
    """Failing cases of one basis: their number, percentage and colour (``RED``, ``calm`` or ``none``)."""

    failed: int
    share: float
    colour: str


@dataclass(frozen=True)
class Cell:
    """One area, or all areas if ``area`` is empty; ``bars`` is empty if there are no cases or no claim."""

    asked: int
    bars: tuple[Bar, ...]
    text: str
    area: str = ""
    advice: int = 0


@dataclass(frozen=True)
class Row:
    """One program in one role; for each basis, ``words`` contains its worst result and a colour."""

    who: Implementation
    words: tuple[tuple[str, str], ...]
    every: Cell
    cells: list[Cell]
    part: Part
    place: str


@dataclass(frozen=True)
class Table:
    """All programs with one role, in alphabetical order."""

    role: str
    head: str
    about: str
    areas: list[tuple[str, str]]
    rows: list[Row]


def tables(report: Report, places: Mapping[str, str] | None = None) -> list[Table]:
    titles = {row.area: row.title for row in report.matrix}
    out = []
    for role in ROLES:
        members = sorted(of_role(report, role), key=lambda pair: label_key(pair[0].label))
        if not members:
            continue
        asked = {cell.area for _, row in members for cell in row.cells}
        columns = [(area, titles[area]) for area in titles if area in asked]
        head, about, _ = words.ROLES[role]
        rows = [_row(who, row, columns, titles, (places or {}).get(who.label, "")) for who, row in members]
        out.append(Table(role, head, about, columns, rows))
    return out


def of_role(report: Report, role: str) -> Iterator[tuple[Implementation, RoleRow]]:
    for who in report.implementations:
        yield from ((who, row) for row in who.roles if row.role == role)


def _row(
    who: Implementation, row: RoleRow, columns: list[tuple[str, str]], titles: Mapping[str, str], place: str
) -> Row:
    by_area = {cell.area: cell for cell in row.cells}
    cells = []
    for area, title in columns:
        if area in row.unclaimed:
            cells.append(Cell(0, (), f"{title}: not claimed", area))
        elif area not in by_area:
            cells.append(Cell(0, (), f"{title}: not asked", area))
        else:
            cells.append(cell(by_area[area], title))
    unknown = not_known(who)
    word_colours = tuple((table_word(row, basis, unknown), _colour(row, basis)) for basis in BASES)
    return Row(who, word_colours, cell(row, "All areas"), cells, role_part(row, titles, unknown), place)


def cell(row: CellRow | RoleRow, title: str) -> Cell:
    failed = {basis: failing_cases(row, basis) for basis in BASES}
    bars = tuple(
        Bar(number, 100 * number / row.asked if row.asked else 0.0, _colour(row, basis))
        for basis, number in failed.items()
    )
    text = f"{title}: {bars[0].failed:,} of {row.asked:,} cases against the text"
    for bar, reason in zip(bars[1:], ("unlike the official library", "short of our hardening"), strict=True):
        text += f", {bar.failed:,} {reason}" if bar.failed else ""
    if missed := advice(row):
        text += f", {missed:,} recommendations of the text not followed"
    return Cell(row.asked, bars, text, getattr(row, "area", ""), missed)


def _colour(row: CellRow | RoleRow, basis: str) -> str:
    if not failing_cases(row, basis):
        return "none"
    kind = worst(row.failed[basis])  # type: ignore[index]
    return RED.get(kind, "calm") if basis == "text" or kind == "unsafe" else "calm"
