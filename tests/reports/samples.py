"""Helpers of the tests of reports: records as a run writes them, made of real cases of the corpus or not."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from click import Command
from click.testing import CliRunner, Result
from msgspec.structs import replace

from safetensors_corpus import Manifest, load_manifest
from safetensors_reports.audit.build import build_report, report_text
from safetensors_reports.audit.report import Report, RunPart
from safetensors_reports.history.ledger import CorpusName, FailureRow, Line, lines_of
from safetensors_reports.record.run import RunRecord


class Make:
    """Builds records and their lines as a run would write them."""

    FOOTER: ClassVar = {"type": "footer", "complete": True, "duration_s": 3.1, "not_run": 0}
    CUT: ClassVar = {"type": "footer", "complete": False, "duration_s": 1.0, "not_run": 3}

    @staticmethod
    def header(name: str = "safetensors", version: str = "0.8.0", **more: Any) -> dict[str, Any]:
        who: dict[str, Any] = {"selector": name, "name": name, "version": version, "language": "Rust"}
        who |= {"steps": ["open", "read"], "lacks": more.pop("lacks", [])}
        corpus = {"version": "2026.11", "digest": "0" * 64, "cases": more.pop("cases", 4)}
        head = {"type": "header", "record": 1, "suite": "2026.11.0", "implementation": who, "corpus": corpus}
        limits = {"time_s": 10.0, "memory_bytes": 2147483648}
        run = {"profile": None, "limits": limits, "started": "2026-11-21T03:00:00Z", "baseline": None}
        return {**head, **run, "platform": "Linux", "python": "3.11.7", **more}

    @staticmethod
    def result(case: str, verdict: str = "pass", **more: Any) -> dict[str, Any]:
        what = {"type": "result", "case": case, "step": "read", "outcome": "accept", "verdict": verdict}
        about = {"level": "must", "importance": "high", "rules": ["OFF-07"], "choice": None, "options": []}
        said = {"expected_failure": False, "detail": "", "message": "", "exception": None, "documented": None}
        cost = {"wall_ms": 0.4, "cpu_ms": 0.2, "peak_bytes": 0, "noise": "", "content": None}
        return {**what, **about, **said, **cost, **more}

    @staticmethod
    def content(*names: str, metadata: Any = ..., **fields: Any) -> dict[str, Any]:
        tensors = [
            {"name": n, "dtype": "F32", "shape": [1], "nbytes": 4, "sha256": "aa"} | fields for n in names
        ]
        return {"tensors": tensors} | ({} if metadata is ... else {"metadata": metadata})

    @classmethod
    def run(cls, *results: dict[str, Any], footer: Any = ..., **more: Any) -> RunRecord:
        """Build a record; it is complete unless ``footer`` says otherwise."""
        choices, problems = more.pop("choices", []), more.pop("problems", [])
        end = cls.FOOTER if footer is ... else footer
        cases = more.pop("cases", len({r["case"] for r in results}))
        return RunRecord(cls.header(cases=cases, **more), list(results), choices, problems, end)

    @classmethod
    def answers(cls, name: str, **cases: Any) -> RunRecord:
        """Build a record from case -> content of an accept, or the outcome when it is a text."""
        answers = {c: {"outcome": a} if isinstance(a, str) else {"content": a} for c, a in cases.items()}
        return cls.run(*(cls.result(case, **a) for case, a in answers.items()), name=name, version="1")


HOLE = "layout/hole-between-two"
"""Breaks OFF-07."""
TWICE = "header/name-twice-dtypes"
"""Breaks HDR-09; public reports name it."""


@cache
def corpus() -> Manifest:
    return load_manifest()


def failing(case: str, verdict: str = "wrong-accept", **more: Any) -> dict[str, Any]:
    """Return a failing result on a real case."""
    return Make.result(case, verdict, rules=list(corpus().by_id[case].rules), **more)


def broken(case: str, verdict: str, rule: str, basis: str, **more: Any) -> dict[str, Any]:
    """Return a failing result that is charged to a rule on a basis."""
    failure = {"verdict": verdict, "rule": rule, "basis": basis, "property": "outcome", "detail": ""}
    return failing(case, verdict, rule=rule, basis=basis, failures=[failure], **more)


def run(*rows: dict[str, Any], **more: Any) -> RunRecord:
    """Return a run with the digest of the real corpus."""
    record = Make.run(*rows, **more)
    record.header["corpus"]["digest"] = corpus().digest
    return record


def report(*records: RunRecord, **more: Any) -> Report:
    return build_report(records, corpus(), **more)


def write_record(path: Path, record: RunRecord) -> Path:
    footer = [record.footer] if record.footer else []
    choices = [{"type": "choice", **row} for row in record.choices]
    rows = [record.header, *record.results, *choices, *footer]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "ascii")
    return path


def called(command: Command, *args: str | Path) -> Result:
    """Call a command, which must not raise anything but its exit."""
    result = CliRunner().invoke(command, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def without_run(document: Report) -> Report:
    return replace(document, run=RunPart([]))


def as_json(document: Report) -> dict[str, Any]:
    """Return a report as it is read from a file."""
    made: dict[str, Any] = json.loads(report_text(document))
    return made


FUZZED = b"\x00" * 7
RULE = {"id": "FRM-03", "level": "must", "title": "at least eight bytes", "statement": "Eight."}
STORED = {"path": "input.safetensors", "stored": "input.safetensors", "sha256": "b" * 64, "size": 7}
FUZZ: dict[str, Any] = {"schema": 1, "slug": "frm-too-short-0011aabb", "step": "read", "rules": [RULE]}
FUZZ |= {"codes": ["FRM_TOO_SHORT"], "cwe": [{"id": 125, "name": "Out-of-bounds Read"}], "where": None}
FUZZ |= {"signature": "FRM_TOO_SHORT: accept lib", "verdict": "wrong-accept", "expected": "reject: too short"}
FUZZ |= {"got": {"lib": "accept, 0 tensors"}, "versions": {"lib": "1.0"}, "action": None}
FUZZ |= {"files": [STORED], "entry": "input.safetensors", "size": {"found": 9, "now": 7}}
FUZZ |= {"expectation": {"outcome": "reject", "codes": ["FRM_TOO_SHORT"]}}
FUZZ |= {"engine": "outcome", "seed": 1, "execs": 1, "replays": 3}


def write_finding(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "input.safetensors").write_bytes(FUZZED)
    document = FUZZ | changes
    asked = " ".join(f"--impl {selector}" for selector in document["got"])
    document = {**document, "reproduce": f"stc fuzz replay {document['slug']} {asked}", **changes}
    (folder / "finding.json").write_text(json.dumps(document), "ascii")
    return folder


OLD, NEW = CorpusName("2026.10", "0" * 16), CorpusName("2026.11", "1" * 16)


def fails(rule: str, cases: int, *named: str, verdict: str = "wrong-accept") -> FailureRow:
    return FailureRow(rule, verdict, cases, named)


def line(version: str, *failures: FailureRow, **more: Any) -> Line:
    """Return a line of a made-up program; its counts are those of its failures."""
    counts: dict[str, int] = {}
    for row in failures:
        counts[row.verdict] = counts.get(row.verdict, 0) + row.cases
    fields: dict[str, Any] = {"history": 1, "program": "lib", "entry": "lib", "date": "2026-11-21"}
    fields |= {"suite": "2026.11.0", "corpus": NEW, "steps": ("open", "read"), "asked": 100, "counts": counts}
    return Line(version=version, failures=failures, **(fields | more))


def lines(*records: RunRecord, **more: Any) -> list[Line]:
    return lines_of(report(*records, public=True, **more))
