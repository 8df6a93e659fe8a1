"""What the site is made of, read from the checkout and indexed for the links between its pages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from safetensors_corpus.cli.bugs import cases_of
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_corpus.manifest import COMBINED
from safetensors_reference.rules.book import RuleBook, rule_book

from ..audit.disclosure import OWN
from ..audit.inputs import REPORT
from ..history.ledger import FOLDER, load_ledgers
from ..page.publish import load_published
from ..text import same_project, slug
from ..trophies.data import load_baselines, load_trends
from ..trophies.model import trophies
from ..versions import label_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from safetensors_corpus import Manifest
    from safetensors_corpus.manifest import Case

    from ..audit.report import Finding, Implementation, Report
    from ..history.ledger import Ledger
    from ..history.trend import TrendDocument
    from ..trophies.model import Row, Trophies

PUBLISHED = "reports/published"
"""Folder of the published reports in the checkout."""


@dataclass(frozen=True)
class Program:
    """Facts about a program that was tested, from its descriptor.

    Attributes:
        name: what --impl calls it.
        title: what its makers call it.
        kind: what it does, in words.
        language: of the part that parses.
        homepage: where it is described.
        issues: where its issues are.
        note: what a user should know, empty for nothing.
    """

    name: str
    title: str
    kind: str
    language: str
    homepage: str = ""
    issues: str = ""
    note: str = ""


@dataclass(frozen=True)
class Charge:
    """What one entry point was found to do against a rule, as far as that is published.

    Attributes:
        label: of the entry point in reports: selector and version.
        program: name of the program.
        verdict: kind of verdict.
        number: cases that show it.
    """

    label: str
    program: str
    verdict: str
    number: int


@dataclass(frozen=True)
class SiteData:
    """Everything that pages are made of.

    Attributes:
        root: the checkout.
        manifest: the corpus; its cases are those that get an address.
        whole: the published report about all programs.
        reports: name of a program -> its published report and the folder of that.
        programs: name -> facts.
        trends: published trends.
        ledgers: name of a program -> the history of its releases.
        trophies: what runs have seen of reported bugs.
        repository: address of the repository for links to files that are no pages, empty for none.
    """

    root: Path
    manifest: Manifest
    whole: Report
    reports: Mapping[str, tuple[str, Report]]
    programs: Mapping[str, Program]
    trends: Sequence[TrendDocument]
    ledgers: Mapping[str, Ledger]
    trophies: Trophies
    repository: str = ""
    book: RuleBook = field(default_factory=rule_book)

    @cached_property
    def cases_by_rule(self) -> dict[str, list[Case]]:
        """Rule -> cases that name it: those of which it is the first rule first, and small ones first."""
        out: dict[str, list[Case]] = defaultdict(list)
        for case in self.manifest.cases:
            for rule in case.rules:
                out[rule].append(case)
        return {
            rule: sorted(cases, key=lambda c: (c.rules[0] != rule, c.size)) for rule, cases in out.items()
        }

    @cached_property
    def cases_by_choice(self) -> dict[str, list[Case]]:
        out: dict[str, list[Case]] = defaultdict(list)
        for case in self.manifest.cases:
            if case.choice is not None:
                out[case.choice].append(case)
        return out

    @cached_property
    def by_bug(self) -> dict[str, list[str]]:
        return cases_of(self.manifest.raw)

    @cached_property
    def bugs(self) -> dict[str, Row]:
        return {bug["id"]: bug for bug in self.manifest.raw["field_bugs"]}

    @cached_property
    def bugs_by_rule(self) -> dict[str, list[Row]]:
        out: dict[str, dict[str, Row]] = defaultdict(dict)
        for case in self.manifest.cases:
            for row in case.affects:
                if row["bug"] in self.bugs:
                    out[case.rules[0]][row["bug"]] = self.bugs[row["bug"]]
        return {rule: list(bugs.values()) for rule, bugs in out.items()}

    def bugs_of(self, program: str) -> list[Row]:
        return [bug for bug in self.bugs.values() if same_project(program, bug["project"])]

    def whos(self, program: str) -> list[Implementation]:
        return list(self.reports[program][1].implementations)

    @cached_property
    def charges_by_rule(self) -> dict[str, list[Charge]]:
        """Rule -> who breaks it, by the published findings and by name.

        Crashes are told on a program's own page alone: in a list of several, those with open trackers
        would look worse than others.
        """
        out: dict[str, list[Charge]] = defaultdict(list)
        for name, (_, report) in self.reports.items():
            for found in report.findings:
                if found.rule is not None and found.case_count and _is_listed(found):
                    out[found.rule].append(
                        Charge(found.implementation, name, found.verdict, found.case_count)
                    )
        return {
            rule: sorted(charges, key=lambda c: (label_key(c.label), c.verdict))
            for rule, charges in out.items()
        }

    @cached_property
    def charges_by_case(self) -> dict[str, list[Charge]]:
        """Case -> who fails it, as far as the published reports name cases."""
        out: dict[str, dict[tuple[str, str], Charge]] = defaultdict(dict)
        for name, (_, report) in self.reports.items():
            for found in report.findings:
                for case in found.cases if _is_listed(found) else ():
                    key = (found.implementation, found.verdict)
                    out[case][key] = Charge(found.implementation, name, found.verdict, 1)
        return {case: list(charges.values()) for case, charges in out.items()}

    def trends_of(self, program: str) -> list[TrendDocument]:
        return [t for t in self.trends if t.implementation.partition(":")[0] == program]

    @cached_property
    def smallest(self) -> dict[str, list[Case]]:
        """Fault code -> up to three small cases that demand it: those with no other code and a file first.

        Of the cases that combine things, one stands here only where no other shows the fault.
        """
        found: dict[str, list[Case]] = defaultdict(list)
        for case in self.manifest.cases:
            for code in case.expect.codes if case.expect is not None else ():
                found[code].append(case)

        def order(case: Case) -> tuple[bool, bool, int, bool, bool, int, str]:
            assert case.expect is not None
            codes = case.expect.codes
            return (
                case.area == COMBINED,
                case.kind != "read",
                len(codes),
                case.heavy,
                case.input.file is None,
                case.size,
                case.id,
            )

        return {code: sorted(cases, key=order)[:3] for code, cases in found.items()}

    @property
    def tested(self) -> list[Program]:
        """Programs with a published report, by title; our own reader is none of them."""
        out = [
            self.programs.get(name) or Program(name, name, "", report.implementations[0].language)
            for name, (_, report) in self.reports.items()
            if name != OWN
        ]
        return sorted(out, key=lambda program: program.name)


def _is_listed(found: Finding) -> bool:
    return not found.own and kind_of(found.verdict) != "unsafe"


def load(
    root: Path,
    manifest: Manifest,
    programs: Sequence[Program],
    repository: str = "",
    only: Sequence[str] = (),
) -> SiteData:
    """Read what is published in a checkout.

    Args:
        root: the checkout.
        manifest: the corpus.
        programs: facts about programs.
        repository: address of the repository, empty for none.
        only: names of programs to take, all by default.

    Raises:
        AuditError: a report or a history cannot be used.
        TrophyError: a trend or a baseline cannot be used.
    """
    found = load_published(root / PUBLISHED)
    whole = found.pop(REPORT)
    reports = {
        report.implementations[0].name: (str(PurePosixPath(path).parent), report)
        for path, report in found.items()
    }
    if only:
        whole = msgspec.structs.replace(
            whole, implementations=[who for who in whole.implementations if who.name in only]
        )
        reports = {name: found for name, found in reports.items() if name in only}
    trends = load_trends(root / PUBLISHED / "trends", manifest.raw)
    if only:
        trends = [trend for trend in trends if trend.implementation.partition(":")[0] in only]
    ledgers = load_ledgers(root / PUBLISHED / FOLDER)
    return SiteData(
        root,
        manifest,
        whole,
        dict(sorted(reports.items())),
        {program.name: program for program in programs},
        trends,
        {name: ledger for name, ledger in ledgers.items() if not only or name in only},
        trophies(manifest.raw, trends, load_baselines(root)),
        repository.rstrip("/"),
    )


def release_page(trend: TrendDocument) -> str:
    return slug(trend.implementation)


def history_page(program: str) -> str:
    return f"releases/history/{slug(program)}"


def passage_anchor(before: str, after: str) -> str:
    return f"from-{slug(before[:10])}-to-{slug(after[:10])}"
