"""Histories of programs: one line per published run; lines are never changed or removed.

Every program has a file of JSON lines. A line repeats what the program's own published report says about one
entry point, in one version, on one corpus, so it lacks everything that reports withhold
(``docs/disclosure.md``). It also contains the verdicts of the cases that show publicly reported bugs, if
``stc trophies --add`` has added them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins
from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import VERDICTS, kind_of
from safetensors_corpus.typed import Count, typed
from safetensors_reference.source import read_whole

from ..audit.inputs import AuditError
from ..audit.report import Implementation, Report
from ..text import file_slug, unused, version_key, visible

FORMAT: Final = 1
FOLDER = "history"
MAX_LINE = 20_000
MAX_LEDGER = 64 << 20
DIGEST = 16
"""Number of hexadecimal digits of the digest that identify a corpus."""

Kind = Annotated[str, Meta(extra_json_schema={"enum": list(VERDICTS)})]


class CorpusName(Struct, frozen=True, forbid_unknown_fields=True):
    """The corpus of a run.

    Attributes:
        sha256: First digits of the digest of its manifest; empty if it is not known.
    """

    version: str
    sha256: Annotated[str, Meta(pattern="^([0-9a-f]{16})?$")]


class FailureRow(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Cases that fail the same rule with the same verdict.

    Attributes:
        cases: Number of cases. A case that fails several rules counts for each of them.
        named: The cases among them that a public report describes.
    """

    rule: Annotated[str, Meta(pattern="^([A-Z]{3}-[0-9]{2,})?$")]
    verdict: Kind
    cases: Count
    named: tuple[str, ...] = ()


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Published summary of one run of one entry point. It is kept when the next release is run.

    Attributes:
        history: Version of this format.
        program: Name of the program.
        entry: Value for --impl, without the version.
        date: Day on which the run began; empty if it is not known.
        suite: Version of the suite.
        profile: Profile of choices that the run required, or empty.
        steps: Steps that were run.
        asked: Number of cases in a full run; 0 if the line contains only verdicts of cases of known bugs.
        counts: Kind of verdict -> cases; a case is counted under the verdict of its worst step. For other
            people's software, passes are not counted; the cases that no count includes passed or are
            withheld.
        choices: Choice that the format leaves open -> option that the program takes.
        failures: Failures by rule and verdict.
        bugs: Case that shows publicly reported bugs of the program -> its verdict, which may also be a pass.
        source: Address of the repository, for a version that was built from source.
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
    bugs: dict[str, str] | UnsetType = UNSET
    source: Annotated[str, Meta(pattern=r"\A(https://[A-Za-z0-9._~/-]+)?\Z")] = ""

    def __post_init__(self) -> None:
        kinds = {*self.counts, *(row.verdict for row in self.failures), *map(kind_of, self.verdicts.values())}
        if not kinds <= VERDICTS.keys():
            raise ValueError(f"each verdict must be one of {', '.join(VERDICTS)}")

    def is_of_same_run(self, line: Line) -> bool:
        """Whether the lines belong together; a history has one line per run."""
        runs = [
            (one.program, one.entry, one.version, one.corpus.version, one.profile) for one in (self, line)
        ]
        digests = {self.corpus.sha256, line.corpus.sha256} - {""}
        return runs[0] == runs[1] and len(digests) < 2

    @property
    def verdicts(self) -> dict[str, str]:
        return {} if self.bugs is UNSET else self.bugs

    @property
    def label(self) -> str:
        return f"{self.entry} {self.version}"

    @property
    def text(self) -> str:
        return json.dumps(to_builtins(self), separators=(",", ":"), ensure_ascii=True) + "\n"


def lines_of(report: Report) -> list[Line]:
    if not report.public:
        raise AuditError("histories can only be made from published reports")
    days = {run.implementation: run.started or "" for run in report.run.runs}
    return [_line(report, one, days.get(one.label, "")) for one in report.implementations]


def entry_of(implementation: Implementation) -> str:
    # Only selectors with a descriptor end in a version; a command line may contain anything.
    selector = implementation.selector
    return visible(selector.partition("==")[0] if implementation.kind else selector, 200)


def _line(report: Report, implementation: Implementation, day: str) -> Line:
    failures = [
        FailureRow(f.rule or "", f.verdict, f.case_count, tuple(f.cases))
        for f in report.findings
        if f.implementation == implementation.label and f.case_count
    ]
    line = Line(
        history=FORMAT,
        program=visible(implementation.name, 80),
        entry=entry_of(implementation),
        version=visible(implementation.version, 80),
        date=day[:10],
        suite=implementation.suite,
        corpus=CorpusName(report.corpus.version, report.corpus.sha256[:DIGEST]),
        profile=implementation.profile or "",
        steps=tuple(implementation.steps),
        asked=implementation.due,
        counts=dict(implementation.counts),
        choices={row.choice: row.option for row in implementation.choices if row.option},
        failures=tuple(sorted(failures, key=lambda row: (row.rule, row.verdict))),
    )
    while len(line.text) > MAX_LINE and any(row.named for row in line.failures):
        longest = max(line.failures, key=lambda row: len(row.named))
        rows = (replace(row, named=()) if row is longest else row for row in line.failures)
        line = replace(line, failures=tuple(rows))
    return line


class Ledger(Struct, frozen=True):
    """The history of one program; ``stem`` is the name of its files without the suffix."""

    program: str
    stem: str
    lines: tuple[Line, ...] = ()

    @property
    def text(self) -> str:
        return "".join(line.text for line in self.lines)

    @property
    def runs(self) -> list[Line]:
        """The lines of full runs."""
        return [line for line in self.lines if line.asked]

    @property
    def versions(self) -> list[str]:
        return list(dict.fromkeys(line.version for line in in_order(self.runs)))


def _joined(known: Line, line: Line) -> Line:
    whole = line if line.asked and not known.asked else known
    bugs = known.bugs if line.bugs is UNSET else known.verdicts | line.bugs
    return replace(whole, bugs=bugs, source=line.source or known.source)


def append_lines(ledgers: Mapping[str, Ledger], lines: Iterable[Line]) -> dict[str, Ledger]:
    """Add new runs, and the verdicts of known bugs to runs that are there. Raises AuditError."""
    out = dict(ledgers)
    for line in lines:
        if line.program not in out:
            taken = {ledger.stem for ledger in out.values()}
            out[line.program] = Ledger(line.program, unused(file_slug(line.program) or "program", taken))
        known = list(out[line.program].lines)
        place = max((i for i, other in enumerate(known) if other.is_of_same_run(line)), default=len(known))
        joined = _joined(known[place], line) if place < len(known) else line
        if len(joined.text) > MAX_LINE:
            raise AuditError(f"{visible(line.label, 80)}: its line in the history would be too long")
        known[place : place + 1] = [joined]
        out[line.program] = replace(out[line.program], lines=tuple(known))
    return dict(sorted(out.items()))


def load_ledgers(folder: Path) -> dict[str, Ledger]:
    out: dict[str, Ledger] = {}
    for path in sorted(folder.glob("*.jsonl")):
        ledger = _load(path)
        if ledger.program in out:
            raise AuditError(
                f"{visible(str(path))}: this is a second history of {visible(ledger.program, 80)}"
            )
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
                raise ValueError("not in the format that stc publish writes")
        except (ValueError, RecursionError) as err:
            raise AuditError(f"{where}: {visible(str(err), 400)}; restore the committed file") from err
        if lines and line.program != lines[0].program:
            raise AuditError(f"{where}: this line is about a different program from the lines before it")
        if any(map(line.is_of_same_run, lines)):
            raise AuditError(f"{where}: the file contains the same run twice; restore the committed file")
        lines.append(line)
    if not lines:
        raise AuditError(f"{visible(str(path))}: the file contains no runs; remove it")
    return Ledger(lines[0].program, path.stem, tuple(lines))


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Sort lines by version, oldest first; versions that are not numbers keep their order."""
    return sorted(lines, key=lambda line: version_key(line.version))
