"""What is asked and what must be answered, between a plan and a case of the corpus."""

from __future__ import annotations

import copy
import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors_conformance.worker.outcome import STEPS
from safetensors_corpus.author.case import ACCEPT, Accept, Reject
from safetensors_corpus.author.file import Builder
from safetensors_corpus.document import action_faults
from safetensors_corpus.manifest import ROOT_MARK, Case, DirectoryFile, Expectation, Input
from safetensors_reference.rules.book import rule_book

from ..findings.finding import ENTRY

Plan = dict[str, Any]
"""What is asked, in JSON. Each kind of question explains the keys of its own."""

KINDS = {"open": "read", "read": "read", "slice": "slice", "write": "write", "index": "index"}
"""Step -> kind of case. The other steps have no inputs that could be made by chance."""
AREAS = {"slice": "slice", "write": "writer", "index": "index"}


class PlanError(ValueError):
    """The plan makes no sense, or asks for something that no rule decides. It is skipped."""


@dataclass(frozen=True)
class Aim:
    """What the rules say about a question.

    Attributes:
        rules: ids of the rules concerned, the main one first.
        codes: the fault code of each fault, sorted; empty where nothing is wrong.
        choice: the choice that it falls under, or None; of several the one that speaks.
        options: option -> what a reader that takes it does; the key is ``""`` without a choice.
        level: must, should or may.
        parts: what is special about it, one by one: code and rule of each fault, since one code can stand for
            several rules; else all choices; else the first rule.
    """

    rules: tuple[str, ...]
    codes: tuple[str, ...]
    choice: str | None
    options: Mapping[str, Accept | Reject]
    level: str
    parts: frozenset[str]

    @property
    def subject(self) -> str:
        """What findings are told apart by: the faults joined by ``+``, the choice, or the first rule."""
        return self.choice or "+".join(sorted(self.parts))


@dataclass(frozen=True)
class Fault:
    """A reason to refuse: the rules broken, the codes that fit, the primary one first, and their level."""

    rules: tuple[str, ...]
    codes: tuple[str, ...]
    level: str = "must"


def accepting(*rules: str, level: str = "must") -> Aim:
    """Return the aim of a question that must be answered."""
    return Aim(rules, (), None, {"": ACCEPT}, level, frozenset({rules[0]}))


def rejecting(faults: Iterable[Fault]) -> Aim:
    """Return the aim of a question that must be refused, for any of the faults."""
    faults = sorted(faults, key=lambda fault: fault.level != "must")
    return Aim(
        tuple(dict.fromkeys(rule for fault in faults for rule in fault.rules)),
        tuple(sorted({fault.codes[0] for fault in faults})),
        None,
        {"": Reject(tuple(dict.fromkeys(code for fault in faults for code in fault.codes)))},
        faults[0].level,
        frozenset(f"{fault.codes[0]}/{fault.rules[0]}" for fault in faults),
    )


def choosing(
    choice: str,
    options: Mapping[str, Accept | Reject],
    *rules: str,
    level: str = "may",
    beside: Iterable[str] = (),
) -> Aim:
    """Return the aim of a question that falls under a choice, and perhaps under others beside it."""
    rules = tuple(dict.fromkeys((rule_book().choices[choice].rule, *rules)))
    return Aim(rules, (), choice, options, level, frozenset({choice, *beside}))


@dataclass(frozen=True)
class Question:
    """What is handed over and what is demanded; the attributes are those of a ``Finding``.

    ``expectation`` is in the form of the manifest: ``outcome`` with ``content`` or ``codes`` and
    ``properties``, or ``choice`` with ``options``; and in either case ``level`` and ``features``. ``subject``
    and ``parts`` are those of the ``Aim``.
    """

    step: str
    rules: tuple[str, ...]
    codes: tuple[str, ...]
    subject: str
    parts: frozenset[str]
    files: Mapping[str, bytes]
    entry: str
    action: Mapping[str, Any] | None
    expectation: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Bytes of all files together; of a write, whose input is its action, characters of that."""
        return sum(map(len, self.files.values())) or len(repr(self.action))

    def case(self, folder: Path) -> Case:
        """Write the files into ``folder`` and return the case."""
        return case_from(self.step, self.files, self.entry, self.action, self.expectation, self.rules, folder)


def asked(step: str, builder: Builder, aim: Aim) -> Question:
    """Return the question that a builder was told. Raises PlanError for what it cannot make."""
    try:
        stored, files = builder.stored("input")
        expectation = _demand(builder, aim)
        action = builder.action()
    except (ValueError, KeyError) as err:
        raise PlanError(str(err)) from err
    if stored is not None and "recipe" in stored:
        raise PlanError("the input is too large")
    entry = ENTRY
    if stored is not None and "open" in stored:
        entry = stored["open"]
        files = {name.removeprefix("files/input/"): data for name, data in files.items()}
    else:
        files = dict.fromkeys((ENTRY,), next(iter(files.values()))) if files else {}
    expectation["features"] = builder.features()
    return Question(step, aim.rules, aim.codes, aim.subject, aim.parts, files, entry, action, expectation)


def _demand(builder: Builder, aim: Aim) -> dict[str, Any]:
    if aim.choice is None:
        return {**_expected(aim.options[""], builder, None), "level": aim.level}
    options = {name: _expected(what, builder, name) for name, what in aim.options.items()}
    return {"choice": aim.choice, "options": options, "level": aim.level}


def _expected(what: Accept | Reject, builder: Builder, option: str | None) -> dict[str, Any]:
    more = {"properties": list(properties)} if (properties := builder.demanded()) else {}
    if isinstance(what, Reject):
        return {"outcome": "reject", "codes": list(what.codes), **more}
    return {"outcome": "accept", "content": builder.content(option), **more}


def case_from(
    step: str,
    files: Mapping[str, bytes],
    entry: str,
    action: Mapping[str, Any] | None,
    expectation: Mapping[str, Any],
    rules: tuple[str, ...],
    folder: Path,
) -> Case:
    """Write the files into ``folder`` and return the case that hands them over.

    Raises ValueError for a step that is not among ``KINDS`` or an expectation or action that is not in the
    manifest's form, OSError when a file cannot be written.
    """
    if step not in KINDS:
        raise ValueError(f"step {step!r} hands over no input; steps that do: {', '.join(KINDS)}")
    try:
        options = {k: Expectation.from_json(dict(v)) for k, v in expectation.get("options", {}).items()}
        expect = None if options else Expectation.from_json(dict(expectation))
    except (KeyError, TypeError, AttributeError) as err:
        raise ValueError(f"no expectation in the form of the manifest: {type(err).__name__}: {err}") from err
    for why in action_faults(KINDS[step], action) if action is not None else ():
        raise ValueError(f"no action in the form of the manifest: it {why}")
    return Case(
        id=f"{AREAS.get(step, _area(rules))}/fuzzed",
        kind=KINDS[step],
        title="",
        description="",
        rules=tuple(rules),
        level=expectation.get("level", "must"),
        importance="medium",
        features=tuple(expectation.get("features", ())),
        steps=tuple(s for s in STEPS if KINDS.get(s) == KINDS[step]),
        input=_input(step, files, entry, folder),
        action=action,
        budget=None,
        heavy=False,
        choice=expectation.get("choice") if options else None,
        expect=expect,
        options=options,
        smoke=False,
        affects=(),
        source={"kind": "fuzz"},
    )


_AREA_OF = {"FRM": "framing", "HDR": "header", "ENT": "entry", "DTY": "dtype", "SHP": "shape"}
_AREA_OF |= {"OFF": "layout", "MET": "metadata", "DAT": "data"}


def _area(rules: tuple[str, ...]) -> str:
    """Return the area of the corpus that a read case of these rules belongs to."""
    return _AREA_OF.get(rules[0][:3] if rules else "", "framing")


def _input(step: str, files: Mapping[str, bytes], entry: str, folder: Path) -> Input:
    if not files:
        return Input()
    rows = []
    for path, data in sorted(files.items()):
        target = folder / path
        if not target.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"the input's file {path!r} lies outside of its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        # A new file: whoever still has the last one mapped must not see it change.
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        template = path == entry and ROOT_MARK in data
        rows.append(DirectoryFile(target, path, hashlib.sha256(data).hexdigest(), len(data), template))
    opened = next((row for row in rows if row.path == entry), None)
    if opened is None:
        raise ValueError(f"the input has no file {entry!r} to hand over, only {', '.join(sorted(files))}")
    return Input(opened.source, (), opened.sha256, opened.size, tuple(rows) if step == "index" else (), entry)


class Asking(ABC):
    """One step with its plans."""

    step: str

    @abstractmethod
    def plan(self, rng: random.Random) -> Plan:
        """Return a random plan; about half of them are valid."""

    @abstractmethod
    def question(self, plan: Plan) -> Question:
        """Return what a plan asks. Raises PlanError."""

    @abstractmethod
    def simpler(self, plan: Plan) -> Iterator[Plan]:
        """Yield simpler plans, the most drastic first. They may make no sense, and may repeat."""

    def smaller(self, plan: Plan) -> Iterator[Plan]:
        """Yield simpler plans, the most drastic first; none is the plan itself."""
        for other in self.simpler(copy.deepcopy(plan)):
            if other != plan:
                yield other

    def case(self, plan: Plan, folder: Path) -> Case:
        """Write the input into ``folder`` and return the case. Raises PlanError and OSError."""
        return self.question(plan).case(folder)

    def rules(self, plan: Plan) -> tuple[str, ...]:
        """Return the rules that a plan is about, the main one first. Raises PlanError."""
        return self.question(plan).rules
