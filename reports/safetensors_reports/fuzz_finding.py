"""``finding.json``, the description of a finding of a fuzzing run: the whole, and what reports read of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from safetensors_corpus.typed import Count

NonEmpty = Annotated[str, Meta(min_length=1)]
Verdict = Literal[
    "unsafe",
    "wrong-content",
    "wrong-accept",
    "wrong-reject",
    "deviation:content",
    "deviation:accept",
    "deviation:reject",
    "deviation:cost",
    "deviation:exception",
    "choice-inconsistent",
    "harness-error",
    "late-reject",
    "not-strict",
]
_AGREE = {
    "const": True,
    "description": "There where nobody's answer is wrong by itself: all of got that accept the input must "
    "see the same in it.",
}
Expectation = Annotated[dict[str, Any], Meta(extra_json_schema={"properties": {"agree": _AGREE}})]


class RuleRow(Struct, frozen=True):
    """A rule in the words of the rule book."""

    id: Annotated[str, Meta(pattern="^[A-Z]{3}-[0-9]{2,}$")]
    level: Literal["must", "should", "may"]
    title: str
    statement: str


class FileRow(Struct, frozen=True):
    """A file of the input.

    Attributes:
        path: Path inside the input's folder, as the implementation sees it.
        stored: Path of the file beside this document.
    """

    path: NonEmpty
    stored: NonEmpty
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: Count


class SizeRow(Struct, frozen=True):
    """Bytes of all files together.

    Attributes:
        found: Before the input was made smaller.
    """

    found: Count
    now: Count


class FindingPart(Struct, frozen=True, kw_only=True):
    """What reports read of a finding."""

    schema: Literal[1]
    slug: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    step: NonEmpty
    verdict: Verdict
    rules: tuple[RuleRow, ...]
    codes: tuple[Annotated[str, Meta(pattern="^([A-Z]{2,3}_[A-Z0-9_]+|UNCLASSIFIED)$")], ...]
    expected: str
    got: Annotated[dict[str, str], Meta(min_length=1)]
    versions: dict[str, str]
    files: tuple[FileRow, ...]
    entry: str
    action: dict[str, Any] | None = None
    expectation: Expectation = {}
    engine: str = ""
    seed: int | None = None
    size: SizeRow
    reproduce: str

    def __post_init__(self) -> None:
        """Raise ValueError for what a type cannot say."""
        if self.expectation.get("agree", True) is not True:
            raise ValueError("expectation.agree must be true where it is there")


class Weakness(Struct, frozen=True):
    """An entry of the list of weaknesses of software."""

    id: Annotated[int, Meta(ge=1)]
    name: str


class Where(Struct, frozen=True):
    """A range of bytes.

    Attributes:
        end: One past the last byte; equal to start for a place between bytes.
    """

    start: Count
    end: Count


class FindingDocument(FindingPart, frozen=True, kw_only=True):
    """One input on which an implementation gives a wrong answer, or ends badly. The files lie beside this
    document. Nothing here depends on when or where it was found. Readers ignore properties they do not know.

    Attributes:
        schema: Version of this format; raised when a reader of documents must follow.
        slug: Name of the folder: first code or rule, and digits that input and signature make together.
        step: What was asked: open, read, slice, write or index; prove and check are questions for the
            reference alone.
        verdict: What is wrong about the answer, in the words of run records. It says nothing about severity.
        signature: Subject and outcomes; findings of one signature are one.
        rules: Rules that the input or the answer breaks; the first speaks for the finding. None where the
            rule is not known.
        cause: Why these rules, or why none, in one line; empty where the codes or what is expected say so.
        codes: Fault codes of the input, sorted; none for a valid one.
        cwe: Weaknesses that a reader has which takes an input with these faults, the primary one first.
        expected: One line.
        got: Selector -> one line.
        versions: Selector -> version.
        files: The input. None for a step whose input is its action.
        entry: Path of the file that is handed over.
        action: What is done beyond reading, in the form of the corpus manifest.
        expectation: What is demanded, in the form of the corpus manifest; with the outcome open any orderly
            answer is right.
        where: Bytes of the entry that break the first rule, where they are known.
        engine: What found it.
        seed: Seed of the run.
        execs: Inputs that the run had tried by then.
        replays: How often of three times a fresh process gave the same answer.
        reproduce: Command line that asks again, in the folder that holds the finding's.
    """  # noqa: D205 - it is the description of the schema

    signature: str
    cause: str = ""
    cwe: tuple[Weakness, ...]
    got: dict[str, str]
    action: dict[str, Any] | None
    expectation: Expectation
    where: Where | None
    engine: str
    seed: int
    execs: Count
    replays: Count
