"""``stc audit summary``: counts audit rows, and prints tables or writes an HTML page."""

from __future__ import annotations

import glob
import math
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from ..text import plural, shown_name
from ..writing.atomic import NotSavedError, write_report
from .results import ResultsError, error_text

TOP = 20
FLEET = "the fleet extra: pip install 'safetensors-conformance[fleet]'"
_COLUMNS = {
    "address": "VARCHAR",
    "kind": "VARCHAR",
    "verdict": "VARCHAR",
    "size": "BIGINT",
    "codes": "VARCHAR[]",
    "dtypes": "STRUCT(dtype VARCHAR, tensors BIGINT, bytes BIGINT)[]",
    "looks_like": "VARCHAR",
    "tensors": "BIGINT",
    "header_bytes": "BIGINT",
    "writer": "STRUCT(fields VARCHAR, compact BOOLEAN, alignment BIGINT, format VARCHAR)",
    "requests": "BIGINT",
    "read": "BIGINT",
    "time": "TIMESTAMP",
}
# Only the last row of each file counts.
_TABLES = """
CREATE TEMP TABLE numbered AS SELECT *, row_number() OVER () AS n FROM {source};
CREATE TEMP VIEW newest AS SELECT * REPLACE (coalesce(kind, 'file') AS kind) FROM numbered
    WHERE n IN (SELECT max(n) FROM numbered GROUP BY address);
CREATE TEMP TABLE files AS SELECT * FROM newest WHERE kind = 'file';
CREATE TEMP TABLE models AS SELECT * FROM newest WHERE kind = 'model';
CREATE TEMP VIEW faults AS SELECT unnest(codes) AS what, address FROM files;
CREATE TEMP VIEW dtypes AS SELECT unnest(dtypes, recursive := true), address FROM files;
CREATE TEMP VIEW writers AS SELECT concat_ws(' · ',
        CASE writer.fields WHEN '' THEN 'no entry' ELSE writer.fields END,
        CASE WHEN writer.compact THEN 'compact' ELSE 'spaced' END,
        CASE WHEN writer.alignment < 8 THEN 'unaligned' ELSE 'aligned' END,
        coalesce('format ' || writer.format, 'no format')) AS what, address
    FROM files WHERE writer IS NOT NULL;
CREATE TEMP TABLE ends AS SELECT min(address) AS a, max(address) AS z FROM files WHERE address NOT LIKE '%://%';
CREATE TEMP MACRO source(address, top) AS CASE WHEN address LIKE '%://%'
    THEN regexp_extract(address, '^(.*::)?[a-z0-9+]+://[^/]*')
    ELSE address[:top] || regexp_extract(address[top + 1:], '^/?[^/]*') END;
CREATE TEMP VIEW things AS
    SELECT 'fault ' || what AS what, address FROM faults
    UNION ALL SELECT 'writer ' || what, address FROM writers
    UNION ALL SELECT 'dtype ' || dtype, address FROM dtypes;
"""
_BY = "SELECT what, count(*) AS n, min(address) FROM {} GROUP BY what ORDER BY n DESC, what"
_LARGEST = "SELECT address, {0} FROM files WHERE {0} IS NOT NULL ORDER BY {0} DESC, address LIMIT 10"
_VERDICTS = "SELECT verdict, count(*) AS n FROM {} GROUP BY verdict ORDER BY n DESC, verdict"


class _Query(NamedTuple):
    title: str
    columns: tuple[str, ...]
    query: str


_QUERIES = (
    _Query("Verdicts", ("verdict", "files"), _VERDICTS.format("files")),
    _Query("Models", ("verdict", "models"), _VERDICTS.format("models")),
    _Query("Faults", ("code", "files", "example"), _BY.format("faults")),
    _Query(
        "Faults of models",
        ("code", "models", "example"),
        _BY.format("(SELECT unnest(codes) AS what, address FROM models)"),
    ),
    _Query(
        "What invalid files look like",
        ("kind", "files", "example"),
        _BY.format("(SELECT looks_like AS what, address FROM files WHERE looks_like <> '')"),
    ),
    _Query(
        "Writers", ("fields · spaces · alignment to 8 · format", "files", "example"), _BY.format("writers")
    ),
    _Query(
        "Sources",
        ("source", "files", "not valid"),
        "SELECT source(address, $top) AS s, count(*) AS n, count(*) FILTER (verdict <> 'valid') FROM files "
        "GROUP BY s ORDER BY n DESC, s",
    ),
    _Query(
        "Dtypes",
        ("dtype", "files", "tensors", "bytes"),
        "SELECT dtype, count(*) AS n, sum(tensors), sum(bytes) FROM dtypes "
        "GROUP BY dtype ORDER BY n DESC, dtype",
    ),
    _Query("Largest files", ("address", "bytes"), _LARGEST.format("size")),
    _Query("Most tensors", ("address", "tensors"), _LARGEST.format("tensors")),
    _Query("Longest headers", ("address", "bytes"), _LARGEST.format("header_bytes")),
    _Query(
        "Rarest faults, writers and dtypes",
        ("what", "files", "example"),
        "SELECT what, count(*) AS n, min(address) FROM things GROUP BY what "
        "HAVING n <= greatest(1, (SELECT count(*) FROM files) // 1000) ORDER BY n, what",
    ),
    _Query(
        "Cost",
        ("what", "number"),
        "SELECT unnest(['requests or reads', 'bytes read', 'seconds from the first row to the last']), "
        "unnest([coalesce(sum(requests), 0), coalesce(sum(read), 0), "
        "date_diff('second', min(time), max(time))]) FROM files HAVING count(*) > 0",
    ),
)


class Section(msgspec.Struct, frozen=True):
    """A table. The first column and the "example" column contain text; the other columns contain numbers."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str | int, ...]]
    left_out: int = 0


class Summary(msgspec.Struct, frozen=True):
    """Tables that summarize an audit; without DuckDB, not ``complete``: verdicts, faults and kinds only."""

    name: str
    files: int
    models: int
    sections: list[Section]
    complete: bool = True


class _CountedRow(msgspec.Struct):
    address: str
    verdict: str
    kind: str | None = "file"  # older rows of files have no kind
    codes: tuple[str, ...] = ()
    looks_like: str | None = None

    def values(self, column: str) -> tuple[str, ...]:
        """Return the values that a table with this first column counts."""
        likeness = (self.looks_like,) if self.looks_like else ()
        return {"verdict": (self.verdict,), "code": self.codes, "kind": likeness}[column]


def summarize(path: Path) -> Summary:
    name = shown_name(path)
    try:
        import duckdb
    except ImportError as err:
        if path.is_dir():
            raise ResultsError(f"{name}: a summary of Parquet files needs {FLEET}") from err
        return _summarize_counts(path)
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as db:
            _load(db, path)
            counts = db.execute("SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM models)")
            ((files, models),) = counts.fetchall()
            sections = [_section(db, question) for question in _QUERIES]
    except (duckdb.Error, OSError, TypeError) as err:
        raise _not_a_result(path, err) from err
    return Summary(name, files, models, [section for section in sections if section.rows])


def _summarize_counts(path: Path) -> Summary:
    newest: dict[str, _CountedRow] = {}
    decode = msgspec.json.Decoder(_CountedRow).decode
    try:
        _check_regular(path)
        with path.open("rb") as lines:
            for line in lines:
                row = decode(line)
                newest[row.address] = row
    except (OSError, ValueError, RecursionError) as err:
        raise _not_a_result(path, err) from err
    sections = []
    for query in _QUERIES[:5]:
        kind = query.columns[1].removesuffix("s")
        found: dict[str, list[str]] = {}
        for row in newest.values():
            if (row.kind or "file") == kind:
                for what in row.values(query.columns[0]):
                    found.setdefault(what, []).append(row.address)
        ranked = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        rows = [(what, len(names), min(names)) for what, names in ranked]
        sections.append(_table(query, [row[: len(query.columns)] for row in rows]))
    kinds = Counter(row.kind or "file" for row in newest.values())
    used = [section for section in sections if section.rows]
    return Summary(shown_name(path), kinds["file"], kinds["model"], used, complete=False)


def _not_a_result(path: Path, err: Exception) -> ResultsError:
    return ResultsError(f"{shown_name(path)}: this is not an audit result: {error_text(err)}")


def _check_regular(path: Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe could block
        raise OSError(f"{shown_name(path)}: this is not a regular file")


def _load(db: Any, path: Path) -> None:
    files = sorted(path.glob("part-*.parquet"))
    for part in (*files, *(() if path.is_dir() else (path,))):
        _check_regular(part)
    if files:
        # Results of older versions have no column looks_like.
        source = (
            "(FROM read_parquet($name, union_by_name = true) "
            "UNION ALL BY NAME SELECT NULL::VARCHAR AS looks_like WHERE false)"
        )
        name: object = [glob.escape(str(part)) for part in files]
    else:
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS.items())
        source = f"read_json($name, format='newline_delimited', columns={{{columns}}})"
        name = "/dev/null"
        if not path.is_dir():
            path.open("rb").close()  # clearer than DuckDB's own error
            name = glob.escape(str(path))
    first, *others = _TABLES.format(source=source).strip().split(";\n")
    db.execute(first, {"name": name})
    for statement in others:
        db.execute(statement)


def _cell(value: object) -> str | int:
    if isinstance(value, str):
        return shown_name(value, 200)
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return int(value)
    if not isinstance(value, int):
        raise TypeError("a row lacks a value or contains a value of the wrong type")
    return int(value)


def _section(db: Any, question: _Query) -> Section:
    values = {}
    if "$top" in question.query:  # the folder that contains all files
        first, last = db.sql("SELECT coalesce(a, ''), coalesce(z, '') FROM ends").fetchall()[0]
        common = next((n for n, (a, z) in enumerate(zip(first, last, strict=False)) if a != z), len(first))
        values = {"top": max(first.rfind("/", 0, common), 0)}
    return _table(question, db.execute(question.query, values).fetchall())


def _table(question: _Query, rows: Sequence[Iterable[object]]) -> Section:
    cells = [tuple(map(_cell, row)) for row in rows[:TOP]]
    return Section(question.title, question.columns, cells, max(0, len(rows) - TOP))


def as_text(summary: Summary) -> str:
    out = [f"{summary.name}: {plural(summary.files, 'file')}, {plural(summary.models, 'model')}"]
    for section in summary.sections:
        rows = [section.columns, *(tuple(map(cell, row)) for row in section.rows)]
        widths = [max(len(str(row[at])) for row in rows) for at in range(len(section.columns))]
        out += ["", section.title]
        for row in rows:
            cells = [
                f"{word:>{width}}" if name != "example" and at else f"{word:<{width}}"
                for at, (word, width, name) in enumerate(zip(row, widths, section.columns, strict=True))
            ]
            out.append("  " + "  ".join(cells).rstrip())
        if section.left_out:
            out.append(f"  … and {section.left_out:,} more")
    return "\n".join(out) + "\n"


def cell(value: str | int) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def as_page(summary: Summary) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader(__package__ or ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    env.filters["cell"] = cell
    return env.get_template("summary.html").render(summary=summary)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", type=click.Path(path_type=Path), metavar="RESULTS")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PAGE",
    help="Write an HTML page to PAGE instead of printing tables.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as one JSON object.")
def summary(results: Path, output: Path | None, as_json: bool) -> None:
    """Count the rows that 'stc audit -o RESULTS' wrote.

    \b
    stc audit summary rows.jsonl
    stc audit summary rows/ -o page.html

    The tables count files by verdict, fault, writer, source and dtype. They also show the largest files, the
    rarest faults, writers and dtypes, and the number of requests, bytes and seconds that the audit needed. If
    a file has several rows, only the last row counts. Without the fleet extra, the command counts only
    verdicts and faults, and reads only files of JSON lines.

    \b
    Exit status:
      0    the summary is complete
      2    the results could not be read, or the page could not be written
    """
    try:
        result = summarize(results)
        if output is not None:
            if not result.complete:
                raise ResultsError(f"{shown_name(output)}: not written: a page needs {FLEET}")
            write_report(output, as_page(result))
    except (ResultsError, NotSavedError) as err:
        click.echo(str(err), err=True)
        raise SystemExit(2) from err
    if not result.complete:
        click.echo(f"{result.name}: the other tables need {FLEET}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(result))
    elif output is None:
        click.echo(as_text(result), nl=False)
