"""From a wrong answer to a finding: made smaller, asked again three times, told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from safetensors_corpus.judging.judge import failure_of
from safetensors_corpus.judging.verdicts import effect_of
from safetensors_reference.rules.book import ProfileName
from safetensors_reports.differences.signatures import signature_of

from ..findings.finding import ADAPTER_ERROR, ANY_ANSWER, ENTRY, REPLAYS, Finding, bare
from .attribution import Cause, cause_of
from .expectation import Opinion, Wrong, opinion, wrong
from .shrink import shrink
from .subjects import Slots, Subject

ALIKE = 4
"""Bad ends of one kind that are looked into, per implementation."""
REFERENCE = "reference"


@dataclass
class Tally:
    """What a run did so far; filled in place, so that it is there after Ctrl-C too.

    Attributes:
        execs: inputs tried.
        seconds: wall time.
        stages: how many inputs got past ``json``, past ``schema``, and were ``accepted`` by the reference.
        rules: rule -> inputs that break it.
        outcomes: what all answered -> how often.
        tuples: different outcome tuples.
        findings: signature -> finding.
        known: signature -> how often, for those that are known and stay quiet.
        unstable: signature -> how often a fresh process gave the same answer again.
        kept: inputs kept as bases.
    """

    execs: int = 0
    seconds: float = 0.0
    stages: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    tuples: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    unstable: dict[str, int] = field(default_factory=dict)
    kept: int = 0


@dataclass(frozen=True)
class Settings:
    """What a run is asked to do.

    Attributes:
        seed: the same seed gives the same inputs and findings.
        max_execs: stop after so many inputs; None for no end.
        seconds: stop after so much time; None for no end.
        profile: whose options are demanded; None for undisputed musts only.
        shrink_seconds: time to make one finding smaller.
        known: says of a signature whether it is known; such ones stay quiet.
        engine: what findings name as their engine.
        first: stop at the first finding.
        feedback: keep inputs as bases for others.
    """

    seed: int = 1
    max_execs: int | None = None
    seconds: float | None = None
    profile: ProfileName | None = None
    shrink_seconds: float = 1.0
    known: Callable[[str], bool] = lambda _: False
    engine: str = "outcome"
    first: bool = False
    feedback: bool = True


class Recorder:
    """Takes wrong answers, keeps one finding of each signature in the tally and hands it on."""

    def __init__(self, settings: Settings, tally: Tally, keep: Callable[[Finding], None]) -> None:
        self._settings, self._tally, self._keep = settings, tally, keep
        self._handled: set[str] = set()
        self._alone: set[tuple[str, str]] = set()
        self._misread: set[tuple[str, str]] = set()
        self._bad_ends: Counter[tuple[str, str]] = Counter()

    def wrong(self, what: Opinion, subject: Subject, step: str, mistake: Wrong) -> None:
        """Turn a wrong answer into a finding, unless one like it was seen."""
        if not self.fresh(f"{step} {self._signature(what, subject, mistake)}"):
            return
        if mistake.verdict == "unsafe":
            # What is wrong with the file has often nothing to do with the crash, so that one crash would be
            # told again with every fault.
            self._bad_ends[subject.name, mistake.kind] += 1
            if self._bad_ends[subject.name, mistake.kind] > ALIKE:
                return
        if self._explained(what, subject, mistake):
            return
        with Slots(1) as slots:

            def ask(data: bytes) -> tuple[Opinion, Wrong | None]:
                now = opinion(data, self._settings.profile)
                return now, wrong(now, subject.answer(data, slots.put(data), step), subject.lacks)

            def same(data: bytes) -> bool:
                now, again = ask(data)
                if again is None or again.verdict != mistake.verdict:
                    return False
                if (
                    effect_of(again.verdict) == "accept"
                ):  # fewer faults say more; others would be another finding
                    return set(now.rules) <= set(what.rules)
                return again.kind == mistake.kind and (
                    again.verdict == "unsafe" or now.subject == what.subject
                )

            data = shrink(what.data, same, seconds=self._settings.shrink_seconds)
            now, again = ask(data)
            if again is None:  # it was the process's state and not the input
                now, again = what, mistake

            def accepts(data: bytes) -> bool:
                return subject.answer(data, slots.put(data), step).outcome == "accept"

            self._settle(len(what.data), subject, step, now, again, ask, accepts)

    def _settle(
        self,
        size_found: int,
        subject: Subject,
        step: str,
        what: Opinion,
        mistake: Wrong,
        ask: Callable[[bytes], tuple[Opinion, Wrong | None]],
        accepts: Callable[[bytes], bool],
    ) -> None:
        """Ask again for a wrong answer that was made small, and keep it if it is new."""
        signature = self._signature(what, subject, mistake)
        if self._is_known(signature):
            self._note(what, subject, mistake)
            return
        if signature in self._tally.findings or self._explained(what, subject, mistake):
            return
        replays = 0
        for _ in range(REPLAYS):
            subject.renew()
            _, again = ask(what.data)
            replays += again is not None and (again.verdict, again.kind) == (mistake.verdict, mistake.kind)
        # What does not come again is not kept, and would only be asked about in vain.
        cause = cause_of(what, mistake, accepts, self._settings.profile) if replays == REPLAYS else Cause()
        finding = Finding(
            step=step,
            verdict=_verdict(mistake, cause),
            signature=signature,
            rules=cause.rules,
            cause=cause.words,
            codes=what.codes,
            expected=_expected(what),
            got={subject.name: mistake.text},
            versions={subject.name: subject.version},
            files={ENTRY: what.data},
            expectation=_expectation(what),
            where=(what.faults[0].start, what.faults[0].end) if what.faults else None,
            engine=self._settings.engine,
            seed=self._settings.seed,
            execs=self._tally.execs,
            size_found=size_found,
            replays=replays,
        )
        if self.take(finding):
            self._note(what, subject, mistake)

    @property
    def settings(self) -> Settings:
        """What the run is asked to do."""
        return self._settings

    @property
    def execs(self) -> int:
        """Inputs tried so far."""
        return self._tally.execs

    def fresh(self, rough: str) -> bool:
        """Return whether an answer of this kind comes for the first time, and note that it came."""
        new = rough not in self._handled
        self._handled.add(rough)
        return new

    def take(self, finding: Finding) -> bool:
        """Keep a finding, unless it is known, was told, or did not come again; return whether it is kept."""
        tally, signature = self._tally, finding.signature
        if signature in tally.findings or self._is_known(signature):
            return False
        if finding.replays < REPLAYS:
            tally.unstable[signature] = finding.replays
            return False
        tally.findings[signature] = finding
        self._keep(finding)
        return True

    def misreads(self, subject: Subject, kind: str) -> bool:
        """Return whether it is told of a subject that it reads valid files wrongly in this way."""
        return (subject.name, kind) in self._misread

    def _is_known(self, signature: str) -> bool:
        """Return whether a signature is one of those that stay quiet, and count it."""
        if not (self._settings.known(bare(signature)) or self._settings.known(signature)):
            return False
        self._tally.known[signature] += 1
        return True

    def _note(self, what: Opinion, subject: Subject, mistake: Wrong) -> None:
        """Note what is told of a subject now, so that nothing that follows from it is told as well."""
        if effect_of(mistake.verdict) == "accept" and len(what.rules) == 1:
            self._alone.add((subject.name, what.rules[0]))
        if effect_of(mistake.verdict) == "content":
            self._misread.add((subject.name, mistake.kind))

    def _explained(self, what: Opinion, subject: Subject, mistake: Wrong) -> bool:
        """True for several faults accepted together of which the subject is known to accept one by itself.

        The one that is accepted may hide the others (the first of two entries with one name is often never
        looked at), so their company says nothing that the single finding does not say.
        """
        if effect_of(mistake.verdict) != "accept" or len(what.rules) < 2:
            return False
        return any((subject.name, rule) in self._alone for rule in what.rules)

    def _signature(self, what: Opinion, subject: Subject, mistake: Wrong) -> str:
        """Return subject and outcomes as ``stc diff`` writes them; brackets tell kinds apart."""
        name = REFERENCE if subject.plain != REFERENCE else "rules"
        due = "reject" if what.header is None else "accept"
        effect = effect_of(mistake.verdict)
        tokens = {"accept": "accept", "reject": "reject", "harness-error": ADAPTER_ERROR}
        vector = {"a": tokens.get(effect) or mistake.kind.split()[0], "b": due}
        if effect == "content":
            vector = {"a": "accept:0", "b": "accept:1"}
        text = signature_of(what.subject, vector, {"a": subject.plain, "b": name})
        return f"{text} [{mistake.kind}]" if mistake.kind else text


def _verdict(mistake: Wrong, cause: Cause) -> str:
    """Return the verdict with the cause known: a refusal is wrong only where the written format rules."""
    if effect_of(mistake.verdict) != "reject" or not cause.rules:
        return mistake.verdict
    return failure_of("reject", cause.rules[0], "must", "outcome", mistake.text).verdict


def _expected(what: Opinion) -> str:
    """Return in one line what is demanded."""
    if what.expected == "open":
        return ANY_ANSWER
    return f"reject: {what.faults[0].message}" if what.faults else "accept, with the content of the file"


def _expectation(what: Opinion) -> dict[str, object]:
    """Return what is demanded, in the form of the manifest."""
    if what.expected == "open":
        return {"outcome": "open", "codes": list(what.codes), "choices": list(what.choices)}
    if what.expected == "reject":
        return {"outcome": "reject", "codes": list(what.codes)}
    return {"outcome": "accept", "content": what.content()}
