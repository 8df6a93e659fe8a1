"""The pages of the site: titles and sections of HTML from templates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from safetensors_corpus.field_bugs import FAMILIES
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_corpus.manifest import AREA_OF_RULES, COMBINED, Case, Expectation
from safetensors_corpus.publish.show import byte_count
from safetensors_reference.rules.book import BASES, PROFILES
from safetensors_reference.rules.pages import AREAS, choices_of, state

from ..audit.report import Report
from ..history.releases import series
from ..history.trend import TURNS, ChangeRow
from ..labels import SHORT
from ..page.html import card_markup, comparison_markup, release_changes
from ..page.publish import PAGE
from ..text import plural, slug, visible
from ..trophies.model import Sighting, short, sighting_text
from .data import SiteData, history_page, passage_anchor, release_page
from .documents import Section, documents_of, group_of
from .links import Links, case_anchor, case_page, rule_page

ABOUT = {
    "framing": "the length prefix and the size of the file",
    "header": "the header as JSON text",
    "entry": "names and fields of tensors",
    "dtype": "dtypes",
    "shape": "shapes",
    "layout": "offsets, holes, overlaps and the end of the data",
    "metadata": "the metadata map",
    "data": "values that must stay unchanged",
    "resource": "time and memory that a header costs",
    "slice": "parts of tensors",
    "writer": "files that writers create",
    "sharded": "models saved in shards",
    "index": "models loaded through an index of shards",
    "lifecycle": "files that change while they are open",
    "remote": "files on an HTTP server",
    "concurrent": "several readers of the same file",
    COMBINED: "every fault combined with ordinary variations: dtypes, ranks, orders, padding, metadata",
}

DISPUTED = "docs/disclosure.html#to-reach-us-to-disagree"


@dataclass(frozen=True)
class SearchEntry:
    """A named object in the search, of one of ``generator.KINDS``; a page has no ``anchor``."""

    anchor: str
    name: str
    kind: str


@dataclass(frozen=True)
class Page:
    """One page with its ``children`` in the navigation; the search covers it only if ``indexed``."""

    name: str
    title: str
    lead: str = ""
    sections: Sequence[Section] = ()
    search_entries: Sequence[SearchEntry] = ()
    children: Sequence[str] = ()
    indexed: bool = True


@dataclass(frozen=True)
class PageRenderer:
    """Render the templates of one page."""

    data: SiteData
    page: str

    def __call__(self, template: str, **values: Any) -> str:
        to = Links(self.data, self.page)
        return _environment().get_template(f"{template}.html").render(data=self.data, to=to, **values)


@cache
def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Make external text visible before it is escaped, because a template could forget to apply the
        # filter.
        finalize=lambda value: (
            value if isinstance(value, Markup) or not isinstance(value, str) else visible(value, 4000)
        ),
    )
    env.filters |= {
        "n": "{:,}".format,
        "plural": plural,
        "size": byte_count,
        "slug": slug,
        "short": short,
        "moved": moved,
    }
    env.globals.update(
        BASES=BASES, PROFILES=PROFILES, AREAS=AREAS, ABOUT=ABOUT, SHORT=SHORT,
        TURNS=TURNS, COMBINED=COMBINED, kind_of=kind_of, state=state, case_anchor=case_anchor,
        offered=is_offered, demands=demands, outcome=outcome, passage_anchor=passage_anchor,
        release_page=release_page, history_page=history_page, by_program=by_program, sight=sight_words,
    )  # fmt: skip
    return env


def outcome(expectation: Expectation) -> str:
    return "reject" if expectation.outcome == "reject" else "accept"


def demands(case: Case, data: SiteData) -> tuple[str, str, tuple[str, ...]]:
    if case.expect is not None:
        word = outcome(case.expect)
        return word, word, case.expect.codes
    assert case.choice is not None
    choice = data.book.choices[case.choice]
    if choice.required is not None and choice.required in case.options:
        wanted = case.options[choice.required]
        return outcome(wanted), outcome(wanted), wanted.codes
    either = " or ".join(sorted({outcome(option) for option in case.options.values()}))
    return "choice", f"{either}; the reader chooses", ()


def by_program(charges: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    out: dict[str, list[Any]] = {}
    for charge in charges:
        out.setdefault(charge.program, []).append(charge)
    return list(out.items())


def moved(change: ChangeRow) -> str:
    return f"{SHORT[kind_of(change.before)]} → {SHORT[kind_of(change.after)]}"


def sight_words(sight: Sighting) -> str:
    return f"{sighting_text(sight, short)} ({plural(len(sight.cases), 'case')})"


def all_pages(data: SiteData) -> Iterator[Page]:
    first = PageRenderer(data, "index")("landing", programs=data.tested)
    parts = [
        list(_programs(data)),
        list(_rules(data)),
        [_faults(data)],
        list(_cases(data)),
        list(_releases(data)),
        [_choices(data)],
        [_disputed(data)],
        [_bugs(data)],
        [_trophies(data)],
        list(_documents(data)),
    ]
    title = "Conformance of safetensors software"
    yield Page("index", title, first, (), [SearchEntry("", title, "page")], [part[0].name for part in parts])
    for part in parts:
        yield from part


def program_cards(write: PageRenderer, folder: str, report: Report) -> str:
    to = Links(write.data, write.page)
    place, dispute = to.address(f"reports/{folder}/{PAGE}"), to.address(DISPUTED)
    cards = (card_markup(report, who, place, dispute) for who in report.implementations)
    return Markup("\n").join(cards)


def comparison(write: PageRenderer) -> str:
    to = Links(write.data, write.page)
    places = {
        who.label: to.address(f"reports/{folder}/{PAGE}")
        for folder, report in write.data.reports.values()
        for who in report.implementations
    }
    return comparison_markup(write.data.whole, places, to.address(DISPUTED))


def _programs(data: SiteData) -> Iterator[Page]:
    pages = []
    for program in data.tested:
        folder, report = data.reports[program.name]
        page = f"programs/{slug(program.name)}"
        write = PageRenderer(data, page)
        whos, trends = data.whos(program.name), data.trends_of(program.name)
        rules: dict[str, list[Any]] = defaultdict(list)
        for found in report.findings:
            if found.rule is not None and found.case_count:
                rules[found.rule].append(found)
        sections = [
            Section("untrusted-files", "Untrusted files", program_cards(write, folder, report)),
            Section("findings", "Findings", write("findings", rules=sorted(rules.items()))),
            Section("bugs", "Reported bugs", write("program_bugs", bugs=data.bugs_of(program.name))),
            Section("releases", "Releases", write("program_releases", program=program, trends=trends)),
            Section("choices", "Choices taken", write("program_choices", whos=whos)),
        ]
        lead = write("program", program=program, whos=whos, report=f"reports/{folder}/{PAGE}")
        pages.append(Page(page, program.title, lead, sections, [SearchEntry("", program.name, "program")]))
    write = PageRenderer(data, "programs/index")
    lead = f"{write('programs')}{comparison(write)}"
    yield Page("programs/index", "Programs", lead, children=[page.name for page in pages])
    yield from pages


def _rules(data: SiteData) -> Iterator[Page]:
    pages = []
    for area, title in AREAS.items():
        rules = [rule for rule in data.book.rules.values() if rule.id.startswith(area)]
        page = rule_page(area)
        write = PageRenderer(data, page)
        sections = [
            Section(rule.id, f"{rule.id} ({rule.level}): {rule.title}", write("rule", rule=rule))
            for rule in rules
        ]
        search_entries = [SearchEntry(rule.id, f"{rule.id} {visible(rule.title)}", "rule") for rule in rules]
        pages.append(Page(page, title, write("area", rules=rules), sections, search_entries))
    write = PageRenderer(data, "rules/index")
    yield Page("rules/index", "Rules of the format", write("rules"), children=[page.name for page in pages])
    yield from pages


def _faults(data: SiteData) -> Page:
    write = PageRenderer(data, "faults")
    rules = {code: [r.id for r in data.book.rules.values() if code in r.codes] for code in data.book.codes}
    groups: dict[str, list[str]] = defaultdict(list)
    for code in data.book.codes:
        groups[AREAS.get(code[:3], "Others")].append(code)
    sections = [
        Section(f"group-{slug(title)}", title, write("faults", codes=codes, rules=rules))
        for title, codes in groups.items()
    ]
    search_entries = [
        SearchEntry(code, f"{code} {visible(text)}", "fault") for code, text in data.book.codes.items()
    ]
    lead = write("faults_lead", groups=groups)
    return Page("faults", "Faults, and files that show them", lead, sections, search_entries)


def fault_files(data: SiteData) -> Iterator[tuple[str, Case]]:
    for cases in data.smallest.values():
        for case in cases:
            if is_offered(case):
                yield f"files/{case.id}.safetensors", case


def is_offered(case: Case) -> bool:
    return case.input.file is not None and not case.input.files and case.size <= 4096


def _cases(data: SiteData) -> Iterator[Page]:
    by_page: dict[str, list[Case]] = defaultdict(list)
    for case in data.manifest.cases:
        by_page[case_page(case)].append(case)
    plain = sorted(page for page in by_page if f"/{COMBINED}-" not in page)
    areas = Counter(case.area for case in data.manifest.cases)
    children = [*plain, *([f"cases/{COMBINED}"] if areas[COMBINED] else [])]
    yield Page("cases", "Cases", PageRenderer(data, "cases")("cases", areas=areas), children=children)
    for page in plain:
        cases = by_page[page]
        write = PageRenderer(data, page)
        area = cases[0].area
        groups: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            groups[case.rules[0]].append(case)
        # Rules of the area come first.
        order = sorted(groups, key=lambda rule: (AREA_OF_RULES.get(rule[:3]) != area, rule))
        sections = [
            Section(
                f"of-{rule.lower()}",
                f"{rule} {data.book.rules[rule].title}",
                write("case_list", rule=rule, cases=groups[rule]),
            )
            for rule in order
        ]
        search_entries = [
            SearchEntry(case_anchor(case), f"{case.id} {visible(case.title)}", "case") for case in cases
        ]
        lead = write("cases_area", area=area, cases=cases)
        yield Page(page, f"Cases: {area}", lead, sections, search_entries)
    yield from _combined(data, {page: cases for page, cases in by_page.items() if page not in plain})


def _combined(data: SiteData, by_page: Mapping[str, list[Case]]) -> Iterator[Page]:
    if not by_page:
        return
    topics: dict[str, dict[str, list[Case]]] = {}
    for page, cases in sorted(by_page.items()):
        topics[page] = defaultdict(list)
        for case in cases:
            topics[page][case.title.partition(": ")[0].rstrip(".")].append(case)
    write = PageRenderer(data, f"cases/{COMBINED}")
    yield Page(f"cases/{COMBINED}", f"Cases: {COMBINED}", write("combined", topics=topics))
    for page, found in topics.items():
        write = PageRenderer(data, page)
        rule = by_page[page][0].rules[0]
        sections = [
            Section(
                f"topic-{number}",
                f"{title} ({len(cases):,})",
                write("combined_topic", title=title, cases=cases),
            )
            for number, (title, cases) in enumerate(found.items(), 1)
        ]
        lead = write("combined_rule", rule=rule, cases=by_page[page])
        yield Page(page, f"{rule} in combinations", lead, sections, indexed=False)


def _histories(data: SiteData) -> Iterator[Page]:
    for name, ledger in data.ledgers.items():
        page = history_page(name)
        write = PageRenderer(data, page)
        runs = series(ledger.lines)
        sections = [
            Section(
                f"{slug(one.entry)}-{passage_anchor(part[-1].before.version, part[0].after.version)}",
                f"{one.entry} {short(part[-1].before.version)} → {short(part[0].after.version)}",
                write("release", part=part, changes=release_changes(part[0])),
            )
            for one in runs
            for part in one.parts
        ]
        search_entries = [SearchEntry("", f"{name} releases: what changed", "releases")]
        lead = write("history", name=name, runs=runs)
        yield Page(page, f"{visible(name)}, release by release", lead, sections, search_entries)


def _releases(data: SiteData) -> Iterator[Page]:
    pages = list(_histories(data))
    for trend in data.trends:
        page = f"releases/{release_page(trend)}"
        write = PageRenderer(data, page)
        sections = [
            Section(
                passage_anchor(passage.before, passage.after),
                f"{short(passage.before)} → {short(passage.after)}",
                write("passage", passage=passage),
            )
            for passage in reversed(trend.passages)
        ]
        search_entries = [SearchEntry("", f"{trend.implementation} releases", "releases")]
        lead = write("trend", trend=trend)
        pages.append(Page(page, f"{visible(trend.implementation)} releases", lead, sections, search_entries))
    lead = PageRenderer(data, "releases/index")("releases")
    yield Page("releases/index", "Releases and their changes", lead, children=[p.name for p in pages])
    yield from pages


def _choices(data: SiteData) -> Page:
    write = PageRenderer(data, "choices")
    sections = [
        Section(f"choice-{choice.id}", f"{choice.id}: {choice.title}", write("choice", choice=choice))
        for choice in data.book.choices.values()
    ]
    search_entries = [
        SearchEntry(f"choice-{c.id}", f"{c.id} {visible(c.title)}", "choice")
        for c in data.book.choices.values()
    ]
    return Page("choices", "Choices left by the format", write("choices"), sections, search_entries)


def _disputed(data: SiteData) -> Page:
    write = PageRenderer(data, "disputed")
    sections = [
        Section(
            f"point-{number}",
            f"{number}. {title[:1].upper()}{title[1:]}",
            write("point", choices=choices_of(data.book, number)),
        )
        for number, title in sorted(data.book.points.items())
    ]
    return Page("disputed", "Disputed points", write("disputed"), sections)


def _bugs(data: SiteData) -> Page:
    write = PageRenderer(data, "bugs")
    families: dict[str, list[Any]] = defaultdict(list)
    for bug in data.bugs.values():
        families[bug["family"]].append(bug)
    sections = [
        Section(f"family-{name}", title, write("bugs", bugs=families[name]))
        for name, title in FAMILIES.items()
        if name in families
    ]
    search_entries = [
        SearchEntry(bug["id"], f"{bug['id']} {visible(bug['project'])}: {visible(bug['trigger'])}", "bug")
        for bug in data.bugs.values()
    ]
    return Page("bugs", "Bugs reported in the field", write("bugs_lead"), sections, search_entries)


def _trophies(data: SiteData) -> Page:
    write = PageRenderer(data, "trophies")
    projects: dict[str, list[Any]] = defaultdict(list)
    for bug in data.trophies.bugs:
        if data.trophies.sightings[bug["id"]]:
            projects[bug["project"]].append(bug)
    sections = [
        Section(f"of-{slug(project)}", project, write("trophy", bugs=bugs))
        for project, bugs in projects.items()
    ]
    return Page("trophies", "Trophies", write("trophies", projects=projects), sections)


def _documents(data: SiteData) -> Iterator[Page]:
    pages = []
    for document in documents_of(data.root):
        to = Links(data, document.page)
        pages.append(Page(document.page, document.title, *document.content(to)))
    groups: dict[str, list[Page]] = defaultdict(list)
    for page in pages:
        groups[group_of(page.name)].append(page)
    lead = PageRenderer(data, "docs/index")("documents", groups=groups)
    yield Page("docs/index", "Documents", lead, children=[page.name for page in pages])
    yield from pages
