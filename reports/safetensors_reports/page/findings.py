"""Findings on a page: one block per rule and verdict, with all implementations that have this finding."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from markupsafe import Markup

from safetensors_corpus.field_bugs import reference_url

from ..audit.report import Finding, Report
from ..fuzz_finding import Weakness
from ..recommendations import NOT_KNOWN
from ..text import plural, report_key, slug
from .file_svg import layout_svg

MAX_EMBEDDED = 4 << 10
MAX_CASES = 60


@dataclass(frozen=True)
class Reference:
    """A public report; ``current`` says whether it is about the tested version."""

    name: str
    url: str | None
    current: bool = False


@dataclass
class Block:
    """One rule that is broken in one way; ``shown`` is None if all findings are withheld."""

    anchor: str
    rule: str
    members: list[Finding]
    shown: Finding | None = None
    drawing: Markup | None = None
    drawn_at: str = ""
    download: str = ""
    references: list[Reference] = field(default_factory=list)

    @property
    def severity(self) -> str:
        return self.members[0].severity

    @property
    def difficulty(self) -> str:
        return self.members[0].difficulty

    @property
    def verdict(self) -> str:
        return self.members[0].verdict

    @property
    def weaknesses(self) -> list[Weakness]:
        return list({w.id: w for m in self.members for w in m.weaknesses}.values())

    @property
    def cases(self) -> list[str]:
        return sorted({case for m in self.members for case in m.cases})

    @property
    def expected(self) -> bool:
        return all(m.expected_failure for m in self.members)

    @property
    def title(self) -> str:
        if len(self.members) == 1:
            return self.members[0].title
        count = f"{len(self.members):,} implementations"
        first = self.shown or self.members[0]
        if first.redacted:
            return f"{self.verdict}, {self.rule}: {count}"
        predicate = first.title.removeprefix(first.implementation).strip()
        return f"{predicate[:1].upper()}{predicate[1:]}: {count}"


def blocks(report: Report) -> list[Block]:
    order = list(report.scales.severity)
    verdicts = list(report.scales.verdict)
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.rule or NOT_KNOWN, finding.verdict), []).append(finding)
    out = [Block(slug(f"{rule}-{verdict}"), rule, members) for (rule, verdict), members in groups.items()]
    out.sort(key=lambda b: (order.index(b.severity), verdicts.index(b.verdict), b.rule))
    drawn: dict[str, str] = {}
    for block in out:
        block.shown = _speaking(block.members)
        references: dict[str, Reference] = {}
        for member in block.members:
            # The short form of a report comes before its address and is shown for both.
            for row in sorted(member.references, key=lambda r: r.reference.startswith("https://")):
                key, name = report_key(row.reference), row.reference
                entry = references.get(key) or Reference(name, reference_url(name))
                references[key] = replace(entry, current=entry.current or row.current)
        block.references = sorted(references.values(), key=lambda row: row.name)
        _show(block, report.inputs, drawn)
    return out


def by_severity(found: Sequence[Block]) -> Iterator[tuple[str, list[Block]]]:
    for level, group in groupby(found, key=lambda b: b.severity):
        yield level, list(group)


def grid(report: Report) -> list[tuple[str, list[int]]]:
    numbers = Counter((f.severity, f.difficulty) for f in report.findings)
    scales = report.scales
    return [(s, [numbers[s, d] for d in scales.difficulty]) for s in scales.severity]


def _speaking(members: Sequence[Finding]) -> Finding | None:
    visible = [(m, m.evidence.size) for m in members if m.evidence is not None]
    if not visible:
        return None
    worst = [(m, size) for m, size in visible if m.severity == visible[0][0].severity]
    shared = Counter(m.fingerprint for m, _ in worst)
    return min(worst, key=lambda pair: (-shared[pair[0].fingerprint], pair[1] == 0, pair[1], pair[0].id))[0]


def _show(block: Block, inputs: Mapping[str, str], drawn: dict[str, str]) -> None:
    evidence = block.shown.evidence if block.shown else None
    key = evidence.input if evidence else None
    if evidence is None or key is None or key not in inputs or evidence.size > MAX_EMBEDDED:
        return
    block.download = f"data:application/octet-stream;base64,{inputs[key]}"
    if key in drawn:
        block.drawn_at = drawn[key]
        return
    drawn[key] = block.anchor
    name = f"{evidence.case.rpartition('/')[2]}.safetensors"
    # The drawing escapes all text from the file.
    block.drawing = Markup(layout_svg(base64.b64decode(inputs[key]), name=name, style=False))  # noqa: S704


def case_words(count: int) -> str:
    return plural(count, "case") if count else "found by fuzzing"
