"""Questions of plans, and the corpus cases that are built from them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from safetensors_conformance.case_verdict import StepVerdict
from safetensors_corpus.author.case import ACCEPT, Accept, Reject, usual_options
from safetensors_corpus.author.file import Builder
from safetensors_corpus.document import action_faults
from safetensors_corpus.judging.verdicts import effect_of, fails
from safetensors_corpus.manifest import ROOT_MARK, Case, DirectoryFile, Expectation, Input
from safetensors_corpus.steps import KINDS
from safetensors_reference.rules.book import rule_book
from safetensors_reports.differences.signatures import signature_of, without_folders

from ..finding import ADAPTER_ERROR, ENTRY, Cause, Finding, unknown
from ..loop.question import Account, Examiner, Keys, Mistake, Question
from ..loop.shrink import simplest
from .values import Dice, Plan, simpler

TRIES = 60
_FAULT = re.compile(r"\(([A-Z]{2,3}_[A-Z0-9_]+)\)")


class PlanError(ValueError):
    """The plan is inconsistent, or no rule decides it. The campaign skips such a plan."""


@dataclass(frozen=True)
class Ruling:
    """The behaviour that the rules require for a plan."""

    rules: tuple[str, ...]
    codes: tuple[str, ...]
    choice: str | None
    options: Mapping[str, Accept | Reject]
    """Required behaviour for each option. Without a choice, the only key is ``""``."""
    level: str
    parts: frozenset[str]
    """Code and rule of each fault. Without faults, the choices that apply, or else the first rule."""

    @property
    def subject(self) -> str:
        return self.choice or "+".join(sorted(self.parts))


@dataclass(frozen=True)
class PlanFault:
    """A fault in a plan. The main rule and the main code come first."""

    rules: tuple[str, ...]
    codes: tuple[str, ...]
    level: str = "must"


def accept_ruling(*rules: str, level: str = "must") -> Ruling:
    return Ruling(tuple(dict.fromkeys(rules)), (), None, {"": ACCEPT}, level, frozenset({rules[0]}))


def reject_ruling(faults: Iterable[PlanFault]) -> Ruling:
    faults = sorted(faults, key=lambda fault: fault.level != "must")
    return Ruling(
        tuple(dict.fromkeys(rule for fault in faults for rule in fault.rules)),
        tuple(sorted({fault.codes[0] for fault in faults})),
        None,
        {"": Reject(tuple(dict.fromkeys(code for fault in faults for code in fault.codes)))},
        faults[0].level,
        frozenset(f"{fault.codes[0]}/{fault.rules[0]}" for fault in faults),
    )


def choice_ruling(
    choice: str,
    rejection: Reject,
    *rules: str,
    level: str = "may",
    beside: Iterable[str] = (),
    instead: Mapping[str, Accept | Reject] | None = None,
) -> Ruling:
    """Return the ruling for a choice. ``instead`` replaces the behaviour of individual options."""
    options = {**usual_options(choice, rejection), **(instead or {})}
    rules = tuple(dict.fromkeys((rule_book().choices[choice].rule, *rules)))
    return Ruling(rules, (), choice, options, level, frozenset({choice, *beside}))


@dataclass(frozen=True, eq=False)
class PlanQuestion:
    """The question of a plan. Questions with the same step and plan are equal."""

    kind: PlanKind
    plan: Plan
    rules: tuple[str, ...]
    codes: tuple[str, ...]
    subject: str
    parts: frozenset[str]
    files: Mapping[str, bytes]
    entry: str
    action: Mapping[str, Any] | None
    expectation: Mapping[str, Any]
    where: ClassVar[None] = None
    engine: ClassVar[str] = "asking"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanQuestion) and (self.step, self.plan) == (other.step, other.plan)

    def __hash__(self) -> int:
        return hash((self.step, repr(self.plan)))

    @property
    def step(self) -> str:
        return self.kind.step

    @property
    def expected(self) -> str:
        expectation = self.expectation
        if "choice" in expectation:
            options = "; ".join(f"{name}: {_demanded(o)}" for name, o in expectation["options"].items())
            return f"choice {expectation['choice']} ({options})"
        return _demanded(expectation)

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values())) or len(repr(self.action))

    def run(self, examiner: Examiner) -> StepVerdict:
        with tempfile.TemporaryDirectory(prefix="stc-fuzz-") as folder:
            return examiner.subject.run_case(fuzzed_case(self, Path(folder)), self.step, examiner.profile)

    def examine(self, examiner: Examiner) -> Mistake | None:
        return mistake_of(self.run(examiner))

    def smaller(self) -> Iterator[PlanQuestion]:
        for plan in self.kind.smaller(self.plan):
            with contextlib.suppress(PlanError):
                yield self.kind.question(plan)

    def shrink(self, same: Callable[[Question], bool], seconds: float) -> PlanQuestion:
        return simplest(self, same, (PlanQuestion.smaller,), seconds=seconds)

    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        """Return whether another plan with a subset of the parts shows the same bug."""
        assert isinstance(other, PlanQuestion)
        return mistake.kind == again.kind and mistake.reports <= again.reports and other.parts <= self.parts

    def keys(self, examiner: Examiner, mistake: Mistake) -> Keys:
        wanted = "choice" if "choice" in self.expectation else self.expectation["outcome"]
        vector = {"expected": wanted, "answer": mistake.kind}
        names = {"expected": "expected", "answer": f"{examiner.subject.plain} ({self.step})"}
        subjects = (self.subject, *sorted(self.parts - {self.subject}))
        signatures = tuple(signature_of(subject, vector, names) for subject in subjects)
        return Keys(signatures[0], f"{self.step} {signatures[0]}", covered_by=signatures)

    def explain(self, examiner: Examiner, mistake: Mistake) -> Account:
        return Account(self._cause(mistake, examiner), mistake.verdict, {examiner.subject.name: mistake.text})

    def _cause(self, mistake: Mistake, examiner: Examiner) -> Cause:
        """Return the rules that the judge names, or the rules whose removal makes the answer right."""
        if mistake.verdict == "harness-error":
            return unknown("the adapter failed; the implementation itself may be right")
        if "choice" in self.expectation or self.expectation["outcome"] == "reject":
            return Cause(self.rules)
        if mistake.rules:
            return Cause(mistake.rules)
        if mistake.outcome in ("hang", "exhausted"):
            return unknown(
                "the request is valid, and each further attempt would run until it reaches a limit"
            )
        gone: dict[str, str] = {}
        for other in itertools.islice(self.smaller(), TRIES):
            lost = [rule for rule in self.rules if rule not in other.rules]
            sound = other.expectation.get("outcome") == "accept"
            if len(lost) == 1 and lost[0] not in gone and sound and not fails(other.run(examiner).verdict):
                gone[lost[0]] = f"the answer is right without the part that {lost[0]} covers"
        if gone:
            return Cause(tuple(gone), "; ".join(gone.values()))
        return unknown("no single simplification of the request makes the answer right")


def mistake_of(judged: StepVerdict) -> Mistake | None:
    """Return the mistake in an answer, if any. Exception types depend on the call, so they are ignored."""
    if not fails(judged.verdict) or judged.verdict == "deviation:exception":
        return None
    result = judged.result
    text = judged.detail or result.message or result.outcome
    if not text.startswith(result.outcome):
        text = f"{result.outcome}: {text}"
    rules = tuple(dict.fromkeys(f.rule for f in judged.failures if f.rule))
    return Mistake(
        judged.verdict,
        " ".join(without_folders(text).split())[:300],
        _token(judged),
        rules=rules if all(f.property != "outcome" for f in judged.failures) else (),
        outcome=result.outcome,
        reports=bool(result.tensors),
    )


def _token(judged: StepVerdict) -> str:
    if judged.verdict == "harness-error":
        return ADAPTER_ERROR
    effect = effect_of(judged.verdict)
    if effect == "reject" and judged.result.exception:
        return f"reject:{judged.result.exception}"
    if effect != "content":
        return judged.result.outcome
    invalid = sorted({flaw.text for flaw in judged.result.flaws if flaw.property == "valid"})
    if invalid:
        codes = sorted({code for text in invalid for code in _FAULT.findall(text)})
        return f"wrong-content:{'+'.join(codes) or 'no-file'}"
    parts = {"bytes" if f.property == "nbytes" else f.property for f in judged.failures}
    return f"wrong-content:{'+'.join(sorted(parts - {'exception', 'cost'}))}"


def _demanded(expectation: Mapping[str, Any]) -> str:
    if expectation["outcome"] == "reject":
        text = f"reject ({', '.join(expectation['codes'])})"
    else:
        rows = expectation["content"]["tensors"]
        shown = ", ".join(f"{row['dtype']} {row['shape']}" for row in rows[:3])
        text = f"accept, {len(rows)} tensors" if len(rows) > 3 else f"accept, {shown or 'no tensors'}"
    properties = expectation.get("properties", ())
    return f"{text}, {', '.join(properties)}" if properties else text


def build_question(kind: PlanKind, plan: Plan, builder: Builder, ruling: Ruling) -> PlanQuestion:
    """Build the question from a builder's input. Raises PlanError if the builder cannot create the input."""
    try:
        stored, files = builder.stored("input")
        if ruling.choice is None:
            expectation = _expected(ruling.options[""], builder, None)
        else:
            options = {name: _expected(value, builder, name) for name, value in ruling.options.items()}
            expectation = {"choice": ruling.choice, "options": options}
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
    expectation |= {"level": ruling.level, "features": builder.features()}
    r = ruling
    return PlanQuestion(kind, plan, r.rules, r.codes, r.subject, r.parts, files, entry, action, expectation)


def _expected(required: Accept | Reject, builder: Builder, option: str | None) -> dict[str, Any]:
    more = {"properties": list(properties)} if (properties := builder.demanded()) else {}
    if isinstance(required, Reject):
        return {"outcome": "reject", "codes": list(required.codes), **more}
    return {"outcome": "accept", "content": builder.content(option), **more}


class PlanKind(ABC):
    """The generator of plans for one step."""

    step: ClassVar[str]
    drastic: ClassVar[tuple[Callable[[Plan], Iterable[Plan]], ...]]
    """Simplifications of several parts at once. Their results may be invalid, repeated or unchanged."""
    plain: ClassVar[Plan]
    """Plainest values of keys anywhere in a plan."""
    kept: ClassVar[tuple[str, ...]]
    """Keys whose values only ``drastic`` and ``plain`` change."""

    @abstractmethod
    def draw(self, rng: Dice) -> Plan:
        """Return a random plan. About half of the plans are valid."""

    @abstractmethod
    def question(self, plan: Plan) -> PlanQuestion:
        """Return the question of a plan. Raises PlanError."""

    def smaller(self, plan: Plan) -> Iterator[Plan]:
        """Yield simpler plans, starting with the most drastic simplification."""
        drastic = itertools.chain.from_iterable(simplify(plan) for simplify in self.drastic)
        every = itertools.chain(drastic, simpler(plan, self.plain, self.kept))
        return (other for other in every if other != plan)


CASE_KINDS = {step: kind for kind in ("read", "slice", "write", "index") for step in KINDS[kind].steps}
"""Kind of case for each step that supports random inputs."""


def fuzzed_case(asked: PlanQuestion | Finding, folder: Path) -> Case:
    """Write the files into ``folder`` and return the case that opens them. Raises ValueError and OSError."""
    if asked.step not in CASE_KINDS:
        raise ValueError(
            f"step {asked.step!r} takes no inputs; the steps that do are: {', '.join(CASE_KINDS)}"
        )
    kind, action, expectation = CASE_KINDS[asked.step], asked.action, asked.expectation
    try:
        options = {k: Expectation.from_json(dict(v)) for k, v in expectation.get("options", {}).items()}
        expect = None if options else Expectation.from_json(dict(expectation))
    except (KeyError, TypeError, AttributeError) as err:
        raise ValueError(
            f"the expectation does not match the format of the manifest: {type(err).__name__}: {err}"
        ) from err
    for why in action_faults(kind, action) if action is not None else ():
        raise ValueError(f"the action does not match the format of the manifest: it {why}")
    return Case(
        id=f"{kind}/fuzzed",
        kind=kind,
        title="",
        description="",
        rules=asked.rules,
        level=expectation.get("level", "must"),
        importance="medium",
        features=tuple(expectation.get("features", ())),
        steps=KINDS[kind].steps,
        input=_input(kind, asked.files, asked.entry, folder),
        action=action,
        choice=expectation.get("choice") if options else None,
        expect=expect,
        options=options,
        source={"kind": "fuzz"},
    )


def _input(kind: str, files: Mapping[str, bytes], entry: str, folder: Path) -> Input:
    if not files and kind == "write":  # the action is the input of a write
        return Input()
    rows = []
    inside = folder.resolve()
    for path, data in sorted(files.items()):
        target = folder / path
        if not target.resolve().is_relative_to(inside):
            raise ValueError(f"the input's file {path!r} is outside its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Create a new file, because a process may still have the old file mapped.
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        template = path == entry and ROOT_MARK in data
        rows.append(DirectoryFile(target, path, hashlib.sha256(data).hexdigest(), len(data), template))
    opened = next((row for row in rows if row.path == entry), None)
    if opened is None:
        raise ValueError(
            f"the input does not contain the entry file {entry!r}; its files are: "
            f"{', '.join(sorted(files)) or 'none'}"
        )
    return Input(opened.source, (), opened.sha256, opened.size, tuple(rows) if kind == "index" else (), entry)
