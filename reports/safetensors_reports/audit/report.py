"""The document of an audit as typed models; ``report.schema.json`` is their schema.

Fields stand in the order in which they are written.
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
"""Version of the report's format; raised when a reader of reports must follow."""
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
"""Kind of verdict -> its letter in the rows of cases."""

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
"""Worst verdict -> the word for an implementation. See ``implementations``."""
MISSES = "misses"
"""Word for a scanner or validator that lets pass what is forbidden: it loads nothing."""
CLEAN, NOT_TOLD, UNKNOWN = "conformant", "no fault shown", "not fully known"
"""Words without a bad verdict. Published pages hold some back, and so call nobody else *conformant*."""
ORDER = (*WORDS.values(), MISSES, UNKNOWN, NOT_TOLD, CLEAN)
"""All words, the worst first."""


def _one_of(words: Iterable[str], about: str | None = None) -> Meta:
    words = list(words)
    return Meta(pattern=f"^({'|'.join(words)})$", description=about, extra_json_schema={"enum": words})


Positive = Annotated[int, Meta(ge=1)]
RuleId = Annotated[str, Meta(pattern="^[A-Z]{3}-[0-9]{2,}$")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Kind = Annotated[str, _one_of(VERDICTS, "Verdict of run records, without the option of a choice.")]
Outcome = Annotated[
    str,
    _one_of(OUTCOMES, "Class of outcome, by which severity goes; scales.outcome says what each stands for."),
]
Severity = Annotated[str, _one_of(SEVERITIES)]
Difficulty = Annotated[str, _one_of(DIFFICULTIES)]
Word = Annotated[str, _one_of(ORDER)]
Words = dict[str, str]


class RuleBookRow(Struct):
    """The rule book.

    Attributes:
        sha256: Of rules.toml and choices.toml, one after the other.
    """

    sha256: Sha256
    rules: Count
    choices: Count


class CorpusRow(Struct):
    """The corpus.

    Attributes:
        sha256: Of the manifest.
    """

    version: str
    sha256: str
    cases: Count
    heavy: Count
    spec: Spec


class ChoiceRow(Struct):
    """What an implementation takes where the format leaves something open.

    Attributes:
        option: Several compatible ones with bars between; empty when contradicted.
    """

    choice: str
    option: str
    verdict: str


class ExpectedRow(Struct):
    """An expected failure.

    Attributes:
        state: What became of the entry; published reports of other people's software do not tell what passes.
        issue: Address, or 'unreported', or empty.
    """

    case: str
    verdict: str | None
    state: Literal["fails", "passes", "no verdict"]
    why: str
    issue: str
    review_by: str | None


class DeviceRow(Struct, forbid_unknown_fields=True):
    """The device that files were loaded onto as well.

    Attributes:
        name: cpu or cuda:N.
        files: Files that the step device was asked for.
        checks: Promise -> files for which it holds, does not, or nothing is known.
    """

    name: str
    files: Positive
    checks: dict[str, Annotated[dict[str, Count], Meta(extra_json_schema={"required": list(STATUSES)})]]

    def __post_init__(self) -> None:
        """Raise ValueError for what a type cannot say."""
        if not all(told.keys() >= set(STATUSES) for told in self.checks.values()):
            raise ValueError(f"checks must have {', '.join(STATUSES)}")


class CauseRow(Struct):
    """What really is one mistake, told once.

    Attributes:
        verdict: The worst verdict that it brought about.
        verdicts: Verdict -> cases, each case by its worst.
        basis: On what the worst verdict rests: text, official, ours; null where the run does not tell.
        rule: The rule charged most, empty for none.
        what: What the implementation does with which kind of input; the rule alone where it is not public.
        said: Class of the implementation's own words.
        cases: Ids; none where it is not public.
        example: The case to look at first.
        reproducer: Command line that runs the example again.
        mend: What to do about it, one sentence or empty.
        expected_failure: The baseline lists all of it.
        redacted: Verdict and rule only: no public report tells of it.
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
"""What a program can be, each with a table of its own: it hands out tensors, lists headers, checks files,
writes them, loads through an index, loads onto a device."""
Failed = dict[Literal["text", "official", "ours"], dict[Kind, Positive]]
"""What a rule rests on -> worst verdict -> cases that fail by such a rule."""


class CellRow(Struct):
    """Cases about an area of rules, in one role.

    Attributes:
        area: First letters of its rules.
        asked: Cases that are about it, as one of several things or the only one.
    """

    area: str
    asked: Count
    failed: Failed


class AnswerRow(Struct):
    """What happened with one sort of input, such as files with a tensor name twice.

    Attributes:
        asked: Cases of that sort.
        note: What it does with such inputs, where that is public: keeps the last.
    """

    question: str
    asked: Count
    failed: Failed
    note: str = ""


class RoleRow(Struct):
    """What one role of an implementation showed.

    Attributes:
        asked: Cases that a full run has in this role. Where published reports hold cases back, they are
            among these, and among those without a fault shown.
        failed: Cases that fail in an area that the implementation claims.
        unclaimed: Areas of rules that it does not claim. What fails there stands in no cell.
        cells: The areas that it is asked about.
    """

    role: Annotated[str, _one_of(ROLES)]
    asked: Count
    failed: Failed
    unclaimed: list[str]
    cells: list[CellRow]
    answers: list[AnswerRow]


class Implementation(Struct, kw_only=True):
    """Who was tested, how far the run got and what it counted.

    Attributes:
        label: Selector and version; distinct in this report, and the name used everywhere else in it.
        selector: What --impl was given.
        corpus: SHA-256 of the manifest of the run.
        word: The worst that was found, in a word; conformant only when everything due has a verdict.
            Published reports hold unsafe results of other people's software back, say 'no fault shown'
            instead of conformant there, and never 'unsafe'.
        due: Cases that a full run of this implementation has.
        cases: Cases with a verdict.
        counts: Cases per kind of verdict, the worst step of each case. Published reports leave out for other
            people's software what passed or took an option: of all cases that no count has no fault is shown,
            whether they passed or are held back.
        contradictions: Choices whose cases contradict each other.
        not_run: Cases that are due and have no verdict; never counted as passed. None in published reports of
            other people's software, which are made of whole runs alone.
        not_asked: Reason -> cases of the corpus that are not due: heavy, or a kind or area that the
            implementation does not have.
        expected_failing: Cases that fail as the baseline says, whether or not they are named here.
        problems: What the run said kept it from telling; none on published pages.
        device: Missing where the run had none, and in published reports of other people's software.
        causes: The worst first; missing in reports of older versions.
        kind: What its descriptor calls it; empty for one of which there is none.
        title: What its makers call it, or empty.
        homepage: Address, or empty.
        issues: Address of its tracker, or empty.
        parser: Name of the program whose parser it runs, its own by default.
        claim: What its documentation says of what it looks at, and where; empty for one that claims all.
        scope: What was called and how; and what its public entry point says of the same files, where that is
            another one.
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
    """Every word of the scales with what it stands for, worst or easiest first."""

    severity: Words
    difficulty: Words
    outcome: Words
    verdict: Words


class RuleCells(Struct):
    """Verdicts on the cases of a rule.

    Attributes:
        cases: Cases of the corpus.
        known: Per implementation the cases with a verdict; a failing one counts for the first of its rules
            alone.
        worst: Per implementation the worst verdict that fails; without one pass, choice or unsupported, the
            first that occurs; null without any.
    """

    rule: RuleId
    level: Literal["must", "should", "may"]
    title: str
    cases: Count
    known: list[Count]
    worst: list[Kind | None]


class AreaCells(Struct):
    """Verdicts on the cases of an area of rules, as of a rule, and of each of its rules."""

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
        verdicts: A letter per implementation, in their order.
    """

    case: str
    rule: str
    verdicts: str


class Cases(Struct):
    """Every case with its verdicts.

    Attributes:
        legend: Verdict -> letter.
        rows: Every case of the corpus; none on published pages.
    """

    legend: Words
    rows: list[CaseRow]


class GapRow(Struct):
    """A rule without cases that demand acceptance, or without such that demand refusal."""

    rule: RuleId
    level: str
    cases: Count
    missing: list[Annotated[str, _one_of(("accept", "reject"))]]
    reasons: Words


class Coverage(Struct):
    """Coverage of the rules by the corpus.

    Attributes:
        both: Rules with cases that demand acceptance and cases that demand refusal.
    """

    both: Count
    one: Count
    none: Count
    gaps: list[GapRow]


class ClusterRow(Struct):
    """Cases that split alike."""

    kind: Literal["content", "verdict"]
    answers: dict[str, list[Count]]
    dissenter: int | None
    cases: list[str]
    difference: str
    between: list[Count] | None


class PairRow(Struct):
    """Cases that divide two implementations."""

    between: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    content: Count
    verdict: Count


class AgreementPart(Struct):
    """Who differs from whom. Implementations are numbers here, from 0 on in their order.

    Attributes:
        compared: Cases that every compared run has and at least two answered.
        set_aside: Implementations not compared, because they have few of the plain files.
        content_splits: Cases that two accept and read differently.
        verdict_splits: Cases that one accepts and another refuses.
        clusters: Cases that split alike, largest first; none on published pages.
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
        end: One past the last byte; equal to start for a place between bytes.
        path: JSONPath in the header.
    """

    start: Count
    end: Count
    path: str | None
    text: str


class EvidenceRow(Struct):
    """The input shown.

    Attributes:
        case: Case id, or slug of a fuzzing run's finding.
        file: Path below the corpus.
        where: The whole input where no byte is more at fault than another, null where there is no file.
        request: What was asked for besides reading the file: a slice, what to write, how the file changes;
            JSON, cut when long.
        layout: The data buffer in one line.
        hex: Bytes around the fault, or the first ones.
        input: Key in inputs; null where the input is large, or no single file.
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
        current: Whether it is about the version tested.
    """

    reference: str
    current: bool
    cases: list[str]


class Finding(Struct):
    """One implementation, one rule, one verdict. Evidence is of the smallest input among those that end
    worst.

    Attributes:
        id: Stays the same from version to version.
        rule: None where fuzzing found it and the rule is not known.
        weaknesses: CWE entries, the primary one first.
        case_count: Cases of the corpus that show it; zero for one found by fuzzing alone.
        cases: Their ids; on published pages those that a public report is about.
        fingerprint: Digest of the input shown.
        reproducer: Command line.
        expected_failure: Every result is listed in the baseline.
        own: About this project's own reader.
        redacted: Only verdict and rule are told.
        upstream: Program whose parser it runs, where that is another one and the rule is about files.
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
    """A rule that findings name."""

    level: str
    title: str
    statement: str
    source: str
    codes: list[str]


class ChoiceText(Struct):
    """A choice that runs took.

    Attributes:
        required: The option that every reader must take.
    """

    rule: RuleId
    title: str
    description: str
    options: Words
    required: str | None


class Costly(Struct):
    """What a step of a case cost."""

    case: str
    step: str
    wall_ms: float | UnsetType = UNSET
    peak_bytes: int | UnsetType = UNSET


class RunRow(Struct):
    """When and where a run was, and what its cases cost; published reports tell the day and no cost.

    Attributes:
        started: UTC, RFC 3339; the day alone in published reports.
    """

    implementation: str
    started: str | None
    platform: str | None
    python: str | None
    duration_s: float | UnsetType | None = UNSET
    slowest: list[Costly] | UnsetType = UNSET
    hungriest: list[Costly] | UnsetType = UNSET


class RunPart(Struct):
    """When and where, and what cases cost: all that differs between two runs over the same inputs."""

    runs: list[RunRow]


class Report(Struct, kw_only=True):
    """Any number of runs and findings of fuzzing, in canonical order. All that differs between two runs over
    the same inputs stands under run. Readers ignore properties they do not know.

    Attributes:
        schema: Version of this format; raised when a reader of reports must follow.
        public: Made for published pages: failures of other people's software that are not public carry
            verdict and rule only, and nothing changes with crashes, hangs and endless memory that are not
            public. Beside other projects those that are public are not told either.
        findings: Worst first.
        inputs: SHA-256 -> the bytes of an input that the evidence of a finding names.
        rules: The rules that findings name.
        choices: The choices that runs took.
        caveats: Why the numbers do not tell everything.
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
