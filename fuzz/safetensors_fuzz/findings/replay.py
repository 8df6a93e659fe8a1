"""Replay of findings, used by ``stc fuzz replay`` and by the tests in the folders of findings."""

from __future__ import annotations

import re
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from safetensors_conformance.case_verdict import StepVerdict
from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve, resolve_named
from safetensors_conformance.worker.worker import Limits, StartError, make_worker
from safetensors_corpus.judging.verdicts import kind_of, worst
from safetensors_reference import rule_book
from safetensors_reports.audit.findings import got_text
from safetensors_reports.text import plural

from ..finding import AGREEMENT, ANY_ANSWER, ENTRY, REPLAYS, Finding
from ..loop.cross_check import content_disagreements, disagreement_text
from ..loop.subjects import run_case
from ..plans.question import fuzzed_case

State = Literal["as expected", "still wrong", "cannot be run"]


class ReplayError(Exception):
    """The implementation cannot run. The message gives the reason."""


@dataclass(frozen=True)
class Answer:
    """The current behaviour of one implementation for a finding."""

    selector: str
    version: str = ""
    verdicts: tuple[StepVerdict, ...] = ()
    problem: str = ""

    @property
    def state(self) -> State:
        if self.problem:
            return "cannot be run"
        right = all(kind_of(v.verdict) in ("pass", "choice") for v in self.verdicts)
        return "as expected" if right else "still wrong"

    @property
    def got(self) -> str:
        if self.problem:
            return self.problem
        verdict = worst(v.verdict for v in self.verdicts)
        chosen = [v for v in self.verdicts if v.verdict == verdict]
        often = "" if len(chosen) == len(self.verdicts) else f" ({len(chosen)} of {len(self.verdicts)} times)"
        result = chosen[0].result
        row = {"outcome": result.outcome, "verdict": verdict, "message": result.message}
        text = got_text({**row, "detail": chosen[0].detail, "content": result.content})
        # Remove the path of the temporary folder from the message, because it varies.
        return re.sub(r"\S*/stc-fuzz-[^/\s]+/", "", text) + often


def run_finding(target: Target, finding: Finding, limits: Limits, profile: str | None) -> StepVerdict:
    """Run the case once in a fresh process and judge the answer. Raises StartError, ValueError or OSError.

    If the format leaves the answer open, accepting and rejecting are both right.
    """
    left_open = finding.expectation.get("outcome") == "open"
    if left_open:
        finding = replace(finding, expectation={"outcome": "reject", "codes": list(finding.codes)})
    with tempfile.TemporaryDirectory(prefix="stc-fuzz-") as folder:
        case = fuzzed_case(finding, Path(folder))
        worker = make_worker(target, limits, profile)
        try:
            judged = run_case(worker, worker.start(), case, finding.step, profile)
        finally:
            worker.close()
    orderly = left_open and judged.result.outcome in ("accept", "reject")
    return replace(judged, verdict="pass", detail="the format leaves it open") if orderly else judged


def replay(
    finding: Finding,
    selectors: Iterable[str] = (),
    *,
    times: int = REPLAYS,
    limits: Limits | None = None,
    profile: str | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> list[Answer]:
    """Run the case of a finding again, and return one answer for each selector, in order.

    If no selectors are given, or only one for a split, the selectors in the finding run too. They run only if
    they are known implementations, so that a finding cannot choose a program to run. Each attempt runs in a
    fresh process. ``say`` is called with each selector before the first one runs.
    """
    given = list(dict.fromkeys(selectors))
    named = list(finding.got) if not given or (finding.split and len(given) < 2) else []
    targets: dict[str, Target | Answer] = {selector: _resolved(resolve, selector) for selector in given}
    targets |= {selector: _resolved(resolve_named, selector) for selector in named if selector not in targets}
    for selector, target in targets.items():
        if isinstance(target, Target):
            say(selector)
    answers = [
        _replay(finding, target, times, limits or Limits(), profile) if isinstance(target, Target) else target
        for target in targets.values()
    ]
    return list(_compare_answers(answers)) if finding.split else answers


def _resolved(how: Callable[[str], Target], selector: str) -> Target | Answer:
    try:
        return how(selector)
    except SelectorError as err:
        return Answer(selector, problem=str(err))


def _compare_answers(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Yield the answers to a split. An answer is wrong if another answer has different content."""
    usable = [answer for answer in answers if not answer.problem]
    if len(usable) < 2:
        problem = "there is no other answer to compare with; give another implementation"
        yield from (answer if answer.problem else replace(answer, problem=problem) for answer in answers)
        return
    rounds = [
        content_disagreements({a.selector: judged.result for a, judged in zip(usable, row, strict=True)})
        for row in zip(*(a.verdicts for a in usable), strict=True)
    ]
    for answer in answers:
        judged = [
            replace(one, verdict="deviation:content", detail=disagreement_text(found[1], found[0]))
            if found
            else one
            for one, found in zip(answer.verdicts, (r.get(answer.selector) for r in rounds), strict=False)
        ]
        yield replace(answer, verdicts=tuple(judged))


def _replay(finding: Finding, target: Target, times: int, limits: Limits, profile: str | None) -> Answer:
    selector = target.selector
    try:
        target.prepare()
        worker = make_worker(target, limits)
        try:
            version = worker.start().version
        finally:
            worker.close()
        judged = tuple(run_finding(target, finding, limits, profile) for _ in range(times))
    except (InstallError, StartError, ValueError, OSError) as err:
        return Answer(selector, problem=str(err))
    for one in judged:
        if one.verdict in ("harness-error", "unsupported"):
            return Answer(selector, version, judged, f"{one.verdict}: {one.detail or one.result.message}")
    return Answer(selector, version, judged)


def exit_status(answers: Sequence[Answer]) -> int:
    states = {answer.state for answer in answers}
    return 1 if "still wrong" in states else 2 if "cannot be run" in states or not states else 0


def failure(
    selector: str,
    *,
    step: str,
    files: Mapping[str, bytes],
    expectation: Mapping[str, Any],
    rules: Sequence[str] = (),
    entry: str = ENTRY,
    action: Mapping[str, Any] | None = None,
    profile: str | None = None,
    against: str | None = None,
) -> str | None:
    """Run an implementation once in a fresh process, and describe what is wrong with its answer.

    Args:
        selector: implementation, in the same form as for ``--impl``.
        step: open, read, slice, write or index.
        files: content of each file by its path in the input's folder.
        expectation: in the format of the corpus manifest.
        rules: rules that apply; the returned text names the first one.
        entry: path of the file to open.
        action: action of the step, in the format of the manifest.
        profile: profile of the reference.
        against: second implementation, if the two are expected to agree.

    Returns:
        A description, or None if the answer is right.

    Raises:
        ReplayError: an implementation cannot run.
        unittest.SkipTest: an implementation does not support the step.
    """
    finding = Finding(
        step, "", "", tuple(rules), (), _expected(expectation), {}, {}, files, entry, action, expectation
    )
    answers = replay(finding, [selector, *([against] if against else [])], times=1, profile=profile)
    for answer in answers:
        if answer.problem and answer.verdicts and answer.verdicts[0].verdict == "unsupported":
            raise unittest.SkipTest(f"{answer.selector}: {answer.problem}")
        if answer.problem:
            raise ReplayError(f"{answer.selector}: {answer.problem}")
    if all(answer.state == "as expected" for answer in answers):
        return None
    book = rule_book().rules
    lines = [f"rule      {r} ({book[r].level}): {book[r].statement}" for r in rules[:1] if r in book]
    lines += [f"expected  {finding.expected}"]
    lines += [f"got       {answer.got}, from {answer.selector} {answer.version}" for answer in answers]
    return "\n".join(lines)


def _expected(expectation: Mapping[str, Any]) -> str:
    if "choice" in expectation:
        return f"one of the options of choice {expectation['choice']}: {', '.join(expectation['options'])}"
    if expectation.get("outcome") == "open":
        return AGREEMENT if expectation.get("agree") else ANY_ANSWER
    if expectation.get("outcome") == "reject":
        return f"reject ({', '.join(expectation.get('codes', ()))})"
    tensors = (expectation.get("content") or {}).get("tensors", ())
    return f"accept, {plural(len(tensors), 'tensor')}"
