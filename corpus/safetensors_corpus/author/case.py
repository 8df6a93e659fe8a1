"""Define cases as decorated functions.

The id of a case consists of the area of its module and the name of its function. The docstring contains the
title and the description. The body calls a builder, which records the file and its expected content. The
decorators ``accepts``, ``rejects`` and ``chooses`` define the expected outcome.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, Literal

from safetensors_reference.rules.book import rule_book

from ..field_bugs import reference_url
from ..steps import KINDS

AREAS = {
    "framing": "read",
    "header": "read",
    "entry": "read",
    "dtype": "read",
    "shape": "read",
    "layout": "read",
    "metadata": "read",
    "data": "read",
    "surroundings": "read",
    "slice": "slice",
    "writer": "write",
    "index": "index",
    "sharded": "sharded",
    "export": "export",
    "lifecycle": "lifecycle",
    "remote": "remote",
    "resource": "resource",
    "concurrent": "concurrent",
    "placed": "placed",
    "repeated": "repeated",
    "contended": "contended",
}
"""Maps each area of the corpus, in the order of the format, to the kind of its cases.

An area is a module or a package in ``cases``. Cases that the fuzzer found declare their area themselves.
"""

Importance = Literal["low", "medium", "high", "critical"]
_IMPORTANT: dict[Importance, str] = {
    "critical": "FRM-02 FRM-04 FRM-05 FRM-06 IDX-04 IDX-05 LIM-05 OFF-01 OFF-03 OFF-04 OFF-05 OFF-13 SHP-05",
    "high": "API-07 API-08 API-09 API-10 DTY-05 DTY-09 DTY-10 FRM-03 FRM-07 HDR-09 HDR-10 HDR-11 HDR-12 "
    "HDR-13 IDX-07 IDX-08 IDX-09 IDX-12 IDX-21 OFF-06 OFF-07 OFF-08 OFF-09 OFF-12 SHP-03 SHP-04 WRT-06 "
    "WRT-09 WRT-19",
}
IMPORTANCE = {rule: importance for importance, rules in _IMPORTANT.items() for rule in rules.split()}
"""Broken rule -> usual importance of rejecting the input. All other rules have medium importance."""


@dataclass(frozen=True)
class Accept:
    """The reader must accept the file and report the content recorded by the builder."""


@dataclass(frozen=True)
class Reject:
    """The reader must reject the file; ``codes`` are the matching fault codes, the primary one first."""

    codes: tuple[str, ...]


Options = Mapping[str, Accept | Reject]
"""Maps each option of a choice to its expectation."""
Family = Mapping[str, object] | Iterable[object]
"""Members of a family of cases: a map from slugs to values, or values whose lower-case text is the slug."""


def reject(*codes: str) -> Reject:
    """Return a rejection with these codes, of which an argument can contain several, separated by spaces."""
    return Reject(tuple(" ".join(codes).split()))


ACCEPT = Accept()
REFUSALS = ("error", "refuse", "reject")
"""Names that choices use for the options that reject the input."""


@dataclass(frozen=True, kw_only=True)
class CaseFunction:
    """A registered case whose file has not been built yet."""

    id: str
    title: str
    description: str = ""
    rules: tuple[str, ...]
    choice: str | None = None
    options: Options
    body: Callable[..., None]
    arguments: tuple[object, ...] = ()
    level: str | None = None
    importance: Importance = "medium"
    steps: tuple[str, ...]
    smoke: bool = False
    bugs: tuple[str, ...] = ()
    heavy: bool = False
    source: Mapping[str, str]

    @property
    def kind(self) -> str:
        return AREAS[self.id.split("/", 1)[0]]


_CASES: dict[str, CaseFunction] = {}


def accepts(rules: str, **details: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a case that every reader must accept. ``_register`` explains the arguments."""
    return _register(rules, None, {"": ACCEPT}, **details)


def rejects(rules: str, codes: str, **details: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a case that every reader must reject, with the fault codes, of which the first is primary.

    By default, the importance is that of the first rule.
    """
    details.setdefault("importance", IMPORTANCE.get(rules.split(maxsplit=1)[0], "medium"))
    return _register(rules, None, {"": reject(codes)}, **details)


def chooses(
    choice: str,
    rules: str = "",
    *,
    codes: str = "",
    options: Options | None = None,
    **details: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a case with an expectation for each option of a choice.

    By default, the options in ``REFUSALS`` reject the input with ``codes``, and all others accept it.
    """
    return _register(rules, choice, options or usual_options(choice, reject(codes)), **details)


def usual_options(choice: str, rejection: Reject) -> Options:
    """Return ``rejection`` for the options of a choice in ``REFUSALS``, and acceptance for all others."""
    names = rule_book().choices[choice].options
    return {name: rejection if name in REFUSALS else ACCEPT for name in names}


def _register(
    rules: str,
    choice: str | None,
    options: Options,
    *,
    over: Family | None = None,
    level: str | None = None,
    importance: Importance = "medium",
    steps: Sequence[str] | None = None,
    smoke: bool = False,
    bugs: str | Mapping[str, str] = "",
    ahead: Mapping[str, str] | None = None,
    issue: str | Mapping[str, str] | None = None,
    heavy: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator.

    Args:
        rules: ids of the tested rules, separated by spaces, the main one first.
        choice: id of the choice, or None.
        options: maps options to expectations. Without a choice, the only key is ``""``.
        over: members of a family. Registers one case with the id ``name-slug`` for each member, passes the
            value to the body as the second argument, or a tuple as several arguments if the body has
            several parameters, and replaces ``$slug`` and ``$value`` in the docstring.
        level: must, should or may; by default, the level of the rules.
        importance: severity of a failure for users who open hostile files.
        steps: steps of the case; by default, the steps of its kind.
        smoke: True for the few cases that distinguish a broken adapter from a broken reader.
        bugs: ids of the reported bugs (``field_bugs.toml``) that the case shows, separated by spaces. In a
            family, maps slugs to ids.
        ahead: maps slugs to rules that are listed first for those members of a family. For example, a reader
            may reject a tensor of a rare dtype because of the dtype rather than the fault that the family is
            about.
        issue: public report of the bug that the case reproduces, as ``owner/repository#number`` or a URL. In
            a family, maps slugs to reports.
        heavy: True for a case that runs only on request. Cases with inputs above one mebibyte are always
            heavy.
    """
    members = {} if over is None else by_slug(over)
    for label, special in (("bugs", bugs), ("issues", issue), ("rules", ahead)):
        if isinstance(special, Mapping) and (unknown := special.keys() - members.keys()):
            raise ValueError(f"unknown members of the family in {label}: {sorted(unknown)}")

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        several = len(inspect.signature(body).parameters) > 2
        area = next((part for part in body.__module__.split(".") if part in AREAS), body.__module__)
        for slug, value in (members or {"": None}).items():
            name = body.__name__.replace("_", "-") + (f"-{slug}" if slug else "")
            text = Template(inspect.getdoc(body) or "").safe_substitute(slug=slug, value=value)
            title, _, rest = text.partition("\n")
            report = issue.get(slug) if isinstance(issue, Mapping) else issue
            url = report and reference_url(report)
            kind = "report" if url else "hand"
            register(
                CaseFunction(
                    id=f"{area}/{name}",
                    title=title.strip(),
                    description=re.sub(r"\s*\n\s*(?!\n)", " ", rest.strip()),
                    rules=tuple(dict.fromkeys(f"{(ahead or {}).get(slug, '')} {rules}".split())),
                    choice=choice,
                    options=dict(options),
                    body=body,
                    arguments=value if several and isinstance(value, tuple) else (value,) if members else (),
                    level=level,
                    importance=importance,
                    steps=KINDS[AREAS[area]].steps if steps is None else tuple(steps),
                    smoke=smoke,
                    bugs=tuple((bugs.get(slug, "") if isinstance(bugs, Mapping) else bugs).split()),
                    heavy=heavy,
                    source={"kind": kind, **({"issue": url} if url else {})},
                )
            )
        return body

    return decorate


def by_slug(family: Family) -> Mapping[str, object]:
    if isinstance(family, Mapping):
        return family
    return {str(value).lower().replace("_", "-"): value for value in family}


def register(case: CaseFunction) -> None:
    """Register a case. Raises ValueError for a malformed or duplicate id, or for a missing title."""
    if not re.fullmatch(r"[a-z0-9]+/[a-z0-9]+(-[a-z0-9]+)*", case.id):
        raise ValueError(
            f"case id {case.id!r} may contain only lower-case letters, digits and single hyphens"
        )
    if case.id in _CASES:
        raise ValueError(f"case id {case.id!r} is registered twice")
    if not case.title:
        raise ValueError(f"case {case.id}: the docstring is missing")
    _CASES[case.id] = case


def all_cases() -> list[CaseFunction]:
    """Import all areas and return their cases in the order of ``AREAS``, then by id.

    Raises ValueError outside a checkout, because a wheel contains only the built corpus.
    """
    try:
        package = importlib.import_module("safetensors_cases")
    except ModuleNotFoundError as err:
        raise ValueError(
            "the case functions are not part of the installed package; run this command in a checkout"
        ) from err
    areas = {m.name for m in pkgutil.iter_modules(package.__path__)} - {"from_fuzzing"}
    if not areas <= set(AREAS):
        raise ValueError(f"these modules do not belong to a known area: {sorted(areas - set(AREAS))}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    order = list(AREAS)
    return sorted(_CASES.values(), key=lambda c: (order.index(c.id.split("/")[0]), c.id))
