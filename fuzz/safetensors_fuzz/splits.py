"""Two implementations that accept one file, where that is left open, and see different things in it.

Where the format is clear each is held against the strict reader; here there is only the other.
"""

from __future__ import annotations

from safetensors_conformance.canonical import content_of
from safetensors_conformance.compare import first_difference
from safetensors_conformance.outcomes import StepResult
from safetensors_reference.rules import rule_book
from safetensors_reports.disagreements import signature_of

from .finding import ENTRY, Finding
from .oracle import Opinion, difference_class, opinion
from .recorder import REPLAYS, Recorder
from .shrink import shrink
from .subjects import Slots, Subject

Side = tuple[Subject, str]
"""Who is asked, and for which step."""


def difference_of(one: StepResult, other: StepResult) -> str | None:
    """Return the first difference between two accepting answers; what one does not tell is not compared."""
    content = content_of(one)
    if content is None or content_of(other) is None:
        return None
    return first_difference({"metadata": other.metadata, **content}, other)


def compare(recorder: Recorder, what: Opinion, first: Side, second: Side, found: str) -> None:
    """Keep it as a finding that two accept an input and report different content, ``found`` in words."""
    with Slots(1) as slots:

        def difference(data: bytes) -> str | None:
            path = slots.put(data)
            one, other = (subject.answer(data, path, step) for subject, step in (first, second))
            return difference_of(one, other)

        kind = difference_class(found)

        def same(data: bytes) -> bool:
            now = difference(data)
            return (
                now is not None
                and difference_class(now) == kind
                and opinion(data, recorder.settings.profile).expected == "open"
            )

        names = {"a": first[0].plain, "b": second[0].plain}
        vector = {"a": "accept:0", "b": "accept:1"}
        rough = f"{'+'.join(what.choices)}: {signature_of(what.subject, vector, names)} [{kind}]"
        if not recorder.fresh(rough):
            return
        data = shrink(what.data, same, seconds=recorder.settings.shrink_seconds)
        replays = 0
        for _ in range(REPLAYS):
            first[0].renew()
            second[0].renew()
            replays += same(data)
        now = opinion(data, recorder.settings.profile)
        signature = f"{signature_of(now.subject, vector, names)} [{kind}]"
        recorder.take(
            Finding(
                step=second[1],
                verdict="wrong-content",
                signature=signature,
                rules=now.rules or tuple(rule_book().choices[choice].rule for choice in now.choices),
                codes=now.codes,
                expected="the same content from all that accept it",
                got={
                    first[0].name: "accept",
                    second[0].name: f"{difference(data) or found} (as the other says)",
                },
                versions={first[0].name: first[0].version, second[0].name: second[0].version},
                files={ENTRY: data},
                expectation={"outcome": "open", "codes": list(now.codes), "choices": list(now.choices)},
                where=(now.faults[0].start, now.faults[0].end) if now.faults else None,
                engine=recorder.settings.engine,
                seed=recorder.settings.seed,
                execs=recorder.execs,
                size_found=len(what.data),
                replays=replays,
            )
        )
