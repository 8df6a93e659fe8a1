"""Models of ``finding.json``: the whole document, and the part of it that reports read."""

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
    "description": "Set when no answer is wrong on its own: all implementations in got that accept the input "
    "must report the same content.",
}
Expectation = Annotated[dict[str, Any], Meta(extra_json_schema={"properties": {"agree": _AGREE}})]


class RuleRow(Struct, frozen=True):
    """A rule as it appears in the rule book."""

    id: Annotated[str, Meta(pattern="^[A-Z]{3}-[0-9]{2,}$")]
    level: Literal["must", "should", "may"]
    title: str
    statement: str


class FileRow(Struct, frozen=True):
    """A file of the input.

    Attributes:
        path: Path in the folder of the input, as the implementation sees it.
        stored: Path of the file, relative to this document.
    """

    path: NonEmpty
    stored: NonEmpty
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: Count


class SizeRow(Struct, frozen=True):
    """Total size of all files in bytes.

    Attributes:
        found: Size before shrinking.
    """

    found: Count
    now: Count


class FindingPart(Struct, frozen=True, kw_only=True):
    """The part of a finding that reports read."""

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

    def outcome(self, selector: str) -> str:
        """Return the outcome at the start of an answer such as ``crash: killed by SIGSEGV``."""
        return self.got[selector].replace(",", ":").partition(":")[0].strip()


class Weakness(Struct, frozen=True):
    """An entry of the Common Weakness Enumeration."""

    id: Annotated[int, Meta(ge=1)]
    name: str


class Where(Struct, frozen=True):
    """A range of bytes.

    Attributes:
        end: One past the last byte; it equals start for a position between bytes.
    """

    start: Count
    end: Count


class FindingDocument(FindingPart, frozen=True, kw_only=True):
    """An input for which an implementation gives a wrong answer, crashes or hangs.

    The files are next to this document. Nothing in it depends on when or where the input was found. Readers
    ignore properties that they do not know.

    Attributes:
        schema: Version of this format; every incompatible change increments it.
        slug: Name of the folder: the first code or rule, and digits derived from the input and the signature.
        step: Step that was run: open, read, slice, write or index. The steps prove and check exist only for
            the reference.
        verdict: Verdict on the answer, as in run records. It does not express severity.
        signature: Subject and outcomes; findings with the same signature are duplicates.
        rules: Rules that the input or the answer breaks, the main one first; empty if the rule is not known.
        cause: One line that explains why these rules are listed, or why none is. It is empty if codes or
            expectation already say so.
        codes: Fault codes of the input, sorted; empty for a valid input.
        cwe: Weaknesses of a reader that accepts an input with these faults, the primary one first.
        expected: The expectation in one line.
        got: Selector -> answer in one line.
        versions: Selector -> version.
        files: Files of the input; empty for a step whose input is its action.
        entry: Path of the file that is passed to the implementation.
        action: What to do besides reading, in the form of the corpus manifest.
        expectation: The required answer, in the form of the corpus manifest. If the outcome is open, the
            implementation may accept or reject the input.
        where: Bytes of the entry that break the first rule, if known.
        engine: Engine that found the input.
        seed: Seed of the run.
        execs: Number of inputs that the run had tried when it found this one.
        replays: How many of three replays in fresh processes gave the same answer.
        reproduce: Command line that reproduces the finding; run it in the folder that
            contains the folder of the finding.
    """

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
