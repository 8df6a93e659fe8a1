"""Two implementations that accept one file, where that is left open, and see different things in it.

Where the format is clear each is held against the strict reader; here there is only the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from safetensors_conformance.worker.outcome import StepResult
from safetensors_corpus.judging.content import FIELDS, Difference, first_difference
from safetensors_reference.rules.book import rule_book
from safetensors_reports.differences.signatures import signature_of

from ..findings.finding import AGREEMENT, ENTRY, REPLAYS, Finding
from .expectation import Opinion, kind_of_part, opinion
from .recorder import Recorder
from .shrink import shrink
from .subjects import Slots, Subject


@dataclass(frozen=True)
class Pair:
    """Two that accept an input and report different content.

    Attributes:
        first: the one whose content is taken as it is.
        second: the one that is held against it.
        step: what they were asked.
    """

    first: Subject
    second: Subject
    step: str

    @property
    def names(self) -> dict[str, str]:
        """Names as signatures hold them."""
        return {"a": self.first.plain, "b": self.second.plain}

    def answers(self, data: bytes, slots: Slots) -> tuple[StepResult, StepResult]:
        """Ask both."""
        path = slots.put(data)
        return self.first.answer(data, path, self.step), self.second.answer(data, path, self.step)


def difference_of(one: StepResult, other: StepResult) -> Difference | None:
    """Return the first difference between two accepting answers, None for none.

    It is told as one of ``other``, with ``one`` in the place of the file. What either does not tell is not
    compared.
    """
    content, against = one.content, other.content
    if content is None or against is None:
        return None
    rows = {row["name"]: row for row in against["tensors"]}
    unknown = dict.fromkeys(FIELDS)
    tensors = [{**unknown, **rows.get(row["name"], {}), **_told(row)} for row in content["tensors"]]
    return first_difference({"metadata": other.metadata, **content, "tensors": tensors}, other)


def _told(row: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in row.items() if value is not None}


def differences(one: StepResult, other: StepResult) -> tuple[Difference, Difference] | None:
    """Return the difference between two accepting answers, told of ``one`` and told of ``other``."""
    of_one, of_other = difference_of(other, one), difference_of(one, other)
    # A name reported twice shows on its side only.
    either = of_one or of_other
    return None if either is None else (of_one or either, of_other or either)


def quarrels(answers: dict[str, StepResult]) -> dict[str, tuple[str, str]]:
    """Return name -> the first other that accepts the input with other content, and the difference."""
    out: dict[str, tuple[str, str]] = {}
    for name, other in permutations(answers, 2):
        found = differences(answers[name], answers[other])
        if found is not None:
            out.setdefault(name, (other, found[0].text))
    return out


def words_of(difference: str, other: str) -> str:
    """Return a difference as what is wrong about an answer, as far as ``other`` is right."""
    return f"{difference} (as {other} reads it)"


def compare(recorder: Recorder, what: Opinion, pair: Pair, found: tuple[Difference, Difference]) -> None:
    """Keep it as a finding that two accept an input and report different content.

    Args:
        recorder: takes the finding.
        what: the input.
        pair: the two.
        found: what ``differences`` returned.
    """
    first, second, kind = pair.first, pair.second, kind_of_part(found[1].part)
    if recorder.misreads(first, kind_of_part(found[0].part)) or recorder.misreads(second, kind):
        return  # a choice has no part in it: the same is told of a file that leaves none
    vector = {"a": "accept:0", "b": "accept:1"}
    rough = f"{'+'.join(what.choices)}: {signature_of(what.subject, vector, pair.names)} [{kind}]"
    if not recorder.fresh(rough):
        return
    with Slots(1) as slots:

        def same(data: bytes) -> bool:
            now = differences(*pair.answers(data, slots))
            return (
                now is not None
                and kind_of_part(now[1].part) == kind
                and opinion(data, recorder.settings.profile).expected == "open"
            )

        data = shrink(what.data, same, seconds=recorder.settings.shrink_seconds)
        replays = 0
        for _ in range(REPLAYS):
            first.renew()
            second.renew()
            replays += same(data)
        now, seen = opinion(data, recorder.settings.profile), differences(*pair.answers(data, slots)) or found
    recorder.take(
        Finding(
            step=pair.step,
            verdict="deviation:content",
            signature=f"{signature_of(now.subject, vector, pair.names)} [{kind}]",
            rules=now.rules or tuple(rule_book().choices[choice].rule for choice in now.choices),
            codes=now.codes,
            expected=AGREEMENT,
            got={
                first.name: f"accept, but {words_of(seen[0].text, second.name)}",
                second.name: f"accept, but {words_of(seen[1].text, first.name)}",
            },
            versions={first.name: first.version, second.name: second.version},
            files={ENTRY: data},
            expectation={
                "outcome": "open",
                "agree": True,
                "codes": list(now.codes),
                "choices": list(now.choices),
            },
            where=(now.faults[0].start, now.faults[0].end) if now.faults else None,
            engine=recorder.settings.engine,
            seed=recorder.settings.seed,
            execs=recorder.execs,
            size_found=len(what.data),
            replays=replays,
        )
    )
