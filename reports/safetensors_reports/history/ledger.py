"""The history of programs: one line for each run that was published, only ever added to.

A program has one file of JSON lines. A line holds what its own published report says of one entry point in
one version over one corpus, costs left out: numbers by kind of verdict and by rule, and by name the cases
that public reports are about. So what reports hold back (``docs/disclosure.md``) is not here either: a line
is made of a report that is made for publication, and of nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_corpus.typed import Count, MisfitError, typed
from safetensors_reference.source import read_whole

from ..audit.inputs import AuditError
from ..text import file_slug, visible
from ..versions import version_key

if TYPE_CHECKING:
    from ..audit.report import Implementation, Report

FORMAT: Final = 1
"""Version of a line's format; raised when a reader of lines must follow."""
FOLDER = "history"
"""Below the published reports."""
MAX_LINE = 20_000
"""Most bytes of a line, its end included."""
MAX_LEDGER = 64 << 20
"""Largest file of a history in bytes that is read."""
DIGEST = 16
"""Hexadecimal digits that tell one corpus from another."""

Kind = Annotated[str, Meta(extra_json_schema={"enum": list(VERDICTS)})]


class CorpusName(Struct, frozen=True, forbid_unknown_fields=True):
    """The corpus of a run.

    Attributes:
        sha256: The first digits of the digest of its manifest.
    """

    version: str
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]


class FailureRow(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The cases that fail by one rule with one verdict.

    Attributes:
        cases: Their number. A case that fails by several rules counts for each.
        named: Those of them that a public report is about.
    """

    rule: Annotated[str, Meta(pattern="^([A-Z]{3}-[0-9]{2,})?$")]
    verdict: Kind
    cases: Count
    named: tuple[str, ...] = ()


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What is published about one run of one entry point, kept when the next release is run.

    Attributes:
        history: Version of this format.
        program: Name of the program.
        entry: What --impl takes, without the version.
        date: Day on which the run began; empty where it is not known.
        suite: Version of the suite.
        profile: Profile of the choices that the run demanded, empty for none.
        steps: What the entry point was asked to do.
        asked: Cases that were due.
        counts: Kind of verdict -> cases, each by its worst step. Of other people's software what passed is
            not counted: all cases without a count are those of which no fault is shown.
        choices: Choice that the format leaves -> the option taken.
        failures: What fails, by rule and verdict.
    """

    history: Literal[1]
    program: str
    entry: str
    version: str
    date: Annotated[str, Meta(pattern="^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]
    suite: str
    corpus: CorpusName
    profile: str = ""
    steps: tuple[str, ...] = ()
    asked: Count
    counts: dict[Kind, Count]
    choices: dict[str, str] = {}
    failures: tuple[FailureRow, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for what a type cannot say."""
        kinds = {*self.counts, *(row.verdict for row in self.failures)}
        if not kinds <= VERDICTS.keys():
            raise ValueError(f"verdicts must be of {', '.join(VERDICTS)}")

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two runs the same one: a second of them adds nothing."""
        return self.program, self.entry, self.version, self.corpus.sha256, self.profile

    @property
    def label(self) -> str:
        return f"{self.entry} {self.version}"

    @property
    def text(self) -> str:
        return json.dumps(to_builtins(self), separators=(",", ":"), ensure_ascii=True) + "\n"

    @property
    def lost(self) -> int:
        """Cases of which nothing is known, because the adapter failed or does not fit the version."""
        return self.counts.get("harness-error", 0)

    def of_rule(self, rule: str) -> dict[str, FailureRow]:
        return {row.verdict: row for row in self.failures if row.rule == rule}


def lines_of(report: Report) -> list[Line]:
    """Return a line for each implementation of a published report, in its order.

    Raises:
        AuditError: the report holds more than may be published, or a line would be too long.
    """
    if not report.public:
        raise AuditError("a report that is not for publication makes no history")
    days = {run.implementation: run.started or "" for run in report.run.runs}
    return [_line(report, who, days.get(who.label, "")) for who in report.implementations]


def entry_of(who: Implementation) -> str:
    # Of what has a descriptor the version stands behind the name; a command line may hold anything.
    return visible(who.selector.partition("==")[0] if who.kind else who.selector, 200)


def _line(report: Report, who: Implementation, day: str) -> Line:
    found = [f for f in report.findings if f.implementation == who.label and f.case_count]
    line = Line(
        history=FORMAT,
        program=visible(who.name, 80),
        entry=entry_of(who),
        version=visible(who.version, 80),
        date=day[:10],
        suite=who.suite,
        corpus=CorpusName(report.corpus.version, report.corpus.sha256[:DIGEST]),
        profile=who.profile or "",
        steps=tuple(who.steps),
        asked=who.due,
        counts=dict(who.counts),
        choices={row.choice: row.option for row in who.choices if row.option},
        failures=tuple(
            sorted(
                (FailureRow(f.rule or "", f.verdict, f.case_count, tuple(f.cases)) for f in found),
                key=lambda row: (row.rule, row.verdict),
            )
        ),
    )
    return _fitted(line)


def _fitted(line: Line) -> Line:
    """Return a line of at most ``MAX_LINE`` bytes: numbers stay, the longest lists of names go first."""
    while len(line.text) > MAX_LINE:
        longest = max(line.failures, key=lambda row: len(row.named), default=None)
        if longest is None or not longest.named:
            raise AuditError(f"{visible(line.label, 80)}: its line of the history would be too long")
        rows = (replace(row, named=()) if row is longest else row for row in line.failures)
        line = replace(line, failures=tuple(rows))
    return line


class Ledger(Struct, frozen=True):
    """The history of one program.

    Attributes:
        program: its name.
        stem: name of its files, without what stands behind the dot.
        lines: in the order in which they were added.
    """

    program: str
    stem: str
    lines: tuple[Line, ...] = ()

    @property
    def text(self) -> str:
        return "".join(line.text for line in self.lines)

    @property
    def versions(self) -> list[str]:
        return list(dict.fromkeys(line.version for line in in_order(self.lines)))

    def with_lines(self, lines: Iterable[Line]) -> Ledger:
        """Return the history with the runs added that it does not have yet; none is ever replaced."""
        there = {line.key: line for line in self.lines}
        for line in lines:
            there.setdefault(line.key, line)
        return replace(self, lines=tuple(there.values()))


def append_lines(ledgers: Mapping[str, Ledger], lines: Sequence[Line]) -> dict[str, Ledger]:
    """Return program -> history with lines added, by name of the program."""
    out = dict(ledgers)
    for line in lines:
        if line.program not in out:
            out[line.program] = Ledger(line.program, _free(line.program, out))
        out[line.program] = out[line.program].with_lines([line])
    return dict(sorted(out.items()))


def _free(program: str, ledgers: Mapping[str, Ledger]) -> str:
    """Return a name for files; programs whose names look alike get a number."""
    taken = {ledger.stem for ledger in ledgers.values()}
    base = stem = file_slug(program) or "program"
    number = 1
    while stem in taken:
        number += 1
        stem = f"{base}-{number}"
    return stem


def load_ledgers(folder: Path) -> dict[str, Ledger]:
    """Return program -> history of a folder; empty where there is none.

    Raises:
        AuditError: a file cannot be used; the text names it and the line.
    """
    out: dict[str, Ledger] = {}
    for path in sorted(folder.glob("*.jsonl")):
        ledger = _load(path)
        if ledger.program in out:
            raise AuditError(f"{visible(str(path))}: a second history of {visible(ledger.program, 80)}")
        out[ledger.program] = ledger
    return dict(sorted(out.items()))


def _load(path: Path) -> Ledger:
    try:
        data = read_whole(path, MAX_LEDGER)
    except OSError as err:
        raise AuditError(visible(str(err), 300)) from err
    lines: list[Line] = []
    for number, text in enumerate(data.splitlines(), 1):
        where = f"{visible(str(path))}, line {number}"
        try:
            if len(text) >= MAX_LINE:
                raise ValueError(f"more than {MAX_LINE:,} bytes")
            line = typed(json.loads(text.decode("ascii")), Line)
            if line.text.encode() != text + b"\n":
                raise ValueError("not written as stc publish writes it")
        except MisfitError as err:
            raise AuditError(f"{where}: {err}; take the file as it was committed") from err
        except (ValueError, RecursionError) as err:
            why = visible(str(err), 120)
            raise AuditError(f"{where}: {why}; take the file as it was committed") from err
        if lines and line.program != lines[0].program:
            raise AuditError(f"{where}: is about another program than the lines before it")
        lines.append(line)
    if not lines:
        raise AuditError(f"{visible(str(path))}: holds no run; remove it")
    if len({line.key for line in lines}) != len(lines):
        raise AuditError(f"{visible(str(path))}: holds one run twice; take the file as it was committed")
    return Ledger(lines[0].program, path.stem, tuple(lines))


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Return lines by version, the oldest first; versions that are no numbers stay as they were added."""
    return sorted(lines, key=lambda line: version_key(line.version))
