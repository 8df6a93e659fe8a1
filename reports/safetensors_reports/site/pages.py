"""The pages of the site: HTML from templates, with headings in Markdown so that Sphinx can find them."""

from __future__ import annotations

import html
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from safetensors_corpus.field_bugs import FAMILIES
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_corpus.manifest import AREA_OF_RULES, COMBINED, Case, Expectation
from safetensors_corpus.publish.show import byte_count
from safetensors_reference.rules.book import BASES, PROFILES
from safetensors_reference.rules.dtypes import DTYPES
from safetensors_reference.rules.pages import AREAS, choices_of, state

from ..audit.disclosure import OWN
from ..audit.report import Implementation
from ..history.ledger import entry_of
from ..history.releases import series
from ..history.trend import TURNS, ChangeRow
from ..labels import OPENING, ROLES, SHORT
from ..page.html import card_markup, comparison_markup, release_changes
from ..page.publish import PAGE
from ..page.results import Row, tables
from ..text import label_key, plural, same_project, short, slug, visible
from ..trophies.model import Sighting, sighting_text
from .data import Program, SiteData, history_page, passage_anchor, release_page
from .links import Links, case_anchor, case_page, documents_of, rule_page

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
    "export": "tensors exported to files with names that could be paths",
    "index": "models loaded through an index of shards",
    "lifecycle": "files that change while they are open",
    "remote": "files on an HTTP server",
    "concurrent": "several readers of the same file",
    "placed": "valid files and models under unusual paths, behind links, and next to others",
    "repeated": "what a process holds after hundreds of requests",
    "contended": "several processes that save to the same path",
    COMBINED: "every fault combined with ordinary variations: dtypes, ranks, orders, padding, metadata",
}

TONES = {"accept": "good", "reject": "bad", "choice": "calm"}
"""Required answer -> tone of its words."""
DISPUTED = "docs/disclosure.html#to-reach-us-to-disagree"
_LIKE = str.maketrans({"<": "‹", ">": "›", '"': "”", "'": "’", "&": "+"})
_HEADING = re.compile(r'^<h([12]) id="([^"]+)">([^<]*)</h\1>$', re.MULTILINE)


@dataclass(frozen=True)
class SearchEntry:
    """A named object in the search; its kind is one of ``generator.KINDS``."""

    anchor: str
    name: str
    kind: str

    @property
    def words(self) -> str:
        """The name as Sphinx should index it.

        Lookalikes replace the characters at which Sphinx would split the name and those that it would escape
        twice.
        """
        words = re.sub(r"\.(?=\S)", "․", visible(self.name, 300)).replace(". ", " ").rstrip(".")
        return words.translate(_LIKE)


@dataclass(frozen=True)
class Page:
    """One page as Markdown, with its ``children`` in the navigation; the search covers it if ``indexed``.

    ``anchors`` are the ids of the headings, in order; without them, headings have the ids that GitHub gives
    them. ``target`` returns the address for a link in the Markdown.
    """

    name: str
    markdown: str
    anchors: Sequence[str] = ()
    search_entries: Sequence[SearchEntry] = ()
    children: Sequence[str] = ()
    indexed: bool = True
    target: Callable[[str], str] = str


def rendered(
    data: SiteData,
    name: str,
    template: str,
    entries: Sequence[SearchEntry] = (),
    /,
    *,
    children: Sequence[str] = (),
    indexed: bool = True,
    **values: Any,
) -> Page:
    text = _environment().get_template(f"{template}.html").render(data=data, to=Links(data, name), **values)
    # A blank line would end a block of HTML, and Markdown would interpret the rest.
    text = re.sub(r"\n\s*\n", "\n", text)
    anchors = [match[2] for match in _HEADING.finditer(text)]
    return Page(name, _HEADING.sub(_markdown_heading, text), anchors, entries, children, indexed)


def _markdown_heading(match: re.Match[str]) -> str:
    title = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", visible(html.unescape(match[3]), 300))
    return f"\n{'#' * int(match[1])} {title}\n"


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
        BASES=BASES, PROFILES=PROFILES, AREAS=AREAS, ABOUT=ABOUT, SHORT=SHORT, FAMILIES=FAMILIES,
        TURNS=TURNS, TONES=TONES, ROLES=ROLES, COMBINED=COMBINED, kind_of=kind_of, state=state,
        case_anchor=case_anchor, offered=is_offered, demands=demands, outcome=outcome,
        passage_anchor=passage_anchor, release_page=release_page, history_page=history_page,
        sight=sight_words, release_changes=release_changes, choices_of=choices_of,
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


def moved(change: ChangeRow) -> str:
    return f"{SHORT[kind_of(change.before)]} → {SHORT[kind_of(change.after)]}"


def sight_words(sight: Sighting) -> str:
    return f"{sighting_text(sight, short)} ({plural(len(sight.cases), 'case')})"


def is_offered(case: Case) -> bool:
    return case.input.file is not None and not case.input.files and case.size <= 4096


def fault_files(data: SiteData) -> Iterator[tuple[str, Case]]:
    for cases in data.smallest.values():
        for case in cases:
            if is_offered(case):
                yield f"files/{case.id}.safetensors", case


def all_pages(data: SiteData) -> Iterator[Page]:
    entry = SearchEntry("top", "Conformance of safetensors software", "page")
    features = SearchEntry("top", "Features by version", "page")
    choices = [
        SearchEntry(f"choice-{choice.id}", f"{choice.id} {choice.title}", "choice")
        for choice in data.book.choices.values()
    ]
    bugs = [
        SearchEntry(bug["id"], f"{bug['id']} {bug['project']}: {bug['trigger']}", "bug")
        for bug in data.bugs.values()
    ]
    projects: dict[str, list[Any]] = defaultdict(list)
    for bug in data.trophies.bugs:
        if data.trophies.sightings[bug["id"]]:
            projects[bug["project"]].append(bug)
    parts = [
        list(_programs(data)),
        [rendered(data, "features", "features", [features])],
        list(_rules(data)),
        [_faults(data)],
        list(_cases(data)),
        list(_releases(data)),
        [rendered(data, "choices", "choices", choices)],
        [rendered(data, "disputed", "disputed")],
        [rendered(data, "bugs", "bugs", bugs)],
        [rendered(data, "trophies", "trophies", projects=projects)],
        list(_documents(data)),
    ]
    children = [part[0].name for part in parts]
    shown = verdicts(data)
    yield rendered(data, "index", "index", [entry], verdicts=shown, dtypes=len(DTYPES), children=children)
    for part in parts:
        yield from part


class Verdict(NamedTuple):
    """A line of the front page: an entry point, its results when it opens and saves files, and its dtypes."""

    who: Implementation
    opens: Row | None
    writes: Row | None
    dtypes: int | None


def verdicts(data: SiteData) -> list[Verdict]:
    """Return the entry points of other people's software, in alphabetical order."""
    rows = {(row.who.label, table.role): row for table in tables(data.whole) for row in table.rows}
    features = {row.entry: row for row in data.features.table}
    out = []
    for who in sorted(data.whole.implementations, key=lambda who: label_key(who.label)):
        if who.name != OWN:
            opening = (rows.get((who.label, role)) for role in ROLES if role in OPENING)
            opens = next(filter(None, opening), None)
            found = features.get(entry_of(who))
            dtypes = None if found is None or opens is None else found.supported("dtype-")
            out.append(Verdict(who, opens, rows.get((who.label, "writer")), dtypes))
    return out


def _programs(data: SiteData) -> Iterator[Page]:
    pages = [_program(data, program) for program in data.tested]
    to = Links(data, "programs/index")
    places = {
        who.label: to.address(f"reports/{folder}/{PAGE}")
        for folder, report in data.reports.values()
        for who in report.implementations
    }
    table = comparison_markup(data.whole, places, to.address(DISPUTED))
    yield rendered(
        data, "programs/index", "programs", comparison=table, children=[page.name for page in pages]
    )
    yield from pages


def _program(data: SiteData, program: Program) -> Page:
    folder, report = data.reports[program.name]
    page = f"programs/{slug(program.name)}"
    to = Links(data, page)
    place, dispute = to.address(f"reports/{folder}/{PAGE}"), to.address(DISPUTED)
    whos = sorted(report.implementations, key=lambda who: label_key(who.label))
    rules: dict[str, list[Any]] = defaultdict(list)
    for found in report.findings:
        if found.rule is not None and found.case_count:
            rules[found.rule].append(found)
    return rendered(
        data,
        page,
        "program",
        [SearchEntry("top", program.name, "program")],
        program=program,
        whos=whos,
        report=f"reports/{folder}/{PAGE}",
        cards=Markup("\n").join(card_markup(report, who, place, dispute) for who in whos),
        rules=sorted(rules.items()),
        bugs=[bug for bug in data.bugs.values() if same_project(program.name, bug["project"])],
        features=[row for row in data.features.table if row.program == program.name],
        trends=[t for t in data.trends if t.implementation.partition(":")[0] == program.name],
    )


def _rules(data: SiteData) -> Iterator[Page]:
    pages = []
    for area, title in AREAS.items():
        rules = [rule for rule in data.book.rules.values() if rule.id.startswith(area)]
        entries = [SearchEntry(rule.id, f"{rule.id} {rule.title}", "rule") for rule in rules]
        pages.append(rendered(data, rule_page(area), "area", entries, title=title, rules=rules))
    yield rendered(data, "rules/index", "rules", children=[page.name for page in pages])
    yield from pages


def _faults(data: SiteData) -> Page:
    groups: dict[str, list[str]] = defaultdict(list)
    for code in data.book.codes:
        groups[AREAS.get(code[:3], "Others")].append(code)
    entries = [SearchEntry(code, f"{code} {text}", "fault") for code, text in data.book.codes.items()]
    return rendered(data, "faults", "faults", entries, groups=groups)


def _cases(data: SiteData) -> Iterator[Page]:
    by_page: dict[str, list[Case]] = defaultdict(list)
    for case in data.manifest.cases:
        by_page[case_page(case)].append(case)
    plain = sorted(page for page in by_page if f"/{COMBINED}-" not in page)
    areas = Counter(case.area for case in data.manifest.cases)
    children = [*plain, *([f"cases/{COMBINED}"] if areas[COMBINED] else [])]
    yield rendered(data, "cases", "cases", areas=areas, children=children)
    for page in plain:
        cases = by_page[page]
        area = cases[0].area
        groups: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            groups[case.rules[0]].append(case)
        # Rules of the area come first.
        order = sorted(groups.items(), key=lambda item: (AREA_OF_RULES.get(item[0][:3]) != area, item[0]))
        entries = [SearchEntry(case_anchor(case), f"{case.id} {case.title}", "case") for case in cases]
        yield rendered(data, page, "cases_area", entries, area=area, cases=cases, groups=order)
    if areas[COMBINED]:
        yield from _combined(data, {page: by_page[page] for page in sorted(by_page) if page not in plain})


def _combined(data: SiteData, by_page: dict[str, list[Case]]) -> Iterator[Page]:
    topics: dict[str, dict[str, list[Case]]] = {page: defaultdict(list) for page in by_page}
    for page, cases in by_page.items():
        for case in cases:
            topics[page][case.title.partition(": ")[0].rstrip(".")].append(case)
    yield rendered(data, f"cases/{COMBINED}", "combined", topics=topics)
    for page, cases in by_page.items():
        rule = cases[0].rules[0]
        yield rendered(
            data, page, "combined_rule", indexed=False, rule=rule, cases=cases, topics=topics[page]
        )


def _releases(data: SiteData) -> Iterator[Page]:
    pages = []
    for name, ledger in data.ledgers.items():
        entry = SearchEntry("top", f"{name} releases: what changed", "releases")
        runs = series(ledger.runs)
        pages.append(rendered(data, history_page(name), "history", [entry], name=name, runs=runs))
    for trend in data.trends:
        entry = SearchEntry("top", f"{trend.implementation} releases", "releases")
        pages.append(rendered(data, f"releases/{release_page(trend)}", "trend", [entry], trend=trend))
    yield rendered(data, "releases/index", "releases", children=[page.name for page in pages])
    yield from pages


def _documents(data: SiteData) -> Iterator[Page]:
    documents = {document.page: document for document in documents_of(data.root)}
    index = documents.pop("docs/index")
    for document in (index, *documents.values()):
        target = partial(document.target, to=Links(data, document.page))
        children = tuple(documents) if document is index else ()
        yield Page(document.page, document.markdown, children=children, target=target)
