"""The document of a trend, ``trend.schema.json``: written by ``stc trend``, read back by ``stc trophies``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from safetensors_corpus.judging.verdicts import VERDICTS

from .model import TURNS, Passage, Trend, Turn, VersionRun

Count = Annotated[int, Meta(ge=0)]
Verdicts = Annotated[dict[str, Count], Meta(extra_json_schema={"propertyNames": {"enum": list(VERDICTS)}})]
Turns = Annotated[dict[Turn, Count], Meta(extra_json_schema={"propertyNames": {"enum": list(TURNS)}})]


class BugRow(Struct, frozen=True):
    """A known bug of this implementation that a case shows.

    Attributes:
        versions: Affected versions as a specifier, empty when not recorded.
        turns_here: Whether just one of the two versions is affected by that; null when not recorded.
    """

    bug: str
    reference: str
    versions: str
    turns_here: bool | None


class ChangeRow(Struct, frozen=True):
    """A case with another verdict in the next version.

    Attributes:
        before: Verdict.
        after: Verdict.
        detail: What is wrong in the version that fails.
        bugs: Known bugs of this implementation that the case shows.
    """

    case: str
    title: str
    rules: tuple[str, ...]
    turn: Turn
    before: str
    after: str
    detail: str
    bugs: tuple[BugRow, ...]


class PassageRow(Struct, frozen=True):
    """A version that ran and the next one that did.

    Attributes:
        only_before: Cases that only the earlier version was asked about.
        only_after: Cases that only the later version was asked about.
    """

    before: str
    after: str
    counts: Turns
    only_before: Count
    only_after: Count
    changes: tuple[ChangeRow, ...]


class VersionRow(Struct, frozen=True):
    """One version, with what its run gave or the reason why there was none.

    Attributes:
        counts: Cases per kind of verdict, by the worst of their steps.
        reason: Why it could not be run.
    """

    version: str
    ran: bool
    counts: Verdicts
    reason: str | UnsetType = UNSET
    cases: Count | UnsetType = UNSET
    remarks: tuple[str, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError for what a type cannot say."""
        if UNSET in ((self.cases, self.remarks) if self.ran else (self.reason,)):
            raise ValueError(f"has no {'cases or no remarks' if self.ran else 'reason'}")
        if not self.counts.keys() <= VERDICTS.keys():
            raise ValueError(f"counts must be of {', '.join(VERDICTS)}")


_HAS_RUN = {
    "if": {"properties": {"ran": {"const": False}}},
    "then": {"required": ["reason"]},
    "else": {"required": ["cases", "remarks"]},
}


class TrendDocument(Struct, frozen=True):
    """One implementation, several of its versions over one corpus, and what changed between neighbours.
    Readers ignore properties they do not know.

    Attributes:
        trend: Version of this format; raised when a reader of documents must follow.
        implementation: Name, with the entry behind a colon.
        passages: Every version that ran against the one before it that ran.
    """  # noqa: D205 - it is the description of the schema

    trend: Literal[1]
    suite: str
    corpus: str
    implementation: str
    interrupted: bool
    exit_status: Literal[0, 2]
    versions: tuple[Annotated[VersionRow, Meta(extra_json_schema=_HAS_RUN)], ...]
    passages: tuple[PassageRow, ...]


def trend_document(result: Trend) -> dict[str, Any]:
    """Return the trend as a JSON-serialisable document of ``trend.schema.json``."""
    document = TrendDocument(
        1,
        result.suite,
        result.corpus,
        result.name,
        result.interrupted,
        0 if result.exit_status == 0 else 2,
        tuple(_version(run) for run in result.runs),
        tuple(_passage(p) for p in result.passages),
    )
    made: dict[str, Any] = to_builtins(document)
    return made


def _version(run: VersionRun) -> VersionRow:
    if run.record is None:
        return VersionRow(run.version, False, run.counts, reason=run.reason)
    return VersionRow(run.version, True, run.counts, cases=run.record.cases, remarks=run.remarks)


def _passage(passage: Passage) -> PassageRow:
    before, after = passage.before, passage.after
    changes = tuple(
        ChangeRow(
            c.case,
            c.note.title,
            c.note.rules,
            c.turn,
            c.before,
            c.after,
            c.detail,
            tuple(
                BugRow(bug.id, bug.reference, bug.versions, bug.turns_between(before, after))
                for bug in c.note.bugs
            ),
        )
        for c in passage.changes
    )
    return PassageRow(before, after, passage.counts, passage.only_before, passage.only_after, changes)
