"""Causes: the failures of a run put together by what really is one mistake, the worst first.

They are told as lines for a terminal, each with the command that shows it again.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import badness, fails, kind_of
from safetensors_reference import rule_book

from ..case_evidence import reproducer
from ..recommendations import OF_OUTCOME
from ..record.run import Row, RunRecord
from ..text import listed, plural, visible
from .failures import Failure, Key, failures, mistake_key
from .group import Group, contradictions, group_failures
from .labels import MAX_TEXT, advice_for, describe_group

if TYPE_CHECKING:
    from safetensors_corpus import Case, Manifest

MAX_CAUSES = 200
"""Most causes told of one run; those beyond are the ones that count least."""
MAX_SHOWN = 10
"""Most causes shown of one run in a terminal."""
WIDTH = 100
_INDENT = " " * 8


@dataclass(frozen=True)
class Cause:
    """One mistake, as far as a run can tell mistakes apart. All texts are safe to show and bounded.

    Attributes:
        verdict: the worst verdict that it brought about, ``deviation:accept`` with its option.
        verdicts: verdict and number of cases, each case by its worst, the worst verdict first.
        basis: on what the worst verdict rests: ``text``, ``official``, ``ours``; None where it is not told.
        rule: id of the rule charged most, empty for none.
        rules: all rules charged, the most charged first.
        what: what the implementation does with which kind of input.
        said: class of its own words, numbers and quoted texts left out; empty where they do not matter.
        cases: ids of all cases, sorted.
        steps: steps that showed it, sorted.
        example: the case to look at first.
        beside: a second case where it takes two to see it, else empty.
        advice: what to do about it, one sentence or empty.
        expected: number of cases that the baseline lists.
    """

    verdict: str
    verdicts: tuple[tuple[str, int], ...]
    basis: str | None
    rule: str
    rules: tuple[str, ...]
    what: str
    said: str
    cases: tuple[str, ...]
    steps: tuple[str, ...]
    example: str
    beside: str = ""
    advice: str = ""
    expected: int = 0

    @property
    def known(self) -> bool:
        """True when the baseline lists all of it."""
        return self.expected == len(self.cases)


def causes(run: RunRecord | Iterable[Row], manifest: Manifest) -> list[Cause]:
    """Return the likely causes of the failures of one run, the worst verdict first, then the most frequent.

    Args:
        run: a run record, or its rows: results, and choices with what their cases say together.
        manifest: the corpus that was used. Cases it does not have are told by their rules alone.

    Returns:
        At most ``MAX_CAUSES`` causes. A case stands under several where several things are wrong about it.
        The same rows give the same causes, in whatever order implementations differ.
    """
    if isinstance(run, RunRecord):
        rows, choices = list(run.results), list(run.choices)
    else:
        given = list(run)
        rows = [row for row in given if "case" in row]
        choices = [row for row in given if "case" not in row and "choice" in row]
    cases = manifest.by_id
    found = [_cause(group, cases) for group in group_failures(rows, cases)]
    found += [_contradiction(name, mine, cases) for name, mine in contradictions(choices, rows)]
    found.sort(key=lambda c: (badness(c.verdict), -len(c.cases), c.what, c.said, c.example))
    return found[:MAX_CAUSES]


def mistakes_of(row: Row, manifest: Manifest) -> tuple[Key, ...]:
    """Return the keys of what is wrong about one row, empty for a row that is all right.

    Rows that share a key have one cause. The other way round it does not hold: what a whole run shows to be
    one mistake may have several keys.
    """
    case = manifest.by_id.get(row["case"])
    return tuple(sorted({mistake_key(failure, case) for failure in failures(row)}))


def describe_failures(row: Row, manifest: Manifest) -> str:
    """Return in one line what is wrong about one row, as causes say it."""
    cases = manifest.by_id
    found = {mistake_key(f, cases.get(f.case)): f for f in failures(row)}
    return listed([describe_group(Group(key, [f]), cases) for key, f in sorted(found.items())], 2)


def _cause(group: Group, cases: Mapping[str, Case]) -> Cause:
    verdicts = group.verdicts()
    verdict = next(iter(verdicts))
    example = _example(group, cases)
    rules = group.rules
    listed_cases = {f.case for f in group.failures if f.row.get("expected_failure")}
    new = {f.case for f in group.failures if not f.row.get("expected_failure")}
    return Cause(
        verdict=verdict,
        verdicts=tuple(verdicts.items()),
        basis=example.basis,
        rule=rules[0] if rules else "",
        rules=tuple(rules),
        what=describe_group(group, cases),
        said=visible(group.said, MAX_TEXT),
        cases=tuple(group.cases),
        steps=tuple(sorted({f.step for f in group.failures})),
        example=example.case,
        advice=visible(advice_for(group), 2 * MAX_TEXT),
        expected=len(listed_cases - new),
    )


def _example(group: Group, cases: Mapping[str, Case]) -> Failure:
    """Return the failure that tells most: the worst verdict, an ordinary step, the smallest input."""
    common: dict[str, int] = {}
    for f in group.failures:
        common[f.rule] = common.get(f.rule, 0) + 1

    def order(f: Failure) -> tuple[object, ...]:
        case = cases.get(f.case)
        size = case.size if case else 0
        codes = len(case.expect.codes) if case and case.expect else 9
        return (
            badness(f.verdict),
            f.step == "device",
            mistake_key(f, case) != group.key,  # one that was put here because it follows from the others
            bool(case and case.heavy),
            -common[f.rule],
            codes,
            size == 0,
            size,
            f.case,
            f.step,
        )

    return min(group.failures, key=order)


def _contradiction(choice: str, rows: list[Row], cases: Mapping[str, Case]) -> Cause:
    about = rule_book().choices.get(choice)
    rule = about.rule if about else ""
    title = f"{choice} ({about.title})" if about else choice
    told = [r for r in rows if r.get("options")]
    told.sort(key=lambda r: (cases[r["case"]].size if r["case"] in cases else 0, r["case"], r["step"]))
    first, second = _apart(told)
    taken = [f"{'|'.join(row['options'])} in {row['case']}" for row in (first, second) if row is not None]
    return Cause(
        verdict="choice-inconsistent",
        verdicts=(("choice-inconsistent", 1),),
        basis=None,
        rule=rule,
        rules=(rule,) if rule else (),
        what=visible(f"contradicts itself on {title}: {listed(taken, 2) or 'see the choice'}", MAX_TEXT),
        said="",
        cases=tuple(sorted({str(r["case"]) for r in rows})),
        steps=tuple(sorted({str(r["step"]) for r in rows})),
        example=str(first["case"]) if first else "",
        beside=str(second["case"]) if second else "",
        advice=OF_OUTCOME["contradiction"],
    )


def _apart(rows: list[Row]) -> tuple[Row | None, Row | None]:
    """Return the first two rows whose options have nothing in common, else the first row alone."""
    for i, one in enumerate(rows):
        for other in rows[i + 1 :]:
            if one["case"] != other["case"] and not set(one["options"]) & set(other["options"]):
                return one, other
    return (rows[0] if rows else None), None


def command(header: Row, cause: Cause) -> str:
    """Return the command line that runs the example of a cause again, escaped.

    Args:
        header: of the run record.
        cause: one of its causes.
    """
    who = header["implementation"]
    cases = [case for case in (cause.example, cause.beside) if case]
    device = header.get("device") if set(cause.steps) == {"device"} else None
    again = reproducer(str(who.get("selector") or who["name"]), cases, header.get("profile"), device)
    return visible(again, 300)


def headline(cause: Cause) -> str:
    """Return verdict and what is wrong in one line: ``wrong-accept: accepts although ... (OFF-08)``."""
    return f"{visible(cause.verdict, 40)}: {cause_text(cause)}"


def cause_text(cause: Cause) -> str:
    rule = f" ({cause.rule})" if cause.rule and cause.rule not in cause.what else ""
    return cause.what + rule


def verdict_numbers(cause: Cause) -> str:
    """Return the number of cases by verdict where there are several: ``41 wrong-reject, 4 not-strict``."""
    if len(cause.verdicts) < 2:
        return ""
    return ", ".join(f"{count:,} {visible(verdict, 40)}" for verdict, count in cause.verdicts)


def failing(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    return [cause for cause in found if fails(cause.verdict, strict=strict) and not cause.known]


def cause_lines(
    found: Sequence[Cause], header: Row, *, strict: bool = False, limit: int | None = MAX_SHOWN
) -> list[str]:
    """Return the causes of a run for a terminal, nothing where at most one case fails.

    Args:
        found: what ``causes`` returned.
        header: of the run record.
        strict: whether missed recommendations fail the run too.
        limit: most causes shown, None for all.

    Returns:
        Lines without line ends, safe to print as UTF-8.
    """
    bad = failing(found, strict=strict)
    cases = _cases(bad)
    if cases < 2:
        return []
    lines = [f"LIKELY CAUSES of {cases:,} failing cases: {len(bad):,}, the worst first"]
    for cause in bad[:limit]:
        lines += _lines(cause, header)
    rest = bad[len(bad) if limit is None else limit :]
    if rest:
        more = plural(len(rest), "more cause", "more causes")
        lines.append(f"     …  {more}, {plural(_cases(rest), 'case')}; --full-failures shows all")
    return [*lines, *_others(found, bad)]


def _cases(found: Sequence[Cause]) -> int:
    return len({case for cause in found for case in cause.cases})


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Return a text as lines none of which could be a workflow command, which stands behind any space."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [f"{others}… {line.strip()}" if line.strip().startswith("::") else line for line in lines]


def _lines(cause: Cause, header: Row) -> list[str]:
    lines = _wrapped(headline(cause), f"{len(cause.cases):>6,}  ", _INDENT)
    rows = [("", verdict_numbers(cause)), ("said: ", cause.said), ("mend: ", cause.advice)]
    for label, text in rows:
        if text:
            lines += _wrapped(label + text, _INDENT, _INDENT + " " * len(label))
    return [*lines, f"{_INDENT}{command(header, cause)}"]


def _others(found: Sequence[Cause], bad: Sequence[Cause]) -> list[str]:
    lines = []
    known = [cause for cause in found if cause.known]
    if known:
        lines.append(f"        known to the baseline: {_counted(known)}")
    quiet = [cause for cause in found if not cause.known and cause not in bad]
    if quiet:
        lines.append(f"        fail only with --fail-on-should: {_counted(quiet)}")
    return lines


def _counted(found: Sequence[Cause]) -> str:
    cases = Counter[str]()
    for cause in found:
        for verdict, count in cause.verdicts:
            cases[kind_of(verdict)] += count
    told = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in cases.items())
    return f"{plural(len(found), 'cause')} ({told})"
