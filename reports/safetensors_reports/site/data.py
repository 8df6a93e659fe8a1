"""Data of the site, read from the checkout and indexed for the links between its pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from safetensors_corpus import Manifest
from safetensors_corpus.cli.bugs import cases_of
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_corpus.manifest import COMBINED, Case
from safetensors_reference.rules.book import RuleBook, rule_book

from ..audit.disclosure import OWN
from ..audit.inputs import REPORT
from ..audit.report import Finding, Report
from ..features import JSON as FEATURES
from ..features import FeatureDocument, load_features
from ..history.known_bugs import trends
from ..history.ledger import FOLDER, Ledger, load_ledgers
from ..history.trend import TrendDocument
from ..page.publish import load_published
from ..text import label_key, slug
from ..trophies.model import Row, Trophies, load_baselines, trophies

PUBLISHED = "reports/published"


@dataclass(frozen=True)
class Program:
    """Facts about a tested program, from its descriptor; ``note`` is advice to users."""

    name: str
    title: str
    kind: str
    language: str
    homepage: str = ""
    issues: str = ""
    note: str = ""


Charges = Mapping[str, Sequence[Finding]]
"""Findings by program."""


@dataclass(frozen=True)
class SiteData:
    """Data of the pages; ``reports`` maps programs to folders and reports; ``whole`` covers all programs."""

    root: Path
    manifest: Manifest
    whole: Report
    reports: Mapping[str, tuple[str, Report]]
    programs: Mapping[str, Program]
    trends: Sequence[TrendDocument]
    ledgers: Mapping[str, Ledger]
    trophies: Trophies
    features: FeatureDocument
    repository: str = ""
    book: RuleBook = field(default_factory=rule_book)

    @cached_property
    def cases_by_rule(self) -> dict[str, list[Case]]:
        """Cases by rule, smallest first, but beginning with the cases that list the rule first."""
        out: dict[str, list[Case]] = defaultdict(list)
        for case in self.manifest.cases:
            for rule in case.rules:
                out[rule].append(case)
        return {
            rule: sorted(cases, key=lambda c: (c.rules[0] != rule, c.size)) for rule, cases in out.items()
        }

    @cached_property
    def by_bug(self) -> dict[str, list[str]]:
        return cases_of(self.manifest.raw)

    @cached_property
    def bugs(self) -> dict[str, Row]:
        return {bug["id"]: bug for bug in self.manifest.raw["field_bugs"]}

    @cached_property
    def bugs_by_rule(self) -> dict[str, dict[str, Row]]:
        out: dict[str, dict[str, Row]] = defaultdict(dict)
        for case in self.manifest.cases:
            for row in case.affects:
                if row["bug"] in self.bugs:
                    out[case.rules[0]][row["bug"]] = self.bugs[row["bug"]]
        return dict(out)

    @property
    def _listed(self) -> Iterator[tuple[str, Finding]]:
        """All findings except crashes, which would make programs with open trackers look worse."""
        for name, (_, report) in self.reports.items():
            yield from ((name, f) for f in report.findings if not f.own and kind_of(f.verdict) != "unsafe")

    @cached_property
    def charges_by_rule(self) -> dict[str, Charges]:
        out: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
        for name, f in sorted(self._listed, key=lambda x: (label_key(x[1].implementation), x[1].verdict)):
            if f.rule is not None and f.case_count:
                out[f.rule][name].append(f)
        return dict(out)

    @cached_property
    def charges_by_case(self) -> dict[str, Charges]:
        out: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
        for name, f in self._listed:
            for case in f.cases:
                known = {(other.implementation, other.verdict) for other in out[case][name]}
                if (f.implementation, f.verdict) not in known:
                    out[case][name].append(f)
        return dict(out)

    @cached_property
    def smallest(self) -> dict[str, list[Case]]:
        """Up to three small cases per required fault code, preferably cases with a file and no other code."""

        def order(case: Case) -> tuple[object, ...]:
            unusual = (case.area == COMBINED, case.kind != "read", len(case.codes), case.heavy)
            return *unusual, case.input.file is None, case.size, case.id

        by_code: dict[str, list[Case]] = defaultdict(list)
        for case in sorted((c for c in self.manifest.cases if c.expect is not None), key=order):
            for code in case.codes:
                by_code[code].append(case)
        return {code: cases[:3] for code, cases in by_code.items()}

    @property
    def tested(self) -> list[Program]:
        out = [
            self.programs.get(name) or Program(name, name, "", report.implementations[0].language)
            for name, (_, report) in self.reports.items()
            if name != OWN
        ]
        return sorted(out, key=lambda program: program.name)


def load(root: Path, manifest: Manifest, programs: Sequence[Program], repository: str = "") -> SiteData:
    by_path = load_published(root / PUBLISHED)
    whole = by_path.pop(REPORT)
    reports = {
        report.implementations[0].name: (str(PurePosixPath(path).parent), report)
        for path, report in by_path.items()
    }
    ledgers = load_ledgers(root / PUBLISHED / FOLDER)
    known = trends(ledgers, manifest.raw)
    return SiteData(
        root,
        manifest,
        whole,
        dict(sorted(reports.items())),
        {program.name: program for program in programs},
        known,
        {program: ledger for program, ledger in ledgers.items() if ledger.runs},
        trophies(manifest.raw, known, load_baselines(root)),
        load_features(root / PUBLISHED / FEATURES),
        repository.rstrip("/"),
    )


def release_page(trend: TrendDocument) -> str:
    return slug(trend.implementation)


def history_page(program: str) -> str:
    return f"releases/history/{slug(program)}"


def passage_anchor(before: str, after: str) -> str:
    return f"from-{slug(before[:10])}-to-{slug(after[:10])}"
