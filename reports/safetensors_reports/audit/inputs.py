"""Inputs of a report other than run records: known failures and the findings of fuzzing runs."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors_corpus.typed import MisfitError, members, typed
from safetensors_reference import rule_book
from safetensors_reference.source import read_whole

from ..fuzz_finding import FindingPart
from ..text import visible
from .report import SCHEMA, AreaCells, Report, RuleCells

DOCUMENT = "finding.json"
REPORT = "report.json"
LARGEST_INPUT = 64 << 20
LARGEST_DOCUMENT = 256 << 20


class AuditError(Exception):
    """An input of a report cannot be used; the message names the file, the problem and the fix."""


@dataclass(frozen=True)
class BaselineEntry:
    """A known failure of the ``cases`` that ``case`` matches; ``issue`` may be ``unreported`` or empty."""

    case: str
    cases: tuple[str, ...]
    steps: dict[str, str]
    why: str = ""
    issue: str = ""
    review_by: str = ""


@dataclass(frozen=True)
class FuzzFinding:
    """A finding of a fuzzing run; ``entry`` contains its input, or None if the step has no input."""

    document: FindingPart
    entry: bytes | None

    @property
    def slug(self) -> str:
        return self.document.slug

    @property
    def digest(self) -> str:
        digests = [row.sha256 for row in self.document.files if row.path == self.document.entry]
        return digests[0] if digests else self.slug


def load_json(path: Path, expected: str) -> Any:
    try:
        return json.loads(read_whole(path, LARGEST_DOCUMENT), object_pairs_hook=members)
    except OSError as err:
        raise AuditError(f"{visible(str(err), 300)}; pass {expected}") from err
    except (ValueError, RecursionError) as err:
        why = visible(str(err), 100)
        raise AuditError(f"{visible(str(path))}: not JSON ({why}); pass {expected}") from err


def _document(path: Path, expected: str, what: str, schema: int, remedy: str = "") -> Any:
    document = load_json(path, expected)
    version = document.get("schema") if isinstance(document, dict) else None
    if version != schema:
        raise AuditError(
            f"{visible(str(path))}: the {what} has schema {visible(str(version), 20)}, but this program "
            f"reads schema {schema}{remedy}"
        )
    return document


def load_report(path: Path) -> Report:
    path = path / REPORT if path.is_dir() else path
    document = _document(path, f"the {REPORT} of a report or the folder that contains it", "report", SCHEMA)
    try:
        # A page cannot contain lone surrogates.
        json.dumps(document, ensure_ascii=False).encode()
        report = typed(document, Report)
        count = len(report.implementations)
        cells: list[AreaCells | RuleCells] = [*report.matrix]
        cells += [rule for area in report.matrix for rule in area.rules]
        counts = {len(report.run.runs), *(len(row.verdicts) for row in report.cases.rows)}
        if counts | {len(found) for c in cells for found in (c.known, c.worst)} != {count}:
            raise ValueError("matrix, cases and run must each have one column or row per implementation")
        for scale in ("severity", "difficulty", "verdict"):
            if (
                not {getattr(found, scale) for found in report.findings}
                <= getattr(report.scales, scale).keys()
            ):
                raise ValueError(f"scales.{scale} does not define a word that a finding uses")
    except ValueError as err:
        raise AuditError(
            f"{visible(str(path))}: not a report of this version ({err}); create the report again"
        ) from err
    return report


def load_fuzz_finding(path: Path) -> FuzzFinding:
    path = path / DOCUMENT if path.is_dir() else path
    shown = visible(str(path))
    raw = _document(path, "the folder of a finding that stc fuzz wrote", "finding", 1, "; fuzz again")
    try:
        document = typed(raw, FindingPart)
    except MisfitError as err:
        raise AuditError(f"{shown}: {err}; fuzz again to get a new finding") from err
    for rule in document.rules:
        if rule.id not in rule_book().rules:
            raise AuditError(
                f"there is no rule {rule.id}; update this program, or fuzz again if the finding is older "
                "than this program"
            )
    if not _is_replay_command(document):
        raise AuditError(
            f"{shown}: reproduce is not an stc fuzz command that replays this finding; fuzz again"
        )
    return FuzzFinding(document, _entry(path, document))


def _is_replay_command(document: FindingPart) -> bool:
    """Check the command line of a finding, because people paste it into a shell."""
    try:
        words = shlex.split(document.reproduce)
    except ValueError:
        return False
    options, selectors = words[4::2], words[5::2]
    return (
        words[:4] == ["stc", "fuzz", "replay", document.slug]
        and shlex.join(words) == document.reproduce
        and len(options) == len(selectors)
        and set(options) <= {"--impl"}
        and set(selectors) <= document.got.keys()
    )


def _entry(path: Path, document: FindingPart) -> bytes | None:
    row = next((r for r in document.files if r.path == document.entry), None)
    if row is None:
        return None
    stored = path.parent / row.stored
    try:
        # The document is untrusted, so its paths must not leave its folder.
        inside = stored.resolve().is_relative_to(path.parent.resolve())
        if not inside:
            raise AuditError(
                f"{visible(str(path))}: {visible(row.stored)} is outside the folder of the finding"
            )
        return read_whole(stored, row.size) if row.size <= LARGEST_INPUT else None
    except (OSError, ValueError, RuntimeError) as err:  # circular links raise RuntimeError
        raise AuditError(
            f"{visible(str(path))}: {visible(str(err), 300)}; the finding cannot be used without its input"
        ) from err
