"""Models of the audit report; ``report.schema.json`` is their schema.

Fields are in the order in which they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field, to_builtins

from safetensors_corpus.document import Spec
from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_corpus.typed import ADDRESS, Count

from ..fuzz_finding import Weakness
from ..record.device_checks import STATUSES
from .severity import DIFFICULTIES, OUTCOMES, SEVERITIES

SCHEMA: Final = 1
SCHEMA_ID = f"{ADDRESS}report.schema.json"

LETTERS = {
    "unsafe": "C",
    "wrong-content": "D",
    "wrong-accept": "A",
    "wrong-reject": "R",
    "deviation": "V",
    "choice-inconsistent": "I",
    "harness-error": "H",
    "late-reject": "L",
    "not-strict": "N",
    "unsupported": "U",
    "choice": "O",
    "pass": "P",
    "not run": "-",
    "not asked": ".",
}

WORDS = {
    "unsafe": "unsafe",
    "wrong-content": "wrong content",
    "wrong-accept": "lenient",
    "wrong-write": "wrong files",
    "wrong-race": "unguarded",
    "wrong-reject": "strict",
    "deviation": "deviating",
    "choice-inconsistent": "inconsistent",
    "late-reject": "late",
}
MISSES = "misses"
"""Word for a scanner or validator that accepts forbidden files."""
CLEAN, NOT_TOLD, UNKNOWN = "conformant", "no fault shown", "not fully known"
"""Words without a bad verdict. Published pages withhold some, so they call no other software *conformant*."""
ORDER = (*WORDS.values(), MISSES, UNKNOWN, NOT_TOLD, CLEAN)


def _one_of(words: Iterable[str], about: str | None = None) -> Meta:
    words = list(words)
    return Meta(pattern=f"^({'|'.join(words)})$", description=about, extra_json_schema={"enum": words})


Positive = Annotated[int, Meta(ge=1)]
RuleId = Annotated[str, Meta(pattern="^[A-Z]{3}-[0-9]{2,}$")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Kind = Annotated[str, _one_of(VERDICTS, "Verdict of run records, without the option of a choice.")]
Outcome = Annotated[
    str,
    _one_of(OUTCOMES, "Class of outcome, which determines the severity; scales.outcome has the meanings."),
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
    """Option that an implementation takes where the format leaves a choice.

    Attributes:
        option: Several compatible options are separated by bars; empty if contradicted.
    """

    choice: str
    option: str
    verdict: str


class ExpectedRow(Struct):
    """An expected failure.

    Attributes:
        state: Current state of the entry; published reports of other people's software do not show passes.
        issue: Address, or 'unreported', or empty.
    """

    case: str
    verdict: str | None
    state: Literal["fails", "passes", "no verdict"]
    why: str
    issue: str
    review_by: str | None


class DeviceRow(Struct, forbid_unknown_fields=True):
    """The device that files were also loaded onto.

    Attributes:
        name: cpu or cuda:N.
        files: Files in the step device.
        checks: Promise -> files that keep it, break it, or have no result.
    """

    name: str
    files: Positive
    checks: dict[str, Annotated[dict[str, Count], Meta(extra_json_schema={"required": list(STATUSES)})]]

    def __post_init__(self) -> None:
        if not all(counts.keys() >= set(STATUSES) for counts in self.checks.values()):
            raise ValueError(f"checks must have {', '.join(STATUSES)}")


class CauseRow(Struct):
    """One root cause, with the failures it explains.

    Attributes:
        verdict: Its worst verdict.
        verdicts: Verdict -> cases, each case by its worst.
        basis: Basis of the worst verdict: text, official, ours; null if the run does not record it.
        rule: The rule charged most, empty for none.
        what: What the implementation does with which kind of input; only the rule if withheld.
        said: Class of the implementation's own messages.
        cases: Ids; none if withheld.
        example: The case to look at first.
        reproducer: Command line that runs the example again.
        mend: Advice, one sentence or empty.
        expected_failure: Whether the baseline lists all of it.
        redacted: Verdict and rule only, for lack of a public report.
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


ROLES = ("reader", "lister", "checker", "writer", "index", "device")
"""Roles of a program, each with its own table: it returns tensors, lists headers, checks files, writes them,
loads through an index, loads onto a device."""
Failed = dict[Literal["text", "official", "ours"], dict[Kind, Positive]]
"""Basis of a rule -> worst verdict -> cases that fail such a rule."""


class CellRow(Struct):
    """Cases about an area of rules, in one role.

    Attributes:
        area: First letters of its rules.
        asked: Cases about it, alone or among other areas.
    """

    area: str
    asked: Count
    failed: Failed


class AnswerRow(Struct):
    """Results for one kind of input, such as files with duplicate tensor names.

    Attributes:
        asked: Cases of that kind.
        note: Behaviour on such inputs, if public: keeps the last.
    """

    question: str
    asked: Count
    failed: Failed
    note: str = ""


class RoleRow(Struct):
    """Results of an implementation in one role.

    Attributes:
        asked: Cases of a full run in this role. Cases that published reports withhold are included, also in
            those without a fault.
        failed: Cases that fail in an area that the implementation claims.
        unclaimed: Areas of rules that it does not claim. Failures there are in no cell.
        cells: The areas with cases.
    """

    role: Annotated[str, _one_of(ROLES)]
    asked: Count
    failed: Failed
    unclaimed: list[str]
    cells: list[CellRow]
    answers: list[AnswerRow]


class Implementation(Struct, kw_only=True):
    """The implementation under test, how far the run got and its counts.

    Attributes:
        label: Selector and version; unique in this report, and the name used everywhere else in it.
        selector: Value of --impl.
        corpus: SHA-256 of the manifest of the run.
        word: The worst result in a word; conformant only if every case of a full run has a verdict. Published
            reports withhold unsafe results of other people's software, use 'no fault shown' instead of
            conformant there, and never 'unsafe'.
        due: Cases in a full run of this implementation.
        cases: Cases with a verdict.
        counts: Cases per kind of verdict, each by its worst step. For other people's software, published
            reports leave out passes and options taken: no fault is shown for all cases without a count,
            whether they passed or are withheld.
        contradictions: Choices with contradicting answers.
        not_run: Cases of a full run without a verdict; never counted as passed. Zero in published reports of
            other people's software, which are made from complete runs only.
        not_asked: Reason -> cases of the corpus outside a full run: heavy, or a kind or area that the
            implementation lacks.
        expected_failing: Cases that fail as the baseline expects, whether or not they are named here.
        problems: Problems that the run reported; none on published pages.
        device: Missing if the run had none, and in published reports of other people's software.
        causes: Root causes, the worst first; missing in reports of older versions.
        kind: Kind in its descriptor; empty without one.
        title: Name given by its authors, or empty.
        homepage: Address, or empty.
        issues: Address of its tracker, or empty.
        parser: Name of the program whose parser it uses, its own by default.
        claim: What its documentation claims to check, and where; empty if it claims everything.
        scope: Which entry point was called and how, and how its public entry point differs, if it does.
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
    """Words of the scales with their meaning, worst or easiest first."""

    severity: Words
    difficulty: Words
    outcome: Words
    verdict: Words


class RuleCells(Struct):
    """Verdicts on the cases of a rule.

    Attributes:
        cases: Cases of the corpus.
        known: Cases with a verdict per implementation; a failing case counts only for the first of its rules.
        worst: The worst failing verdict per implementation; without one the first of pass, choice and
            unsupported that occurs; null without any verdict.
    """

    rule: RuleId
    level: Literal["must", "should", "may"]
    title: str
    cases: Count
    known: list[Count]
    worst: list[Kind | None]


class AreaCells(Struct):
    """Verdicts on the cases of an area of rules, and of each of its rules."""

    area: str
    title: str
    cases: Count
    known: list[Count]
    worst: list[Kind | None]
    rules: list[RuleCells]


class CaseRow(Struct):
    """A case of the corpus.

    Attributes:
        rule: The rule that the case is about.
        verdicts: One letter per implementation, in order.
    """

    case: str
    rule: str
    verdicts: str


class Cases(Struct):
    """All cases with their verdicts.

    Attributes:
        legend: Verdict -> letter.
        rows: Every case of the corpus; none on published pages.
    """

    legend: Words
    rows: list[CaseRow]


class GapRow(Struct):
    """A rule without cases that require acceptance, or without cases that require refusal."""

    rule: RuleId
    level: str
    cases: Count
    missing: list[Annotated[str, _one_of(("accept", "reject"))]]
    reasons: Words


class Coverage(Struct):
    """Coverage of the rules by the corpus.

    Attributes:
        both: Rules with cases that require acceptance and cases that require refusal.
    """

    both: Count
    one: Count
    none: Count
    gaps: list[GapRow]


class ClusterRow(Struct):
    """Cases that split in the same way."""

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
    """Disagreements between implementations, which are indices here.

    Attributes:
        compared: Cases in all compared runs with at least two answers.
        set_aside: Implementations that are not compared, because they have few of the plain files.
        content_splits: Cases that two implementations accept and read differently.
        verdict_splits: Cases that one accepts and another refuses.
        clusters: Cases that split in the same way, largest first; none on published pages.
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
    """Bytes at fault.

    Attributes:
        end: One past the last byte; equal to start for a position between bytes.
        path: JSONPath in the header.
    """

    start: Count
    end: Count
    path: str | None
    text: str


class EvidenceRow(Struct):
    """The input shown.

    Attributes:
        case: Case id, or slug of a fuzzing finding.
        file: Path in the corpus.
        where: The whole input if no byte is more at fault than another, null without a file.
        request: Request besides reading the file: a slice, what to write, how the file changes; JSON,
            truncated if long.
        layout: The data buffer in one line.
        hex: Bytes around the fault, or the first ones.
        input: Key in inputs; null if the input is large or not a single file.
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
    """A public report.

    Attributes:
        reference: owner/repository#number, address, or name of a document.
        current: Whether it is about the tested version.
    """

    reference: str
    current: bool
    cases: list[str]


class Finding(Struct):
    """One implementation, one rule, one verdict. The evidence shows the smallest input among those with the
    worst outcome.

    Attributes:
        id: Stable across versions.
        rule: None if fuzzing found it and the rule is not known.
        weaknesses: CWE entries, the primary one first.
        case_count: Cases of the corpus that show it; zero if only fuzzing found it.
        cases: Their ids; on published pages those with a public report.
        fingerprint: Digest of the input shown.
        reproducer: Command line.
        expected_failure: Whether the baseline lists every result.
        own: Whether it is about this project's own reader.
        redacted: Whether only verdict and rule are shown.
        upstream: Program whose parser it uses, if different and the rule is about files.
    """  # noqa: D205 - it is the description of the schema

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
    """A rule named in findings."""

    level: str
    title: str
    statement: str
    source: str
    codes: list[str]


class ChoiceText(Struct):
    """A choice named in runs.

    Attributes:
        required: The option that every reader must take.
    """

    rule: RuleId
    title: str
    description: str
    options: Words
    required: str | None


class Costly(Struct):
    """Cost of a step of a case."""

    case: str
    step: str
    wall_ms: float | UnsetType = UNSET
    peak_bytes: int | UnsetType = UNSET


class RunRow(Struct):
    """Time and place of a run, and the costs of its cases; published reports contain the day and no costs.

    Attributes:
        started: UTC, RFC 3339; only the day in published reports.
    """

    implementation: str
    started: str | None
    platform: str | None
    python: str | None
    duration_s: float | UnsetType | None = UNSET
    slowest: list[Costly] | UnsetType = UNSET
    hungriest: list[Costly] | UnsetType = UNSET


class RunPart(Struct):
    """Time, place and costs: everything that differs between two runs over the same inputs."""

    runs: list[RunRow]


class Report(Struct, kw_only=True):
    """Runs and fuzzing findings in canonical order. Everything that differs between two runs over the same
    inputs is under run. Readers ignore properties they do not know.

    Attributes:
        schema: Version of this format; raised on incompatible changes.
        public: Made for published pages: unpublished failures of other people's software show verdict and
            rule only, and unpublished crashes, hangs and unbounded memory use change nothing. In comparisons
            of projects, published ones are left out too.
        findings: Worst first.
        inputs: SHA-256 -> bytes of an input in the evidence of a finding.
        rules: Rules named in findings.
        choices: Choices named in runs.
        caveats: Reasons why the numbers are incomplete.
    """  # noqa: D205 - it is the description of the schema

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


def report_text(report: Report) -> str:
    return json.dumps(to_builtins(report), indent=1, allow_nan=False) + "\n"
