"""The comparison of implementations: a table for each kind of program, by what its rules rest on.

Within a table the order is that of the alphabet. Every cell holds a bar as long as the share of cases that
fail, so that one of five hundred looks other than four hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..audit.report import ROLES
from ..audit.tally import not_known
from ..versions import label_key
from . import labels as words
from .cards import Part, advice, failing_cases, role_part, table_word, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..audit.report import CellRow, Implementation, Report, RoleRow

BASES = ("text", "official", "ours")
RED = {"unsafe": "unsafe", "wrong-content": "content", "wrong-accept": "accept", "wrong-reject": "reject"}
"""Verdict by the written text -> colour of its bar; every other one is calm."""


@dataclass(frozen=True)
class Bar:
    """How many cases fail by one basis.

    Attributes:
        failed: number of cases.
        share: of those asked, from 0 to 100.
        colour: one of ``RED``, ``calm``, or ``none`` where nothing fails.
    """

    failed: int
    share: float
    colour: str


@dataclass(frozen=True)
class Cell:
    """One area, or all of them.

    Attributes:
        asked: number of cases; zero where none is asked.
        bars: one per basis, in the order of ``BASES``; none where the area is not claimed, or not asked.
        text: the same in words.
        area: letters of the area, empty for all.
        advice: number of cases in which a recommendation of the text is missed.
    """

    asked: int
    bars: tuple[Bar, ...]
    text: str
    area: str = ""
    advice: int = 0


@dataclass(frozen=True)
class Row:
    """One program in one role.

    Attributes:
        who: the program.
        words: the worst that the row shows, by each basis, and its colour.
        every: all areas together.
        cells: one per column.
        part: what a card tells of it.
        place: address of its own page, or empty.
    """

    who: Implementation
    words: tuple[tuple[str, str], ...]
    every: Cell
    cells: list[Cell]
    part: Part
    place: str


@dataclass(frozen=True)
class Table:
    """All programs of one role.

    Attributes:
        role: word in reports.
        head: of the table.
        about: what such programs do.
        areas: letters and title of each column; those of which somebody was asked something.
        rows: in alphabetical order.
    """

    role: str
    head: str
    about: str
    areas: list[tuple[str, str]]
    rows: list[Row]


def tables(report: Report, places: Mapping[str, str] | None = None) -> list[Table]:
    """Return the tables of a report, one per role that occurs; none for a report of an older version.

    Args:
        report: the report.
        places: label of an implementation -> address of its own page.
    """
    titles = {row.area: row.title for row in report.matrix}
    out = []
    for role in ROLES:
        found = sorted(of_role(report, role), key=lambda pair: label_key(pair[0].label))
        if not found:
            continue
        asked = {cell.area for _, row in found for cell in row.cells}
        columns = [(area, titles[area]) for area in titles if area in asked]
        head, about, _ = words.ROLES[role]
        rows = [_row(who, row, columns, titles, (places or {}).get(who.label, "")) for who, row in found]
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
            cells.append(Cell(0, (), f"{title}: does not claim", area))
        elif area not in by_area:
            cells.append(Cell(0, (), f"{title}: not asked", area))
        else:
            cells.append(cell(by_area[area], title))
    unknown = not_known(who)
    told = tuple((table_word(row, basis, unknown), _colour(row, basis)) for basis in BASES)
    return Row(who, told, cell(row, "All areas"), cells, role_part(row, titles, unknown), place)


def cell(row: CellRow | RoleRow, title: str) -> Cell:
    bars = tuple(_bar(row, basis) for basis in BASES)
    told = f"{title}: {bars[0].failed:,} of {row.asked:,} cases against the text"
    for bar, reason in zip(bars[1:], ("unlike the official library", "short of our hardening"), strict=True):
        told += f", {bar.failed:,} {reason}" if bar.failed else ""
    if missed := advice(row):
        told += f", {missed:,} recommendations of the text missed"
    return Cell(row.asked, bars, told, getattr(row, "area", ""), missed)


def _bar(row: CellRow | RoleRow, basis: str) -> Bar:
    failed = failing_cases(row, basis)
    return Bar(failed, 100 * failed / row.asked if row.asked else 0.0, _colour(row, basis))


def _colour(row: CellRow | RoleRow, basis: str) -> str:
    if not failing_cases(row, basis):
        return "none"
    kind = worst(row.failed[basis])  # type: ignore[index]
    return RED.get(kind, "calm") if basis == "text" or kind == "unsafe" else "calm"
