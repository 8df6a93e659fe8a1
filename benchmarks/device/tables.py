"""Tables of a document for the terminal and for Markdown pages."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .figures import Document, Figure, Row, limit, rows
from .goals import goals
from .loaders import is_reference

Cells = list[list[str]]
LOADER_COLUMNS = (
    "loader", "version", "first s", "median s", "(min)", "spread", "GB/s", "of limit", "reference / it",
    "device / file", "host GB", "checked",
)  # fmt: skip
LIMIT_COLUMNS = ("limit", "setting", "median", "best")
GOAL_COLUMNS = ("goal", "must", "aim", "measured", "")
_READING = (
    "Seconds are wall time of a complete load onto the device, in processes that have already started "
    'CUDA. "First" is the first load in a process. Median, minimum and spread (largest minus '
    'smallest, divided by the median) refer to the loads after it. The loaders take turns. "Reference '
    '/ it" is the time of the reference divided by the time of this loader, so the reference is faster '
    "if it is below 1."
)
_LIMITS = {
    "page-cache-to-staging": "page cache to staging memory",
    "staging-to-device": "staging memory to device",
    "pageable-to-device": "pageable memory to device",
    "pin": "new pinned memory",
}


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1 else f"{value:.2f}"


def loader_cells(row: Row) -> list[str]:
    again: Figure | None = row.again
    memory = row.loader.get("memory") or {}
    host = memory.get("host_growth", memory.get("host_peak"))
    return [
        row.loader["name"],
        row.loader["version"] or "",
        _seconds(row.first),
        _seconds(again.median if again else None),
        _seconds(again.least if again else None),
        _percent(again.spread if again else None),
        _number(row.speed),
        _percent(row.share),
        _number(row.ratio),
        _number(row.device, 3),
        _number(None if host is None else host / 1e9),
        _checked(row.loader),
    ]


def _checked(loader: Document) -> str:
    found = loader.get("check")
    if loader["status"] != "ok" or found is None:
        return str(loader["status"])
    text = "all bytes" if found["how"] == "all bytes" else "page sums"
    return f"{text}, {found['misaligned']:,} misaligned" if found["misaligned"] else text


def limit_cells(document: Document) -> Cells:
    out = []
    for row in document["limits"]:
        values = row.get("gb_per_s") or row.get("seconds")
        if values is None:
            out.append(["not measured", "", row.get("reason", ""), ""])
            continue
        speed = "gb_per_s" in row
        unit = "GB/s" if speed else "s"
        digits = 2 if speed else 4
        best = max(values) if speed else min(values)
        middle = statistics.median(values)
        out.append(
            [_LIMITS[row["what"]], row["setting"], f"{middle:.{digits}f} {unit}", f"{best:.{digits}f} {unit}"]
        )
    return out


def goal_cells(document: Document) -> Cells:
    return [
        [
            goal.text,
            f"{goal.sign} {goal.must:g}",
            f"{goal.sign} {goal.aim:g}",
            "not measured" if goal.value is None else f"{goal.value:.3f}, {_reached(goal.word())}",
            goal.note,
        ]
        for goal in goals(document)
    ]


def _reached(word: str) -> str:
    return {"aim": "aim reached", "must": "must reached", "missed": "missed"}[word]


def reasons(file: Document) -> list[str]:
    """Return a line for each loader that has no results or wrong tensors."""
    return [f"{e['name']}: {e['status']}: {e['reason']}" for e in file["loaders"] if e["reason"]]


def file_title(file: Document) -> str:
    return (
        f"{file['kind']}: {file['title']}, {file['bytes'] / 1e9:.3g} GB, {file['tensors']:,} tensors, "
        f"{file['state']} on {file['filesystem']}"
    )


def about(document: Document) -> str:
    machine: dict[str, Any] = document["machine"]
    parts = [machine.get("gpu"), machine.get("processor"), f"{machine.get('cores')} cores"]
    if machine.get("driver"):
        parts.append(f"driver {machine['driver']}")
    if machine.get("link_width"):
        generation = machine.get("link_generation") or machine.get("link_speed")
        parts.append(f"link generation {generation}, width {machine['link_width']}")
    parts.append(f"Python {machine['python']}, torch {machine['torch']}")
    return ", ".join(str(part) for part in parts if part)


def notes(document: Document) -> list[str]:
    most = limit(document)
    out = [_READING]
    if most is not None:
        out.append(
            f"The limit is {most:.2f} GB/s, which is the lower of the speeds of reading from the page "
            "cache into staging memory and of copying to the device."
        )
    if any(is_reference(e["name"]) and "memory" in e for f in document["files"] for e in f["loaders"]):
        out.append(
            "Memory refers to an additional load that is not timed. Host memory is the growth of resident "
            "memory."
        )
    checks = {e["check"]["how"] for f in document["files"] for e in f["loaders"] if "check" in e}
    if checks:
        how = "; or ".join(sorted(checks))
        out.append(
            f"Results are checked outside the timed part against the reference's reader on the CPU: {how}."
        )
    if document["device"] == "cpu":
        out.append(
            "A run on the CPU is only a trial: some loaders return mapped pages, so they have not read "
            "anything yet."
        )
    if document["stopped"]:
        out.append(f"Incomplete: {document['stopped']}.")
    return out


def goal_section(document: Document) -> str:
    """Return the table of goals with the date, the hardware and the versions."""
    lines = [
        *_markdown(GOAL_COLUMNS, goal_cells(document)),
        "",
        f"{document['date']}. {about(document)}.",
        "",
    ]
    versions = {
        f"{e['name']} {e['version']}" for f in document["files"] for e in f["loaders"] if e["version"]
    }
    lines += [f"Loaders: {', '.join(sorted(versions))}.", ""] if versions else []
    lines += [f"Incomplete: {document['stopped']}.", ""] if document["stopped"] else []
    return "\n".join(["", *lines])


def show(document: Document, console: Console) -> None:
    console.print(about(document), highlight=False, markup=False, soft_wrap=True)
    if document["limits"]:
        _show("limits", LIMIT_COLUMNS, limit_cells(document), console)
    for file in document["files"]:
        _show(file_title(file), LOADER_COLUMNS, [loader_cells(r) for r in rows(document, file)], console)
        for line in reasons(file):
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    _show("goals", GOAL_COLUMNS, goal_cells(document), console)
    for line in notes(document):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _show(title: str, columns: Sequence[str], cells: Cells, console: Console) -> None:
    # Names and titles are untrusted, so they are not interpreted as markup.
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or cells_are_words(cells, number) else "right")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table, highlight=False, markup=False)


def cells_are_words(cells: Cells, column: int) -> bool:
    return any(row[column][:1].isalpha() for row in cells)


def markdown(document: Document, picture: str | None = None) -> str:
    """Return a Markdown page. ``picture`` is the file name of the chart in the same folder."""
    parts = ["# Loading onto a device", "", f"{document['date']}. {about(document)}.", ""]
    if picture is not None:
        parts += [f"![Speed of each loader]({picture})", ""]
    if document["limits"]:
        parts += ["## Limits", "", *_markdown(LIMIT_COLUMNS, limit_cells(document)), ""]
    for file in document["files"]:
        parts += [f"## {file_title(file)}", ""]
        parts += [*_markdown(LOADER_COLUMNS, [loader_cells(r) for r in rows(document, file)]), ""]
        parts += [f"- {_escaped(line)}" for line in reasons(file)]
        parts += [""] if reasons(file) else []
        parts += ["| loader | call | why its tensors remain valid |", "| --- | --- | --- |"]
        parts += [f"| {e['name']} | {_escaped(e['title'])} | {e['owns']} |" for e in file["loaders"]] + [""]
    parts += ["## Goals", "", *_markdown(GOAL_COLUMNS, goal_cells(document)), ""]
    for line in notes(document):
        parts += [_escaped(line), ""]
    return "\n".join(parts)


def _markdown(columns: Sequence[str], cells: Cells) -> list[str]:
    head = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    return head + ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in cells]


def _escaped(text: str) -> str:
    out = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(out.split())
