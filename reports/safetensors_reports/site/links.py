"""Addresses of the site, and links to them from any page. Links to unknown targets remain plain text."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from safetensors_corpus.field_bugs import reference_url
from safetensors_corpus.manifest import COMBINED, Case
from safetensors_reference.rules.pages import OFFICIAL_REPOSITORY

from ..text import slug, visible
from .data import SiteData

RULE_ID = re.compile(r"\b[A-Z]{3}-\d\d\b")


def rule_page(rule: str) -> str:
    return f"rules/{rule[:3].lower()}"


def case_page(case: Case) -> str:
    if case.area == COMBINED:
        return f"cases/{COMBINED}-{case.rules[0].lower()}"
    return f"cases/{case.area}"


def case_anchor(case: Case) -> str:
    return case.id.split("/", 1)[1].replace("/", "-")


class Links:
    """Factory for the links of one page."""

    def __init__(self, data: SiteData, page: str) -> None:
        self._data = data
        self._up = "../" * page.count("/")

    @property
    def repository(self) -> str:
        return self._data.repository

    def page(self, address: str, text: str) -> Markup:
        return Markup('<a href="{}">{}</a>').format(self._up + address, visible(text, 400))

    def address(self, address: str) -> str:
        return self._up + address

    def outside(self, url: str, text: str = "") -> Markup:
        shown = visible(text or url, 200)
        if not url.startswith("https://"):
            return escape(shown)
        return Markup('<a href="{}">{}</a>').format(visible(url, 500), shown)

    def rule(self, rule: str, text: str = "") -> Markup:
        if rule not in self._data.book.rules:
            return escape(visible(text or rule))
        return self.page(f"{rule_page(rule)}.html#{rule}", text or rule)

    def case(self, case_id: str, text: str = "") -> Markup:
        case = self._data.manifest.by_id.get(case_id)
        if case is None:
            return Markup("<code>{}</code>").format(visible(case_id))
        return self.page(f"{case_page(case)}.html#{case_anchor(case)}", text or case_id)

    def code(self, code: str) -> Markup:
        return self.page(f"faults.html#{code}", code) if code in self._data.book.codes else escape(code)

    def choice(self, choice: str, text: str = "") -> Markup:
        return self.page(f"choices.html#choice-{choice}", text or choice)

    def bug(self, bug: str) -> Markup:
        return self.page(f"bugs.html#{bug}", bug)

    def program(self, name: str, text: str = "") -> Markup:
        if name not in self._data.reports:
            return escape(visible(text or name))
        return self.page(f"programs/{slug(name)}.html", text or name)

    def reference(self, reference: str) -> Markup:
        url = reference_url(reference)
        return escape(visible(reference)) if url is None else self.outside(url, reference)

    def file(self, path: str, text: str = "") -> Markup:
        shown = Markup("<code>{}</code>").format(visible(text or path))
        if not self._data.repository:
            return shown
        return Markup('<a href="{}">{}</a>').format(f"{self._data.repository}/blob/main/{path}", shown)

    def text(self, text: str) -> Markup:
        return self.markup(escape(visible(text, 4000)))

    def markup(self, text: Markup) -> Markup:
        return Markup(RULE_ID.sub(lambda match: str(self.rule(match.group())), str(text)))  # noqa: S704 - is HTML

    def source(self, source: str) -> Markup:
        """Return the source of a rule with links to threads (in the official repository by default)."""
        out = []
        for part in source.split(";"):
            named = re.search(r"([\w.-]+/[\w.-]+)#\d", part)
            repository = named.group(1) if named else OFFICIAL_REPOSITORY

            def thread(match: re.Match[str], repository: str = repository) -> str:
                return str(self.outside(f"https://github.com/{repository}/issues/{match[2]}", match[0]))

            out.append(re.sub(r"([\w.-]+/[\w.-]+)?(?<!&)#(\d+)", thread, str(self.text(part))))
        return Markup(";".join(out))  # noqa: S704 - each part is escaped by text()
