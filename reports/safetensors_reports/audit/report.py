"""Models of the audit report in the order of its fields; ``report.schema.json`` is their schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_corpus.model import Spec
from safetensors_corpus.typed import ADDRESS, Count

from ..fuzz_finding import Weakness
from ..labels import ORDER, ROLES
from ..record.device_checks import STATUSES
from ..severity import DIFFICULTIES, OUTCOMES, SEVERITIES

SCHEMA: Final = 1
SCHEMA_ID = f"{ADDRESS}report.schema.json"


def _one_of(words: Iterable[str], about: str | None = None) -> Meta:
    words = list(words)
    return Meta(pattern=f"^({'|'.join(words)})$", description=about, extra_json_schema={"enum": words})


Positive = Annotated[int, Meta(ge=1)]
RuleId = Annotated[str, Meta(pattern="^[A-Z]{3}-[0-9]{2,}$")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Kind = Annotated[str, _one_of(VERDICTS, "Verdict of a run record, without the option of a choice.")]
Outcome = Annotated[
    str,
    _one_of(OUTCOMES, "Class of outcome, which determines the severity. The meanings are in scales.outcome."),
]
Severity = Annotated[str, _one_of(SEVERITIES)]
Difficulty = Annotated[str, _one_of(DIFFICULTIES)]
Word = Annotated[str, _one_of(ORDER)]
Words = dict[str, str]


class RuleBookRow(Struct):
    """The rule book.

    Attributes:
        sha256: Digest of rules.toml and choices.toml, concatenated.
    """

    sha256: Sha256
    rules: Count
    choices: Count


class CorpusRow(Struct):
    """The corpus.

    Attributes:
        sha256: Digest of the manifest.
    """

    version: str
    sha256: str
    cases: Count
    heavy: Count
    spec: Spec


class ChoiceRow(Struct):
    """The option that an implementation takes where the format leaves a choice.

    Attributes:
        option: Several compatible options are separated by bars. Empty if the answers contradict each other.
    """

    choice: str
    option: str
    verdict: str


class ExpectedRow(Struct):
    """A failure that a baseline expects."""

    case: str
    verdict: str | None
    state: Literal["fails", "passes", "no verdict"]
    why: str
    issue: str
    review_by: str | None


class DeviceRow(Struct, forbid_unknown_fields=True):
    """The device onto which files were loaded.

    Attributes:
        name: cpu, or an accelerator such as cuda:0.
        files: Number of files in the device step.
        checks: Guarantee -> number of files for which it is kept, for which it is broken, and for which there
            is no result.
    """

    name: str
    files: Positive
    checks: dict[str, Annotated[dict[str, Count], Meta(extra_json_schema={"required": list(STATUSES)})]]

    def __post_init__(self) -> None:
        if not all(counts.keys() >= set(STATUSES) for counts in self.checks.values()):
            raise ValueError(f"checks must have {', '.join(STATUSES)}")


class CauseRow(Struct):
    """One root cause, with the failures that it explains.

    Attributes:
        verdict: The worst verdict.
        verdicts: Verdict -> number of cases; a case counts under its worst verdict.
        basis: Basis of the worst verdict: text, official or ours; null if the run does not record it.
        rule: The rule to which most failures are attributed; empty if there is none.
        what: What the implementation does, and with which kind of input. If this is withheld, it names only
            the rule.
        said: Class of the implementation's own messages.
        cases: Ids of the cases; empty if they are withheld.
        example: The case to look at first.
        reproducer: Command line that runs the example again.
        mend: Advice in one sentence, or empty.
        expected_failure: Whether the baseline lists all these failures.
        redacted: Whether only the verdict and the rule are shown because there is no public report.
    """

    verdict: str
    verdicts: dict[str, Positive]
    basis: str | None
    rule: str
    what: str
    said: str
    case_count: Count
    cases: list[str]
    steps: list[str]
    example: str | None
    reproducer: str | None
    mend: str
    expected_failure: bool
    redacted: bool


Failed = dict[Literal["text", "official", "ours"], dict[Kind, Positive]]
"""Basis of a rule -> worst verdict -> number of cases that fail such a rule."""


class CellRow(Struct):
    """Results for the cases about one area of rules, in one role.

    Attributes:
        area: First letters of the rules in this area.
        asked: Number of cases about the area, including cases that are also about other areas.
    """

    area: str
    asked: Count
    failed: Failed


class AnswerRow(Struct):
    """Results for one kind of input, such as files with duplicate tensor names.

    Attributes:
        asked: Number of cases of that kind.
        note: Behaviour on these inputs, such as 'keeps the last', if it is public.
    """

    question: str
    asked: Count
    failed: Failed
    note: str = ""


class RoleRow(Struct):
    """Results of an implementation in one role.

    Attributes:
        asked: Number of cases for this role in a full run. Cases that published reports withhold are included
            here and count as cases without a fault.
        failed: Cases that fail in an area that the implementation claims to support.
        unclaimed: Areas of rules that it does not claim to support. No cell includes failures in these areas.
        cells: Results for each area that has cases.
    """

    role: Annotated[str, _one_of(ROLES)]
    asked: Count
    failed: Failed
    unclaimed: list[str]
    cells: list[CellRow]
    answers: list[AnswerRow]


class Implementation(Struct, kw_only=True):
    """The implementation under test, the extent of its run, and its counts.

    Attributes:
        label: Selector and version. The label is unique in this report and used everywhere else in it.
        selector: Value of --impl.
        corpus: SHA-256 of the manifest of the run.
        word: The overall verdict, which is conformant only if every case in a full run has a verdict.
            Published reports about other people's software withhold unsafe results, so they say 'no fault
            shown' instead of conformant and never say 'unsafe'.
        due: Number of cases in a full run of this implementation.
        cases: Number of cases with a verdict.
        counts: Number of cases per kind of verdict; a case is counted under the verdict of its worst step.
            For other people's software, published reports leave out passes and options taken. The cases that
            no count includes passed or are withheld.
        contradictions: Number of choices with contradicting answers.
        not_run: Number of cases in a full run that have no verdict. They never count as passed. The number is
            zero in published reports about other people's software, because these need complete runs.
        not_asked: Reason -> number of cases in the corpus that are not part of a full run, because they are
            heavy or because the implementation does not support their kind or area.
        expected_failing: Number of cases that fail as the baseline expects, even if they are not named here.
        problems: Problems that the run reported; none on published pages.
        device: Missing if the run had no device, and in published reports about other people's software.
        causes: Root causes, worst first; missing in reports of older versions.
        kind: Kind of program from its descriptor; empty if there is none.
        title: Name that its authors use, or empty.
        homepage: Address, or empty.
        issues: Address of its issue tracker, or empty.
        parser: Name of the program whose parser it uses; by default its own name.
        claim: The checks that its documentation claims, and where it does so; empty if it claims everything.
        scope: The entry point that was called, how it was called, and how it differs from the public entry
            point if it does.
        roles: Missing in reports of older versions.
    """

    label: str
    selector: str
    name: str
    version: str
    language: str
    steps: list[str]
    lacks: list[str]
    suite: str
    corpus: str
    profile: str | None
    limits: dict[str, int | float | None]
    ended: Literal["complete", "partial", "truncated"]
    word: Word
    due: Count
    cases: Count
    counts: dict[Kind, Count]
    contradictions: Count
    not_run: Count
    not_asked: dict[str, Count]
    choices: list[ChoiceRow]
    baseline: str | None
    expected_failures: list[ExpectedRow]
    expected_failing: Count
    problems: list[str]
    device: DeviceRow | UnsetType = UNSET
    causes: list[CauseRow] = []
    kind: str = ""
    title: str = ""
    homepage: str = ""
    issues: str = ""
    parser: str = ""
    claim: str = ""
    scope: str = ""
    roles: list[RoleRow] = []


class Scales(Struct):
    """The words of each scale with their meanings, worst or easiest first."""

    severity: Words
    difficulty: Words
    outcome: Words
    verdict: Words


class RuleCells(Struct):
    """Verdicts on the cases of one rule."""

    rule: RuleId
    level: Literal["must", "should", "may"]
    title: str
    cases: Count
    known: list[Count]
    worst: list[Kind | None]


class AreaCells(Struct):
    """Verdicts on the cases in an area of rules, for the whole area and for each of its rules."""

    area: str
    title: str
    cases: Count
    known: list[Count]
    worst: list[Kind | None]
    rules: list[RuleCells]


class CaseRow(Struct):
    """A case in the corpus with its verdicts.

    Attributes:
        rule: The rule that the case is about.
        verdicts: One letter per implementation, in the order of the implementations.
    """

    case: str
    rule: str
    verdicts: str


class Cases(Struct):
    """All cases with their verdicts.

    Attributes:
        legend: Verdict -> letter.
        rows: Every case in the corpus; none on published pages.
    """

    legend: Words
    rows: list[CaseRow]


class GapRow(Struct):
    """A rule for which the corpus has no case that must be accepted, or no case that must be rejected."""

    rule: RuleId
    level: str
    cases: Count
    missing: list[Annotated[str, _one_of(("accept", "reject"))]]
    reasons: Words


class Coverage(Struct):
    """How well the corpus covers the rules."""

    both: Count
    one: Count
    none: Count
    gaps: list[GapRow]


class ClusterRow(Struct):
    """Cases on which the implementations split in the same way."""

    kind: Literal["content", "verdict"]
    answers: dict[str, list[Count]]
    dissenter: int | None
    cases: list[str]
    difference: str
    between: list[Count] | None


class PairRow(Struct):
    """Number of cases on which two implementations disagree."""

    between: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    content: Count
    verdict: Count


class AgreementPart(Struct):
    """Disagreements between implementations. Implementations are given by index.

    Attributes:
        compared: Number of cases that are in all compared runs and have at least two answers.
        set_aside: Implementations that are not compared because they have results for too few of the plain
            files.
        content_splits: Number of cases that two implementations accept and read differently.
        verdict_splits: Number of cases that one implementation accepts and another rejects.
        clusters: Cases on which the implementations split in the same way, largest group first; none on
            published pages.
    """

    compared: Count
    unanswered: Count
    left_out: Count
    set_aside: list[str]
    content_splits: Count
    verdict_splits: Count
    clusters: list[ClusterRow]
    pairs: list[PairRow]
    notes: list[str]


class FuzzRow(Struct):
    """A finding of a fuzzing run."""

    slug: str
    digest: str
    size: Count
    seed: int | None
    engine: str
    reproducer: str


class Where(Struct):
    """The bytes at fault.

    Attributes:
        end: One past the last byte; it equals start for a position between bytes.
        path: JSONPath in the header.
    """

    start: Count
    end: Count
    path: str | None
    text: str


class EvidenceRow(Struct):
    """The input that is shown for a finding.

    Attributes:
        case: Case id, or slug of a fuzzing finding.
        file: Path in the corpus.
        where: The bytes at fault. This is the whole input if no particular bytes are at fault, and null if
            there is no file.
        request: What was requested besides reading the file: a slice, data to write, or a change to the file.
            The request is JSON, truncated if it is long.
        layout: The layout of the data buffer in one line.
        hex: The bytes around the fault, or the first bytes.
        input: Key in inputs; null if the input is large or is not a single file.
    """

    case: str
    title: str
    file: str | None
    size: Count
    code: str | None
    where: Where | None
    request: str | None
    layout: str
    hex: str
    input: str | None


class ReferenceRow(Struct):
    """A public report of a failure."""

    reference: str
    current: bool
    cases: list[str]


class Finding(Struct):
    """One verdict on one implementation under one rule.

    The evidence shows the smallest input among those with the worst outcome.

    Attributes:
        id: Id that is stable across versions.
        rule: None if fuzzing found it and the rule is not known.
        weaknesses: CWE entries, the primary one first.
        case_count: Number of cases in the corpus that show it; zero if only fuzzing found it.
        cases: Ids of the cases; on published pages, only of those with a public report.
        fingerprint: Digest of the input that is shown.
        reproducer: Command line that reproduces it.
        expected_failure: Whether the baseline lists every result.
        own: Whether it is about this project's own reader.
        redacted: Whether only the verdict and the rule are shown.
        upstream: Program whose parser the implementation uses, if it is a different program and the rule is
            about files.
    """

    id: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: str
    implementation: str
    rule: RuleId | None
    verdict: Kind
    outcome: Outcome | None
    severity: Severity
    difficulty: Difficulty
    weaknesses: list[Weakness]
    steps: list[str]
    expected: str
    got: str
    case_count: Count
    cases: list[str]
    fuzz: list[FuzzRow]
    evidence: EvidenceRow | None
    fingerprint: str | None
    reproducer: str | None
    recommendation: str
    references: list[ReferenceRow]
    expected_failure: bool
    own: bool
    redacted: bool
    upstream: str = ""


class RuleRow(Struct):
    """A rule that a finding refers to."""

    level: str
    title: str
    statement: str
    source: str
    codes: list[str]


class ChoiceText(Struct):
    """A choice that a run refers to.

    Attributes:
        required: The option that every reader must take.
    """

    rule: RuleId
    title: str
    description: str
    options: Words
    required: str | None


class Costly(Struct):
    """Time or memory that a step of a case used."""

    case: str
    step: str
    wall_ms: float | UnsetType = UNSET
    peak_bytes: int | UnsetType = UNSET


class RunRow(Struct):
    """When and where a run took place, and the resources that its cases used.

    Published reports contain only the day, without the resources.

    Attributes:
        started: Time in UTC, RFC 3339; only the day in published reports.
    """

    implementation: str
    started: str | None
    platform: str | None
    python: str | None
    duration_s: float | UnsetType | None = UNSET
    slowest: list[Costly] | UnsetType = UNSET
    hungriest: list[Costly] | UnsetType = UNSET


class RunPart(Struct):
    """When and where the runs took place and what resources they used.

    Everything else is identical for two runs over the same inputs.
    """

    runs: list[RunRow]


class Report(Struct, kw_only=True):
    """Runs and fuzzing findings in canonical order.

    Everything that differs between two runs over the same inputs is under run. Readers ignore properties that
    they do not know.

    Attributes:
        schema: Version of this format; every incompatible change increments it.
        public: Whether the report is for published pages. If so, failures of other people's software without
            a public report show only the verdict and the rule, and crashes, hangs and unbounded memory use
            without a public report have no effect on the report. Comparisons of projects leave out even those
            with a public report.
        findings: Findings, worst first.
        inputs: SHA-256 -> bytes of an input in the evidence of a finding.
        rules: Rules that the findings refer to.
        choices: Choices that the runs refer to.
        caveats: Reasons why the numbers are incomplete.
    """

    address: str = field(name="$schema")
    schema: Literal[1]
    public: bool
    rule_book: RuleBookRow
    corpus: CorpusRow
    implementations: Annotated[list[Implementation], Meta(min_length=1)]
    scales: Scales
    matrix: list[AreaCells]
    cases: Cases
    coverage: Coverage
    agreement: AgreementPart
    findings: list[Finding]
    inputs: dict[Sha256, Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]]
    rules: dict[RuleId, RuleRow]
    choices: dict[str, ChoiceText]
    fuzz_findings: Count
    caveats: list[str]
    run: RunPart
