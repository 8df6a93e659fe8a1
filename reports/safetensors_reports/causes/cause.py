"""Describe the causes of the failures of a run in words, worst first, with commands that reproduce them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.verdicts import badness, fails, kind_of
from safetensors_corpus.judging.written_folder import MEANINGS
from safetensors_reference import rule_book

from ..case_evidence import reproducer
from ..labels import CAUSE_WORDS
from ..record.device_checks import CHECKS
from ..record.run import Row, RunRecord, feature_name
from ..severity import (
    ADVICE_BY_CAUSE,
    ADVICE_BY_CODE,
    ADVICE_BY_OUTCOME,
    ADVICE_BY_PROPERTY,
    of_end,
    of_rule,
    outcome_class,
)
from ..text import COPIED, listed, plural, visible
from .failures import INPUT, NOT_EXAMINED, ORDER, Failure, Key, differing_reports, failures, mistake_key
from .group import OF_TEXT, Group, group_failures

MAX_NAMED = 6
MAX_TEXT = 200

_PANICS = 'raises an exception that "except Exception" does not catch'


def describe_group(group: Group, cases: Mapping[str, Case]) -> str:
    return visible(_what(group, cases), MAX_TEXT)


def _what(group: Group, cases: Mapping[str, Case]) -> str:
    aspect, *parts = group.key
    title = _titles(group)
    match aspect:
        case "accept":
            return _accepts(parts, title)
        case "reject":
            return _refuses(group, parts[0], title)
        case "content":
            return _reports(group, parts, title, cases)
        case "property":
            return _writes(parts, title)
        case "end":
            lives = outcome_class(_ends(group)) == "panic"
            return f"{_PANICS if lives else CAUSE_WORDS['ends'][parts[1]]}: {_titles(group, 1)}"
        case "cost":
            return f"exceeds a time or memory budget: {title}"
        case "check":
            return f"does not keep a guarantee about loading onto a device: {CHECKS[parts[0]].about}"
        case "late":
            return f"opens invalid files and fails only when reading them: {_codes(group, cases)}"
        case "exception":
            return f"rejects with an undocumented exception: {parts[0] or 'type unknown'}"
    return "the adapter failed"


def _ends(group: Group) -> Row:
    dead = (f.row for f in group.failures if outcome_class(f.row) != "panic")
    return next(dead, group.failures[0].row)


def _titles(group: Group, limit: int = 2) -> str:
    book = rule_book().rules
    titles = [f"{rule} ({book[rule].title})" if rule in book else rule for rule in group.rules]
    return listed(titles, limit) or "no rule"


def _accepts(parts: Sequence[str], title: str) -> str:
    about, where, kind = parts
    text = rule_book().codes.get(about, "").partition(" (")[0]
    if not text:
        return f"accepts what {title} forbids"
    inside = " of the index" if where == "index" and not about.startswith("IDX") else ""
    if where == "write":
        return f"writes invalid input: {text}"
    return f"accepts although {text}{inside}" + (f": {kind}" if kind not in ("", NOT_EXAMINED) else "")


def _refuses(group: Group, where: str, title: str) -> str:
    if group.dtypes:
        return f"{'does not write' if where == 'write' else 'rejects'} the {_dtypes(group)}"
    if group.every:
        return f"{CAUSE_WORDS['rejects'][where]}: nearly all"
    if group.feature:
        return f"{CAUSE_WORDS['rejects'][where]} with {group.feature}"
    return f"{CAUSE_WORDS['rejects'][where]}: {title}"


def _dtypes(group: Group) -> str:
    names = listed([feature_name(name) for name in group.dtypes], MAX_NAMED)
    return f"{'dtypes' if len(group.dtypes) > 1 else 'dtype'} {names}"


def _reports(group: Group, parts: Sequence[str], title: str, cases: Mapping[str, Case]) -> str:
    where, part, *how = parts
    if where != "file":
        return f"{CAUSE_WORDS['misreads'][where]}: {title}"
    if group.feature in OF_TEXT:
        return f"misreads files with {group.feature}"
    if part == "dtype":
        pairs: dict[str, set[str]] = {}
        for f in group.failures:
            for got, want in differing_reports(f, cases.get(f.case), "dtype"):
                pairs.setdefault(str(got)[:30], set()).add(str(want))
        wrong = [f"{got} instead of {', '.join(sorted(want))}" for got, want in sorted(pairs.items())]
        return f"reports dtype {listed(wrong, MAX_NAMED)}" if wrong else f"reports wrong dtypes: {title}"
    if how and how[0] in CAUSE_WORDS["shapes"]:
        return CAUSE_WORDS["shapes"][how[0]]
    text = CAUSE_WORDS["differences"].get(part, CAUSE_WORDS["differences"]["content"])
    if group.every:
        return f"{text}, for nearly all valid files"
    if group.dtypes:
        return f"{text}, for tensors of {_dtypes(group)}"
    return f"{text}, for files with {group.feature}" if group.feature else f"{text}: {title}"


def _writes(parts: Sequence[str], title: str) -> str:
    name, *code = parts
    if name == INPUT:
        return "changes, removes or replaces the file that it reads"
    if name == ORDER:
        return "gives an answer that depends on the files read before (order-dependent)"
    if name == "valid":
        broken = rule_book().codes.get(code[0], code[0]).partition(" (")[0] if code else ""
        if not broken and title.startswith("IDX"):
            return f"leaves a folder that violates {title}"
        if broken:
            return f"writes files that violate a rule: {broken}"
        return f"does not write a valid file: {title}"
    return f"fails a check after saving: {MEANINGS.get(name, name)}"


def _codes(group: Group, cases: Mapping[str, Case]) -> str:
    count = Counter(code for name in group.cases if name in cases for code in cases[name].codes[:1])
    order = sorted(count, key=lambda code: (-count[code], code))
    return listed([f"{code} {count[code]:,}" for code in order], MAX_NAMED) or "codes unknown"


def advice_for(group: Group) -> str:
    aspect, *parts = group.key
    of_charged = of_rule(group.rules[0]) if group.rules else ""
    if group.every:
        return ADVICE_BY_CAUSE["every"]
    match aspect:
        case "accept":
            return ADVICE_BY_CODE.get(parts[0], of_charged)
        case "reject":
            if group.dtypes:
                names = ", ".join(f'"{name}"' for name in group.dtypes)
                return (
                    "If the implementation does not support them, declare that in its descriptor: lacks = "
                    f"[{names}]"
                )
            return ADVICE_BY_OUTCOME["reject"]
        case "content":
            how = parts[2] if len(parts) > 2 else ""
            return ADVICE_BY_CAUSE.get(how) or ADVICE_BY_CAUSE.get(parts[1]) or of_charged
        case "property":
            return ADVICE_BY_CAUSE.get(parts[0]) or ADVICE_BY_PROPERTY.get(parts[0]) or of_charged
        case "end":
            if "SIGBUS" in group.said:  # it is caused by a truncated mapped file
                return ADVICE_BY_CAUSE["mapped"]
            return of_end(outcome_class(_ends(group)), group.rules[0] if group.rules else "")
        case "cost":
            return of_end("resources", group.rules[0] if group.rules else "")
    return ADVICE_BY_CAUSE.get(aspect) or ADVICE_BY_OUTCOME.get(aspect, "")


MAX_CAUSES = 200
MAX_SHOWN = 10
WIDTH = 100
_INDENT = " " * 8


@dataclass(frozen=True)
class Cause:
    """A root cause, described in short, safe strings; a contradiction also has a second case, ``beside``."""

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
    def is_expected(self) -> bool:
        return self.expected == len(self.cases)


def causes(record: RunRecord, manifest: Manifest) -> list[Cause]:
    """Return at most ``MAX_CAUSES`` likely causes, worst first; the order of the rows does not matter."""
    cases = manifest.by_id
    groups = group_failures(record.results, cases) if record.blamed else ()
    result = [_cause(group, cases) for group in groups]
    for row in record.choices:
        if kind_of(row["verdict"]) == "choice-inconsistent":
            answers = [other for other in record.results if other.get("choice") == row["choice"]]
            result.append(_contradiction(row["choice"], answers, cases))
    result.sort(key=lambda c: (badness(c.verdict), -len(c.cases), c.what, c.said, c.example))
    return result[:MAX_CAUSES]


def mistakes_of(row: Row, manifest: Manifest) -> tuple[Key, ...]:
    """Return the keys of the failures in a row; rows that share a key have the same cause."""
    case = manifest.by_id.get(row["case"])
    return tuple(sorted({mistake_key(failure, case) for failure in failures(row)}))


def describe_failures(row: Row, manifest: Manifest) -> str:
    cases = manifest.by_id
    by_key = {mistake_key(f, cases.get(f.case)): f for f in failures(row)}
    return listed([describe_group(Group(key, [f]), cases) for key, f in sorted(by_key.items())], 2)


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
        advice=visible(advice_for(group), COPIED),
        expected=len(listed_cases - new),
    )


def _example(group: Group, cases: Mapping[str, Case]) -> Failure:
    common = Counter(f.rule for f in group.failures)

    def order(f: Failure) -> tuple[object, ...]:
        case = cases.get(f.case)
        size = case.size if case else 0
        codes = len(case.expect.codes) if case and case.expect else 9
        return (
            badness(f.verdict),
            f.step == "device",
            mistake_key(f, case) != group.key,  # prefer failures that were not merged into the group
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
    answers = [r for r in rows if r.get("options")]
    answers.sort(key=lambda r: (cases[r["case"]].size if r["case"] in cases else 0, r["case"], r["step"]))
    first, second = _apart(answers)
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
        advice=ADVICE_BY_OUTCOME["contradiction"],
    )


def _apart(rows: list[Row]) -> tuple[Row | None, Row | None]:
    for i, one in enumerate(rows):
        for other in rows[i + 1 :]:
            if one["case"] != other["case"] and not set(one["options"]) & set(other["options"]):
                return one, other
    return (rows[0] if rows else None), None


def command(header: Row, cause: Cause) -> str:
    info = header["implementation"]
    cases = [case for case in (cause.example, cause.beside) if case]
    device = header.get("device") if set(cause.steps) == {"device"} else None
    again = reproducer(str(info.get("selector") or info["name"]), cases, header.get("profile"), device)
    return visible(again, COPIED)


def headline(cause: Cause) -> str:
    """Return the verdict and the cause in one line: ``wrong-accept: accepts although ... (OFF-08)``."""
    return f"{visible(cause.verdict, 40)}: {cause_text(cause)}"


def cause_text(cause: Cause) -> str:
    rule = f" ({cause.rule})" if cause.rule and cause.rule not in cause.what else ""
    return cause.what + rule


def verdict_numbers(cause: Cause) -> str:
    """Return the case counts by verdict, such as ``41 wrong-reject, 4 not-strict``, if there are several."""
    if len(cause.verdicts) < 2:
        return ""
    return ", ".join(f"{count:,} {visible(verdict, 40)}" for verdict, count in cause.verdicts)


def failing(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    return [cause for cause in found if fails(cause.verdict, strict=strict) and not cause.is_expected]


def described(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    """Return the causes that ``cause_lines`` describes.

    If only one case fails, there are none, because its failure is the cause.
    """
    bad = failing(found, strict=strict)
    return bad if _cases(bad) > 1 else []


def cause_lines(
    found: Sequence[Cause], header: Row, *, strict: bool = False, limit: int | None = MAX_SHOWN
) -> list[str]:
    bad = described(found, strict=strict)
    expected = [cause for cause in found if cause.is_expected]
    if not bad:
        return _expected_lines(expected, limit)
    lines = [f"LIKELY CAUSES of {_cases(bad):,} failing cases: {len(bad):,}, worst first"]
    for cause in bad[:limit]:
        lines += _title_lines(cause)
        rows = [("", verdict_numbers(cause)), ("said: ", cause.said), ("fix: ", cause.advice)]
        for label, text in rows:
            if text:
                lines += _wrapped(label + text, _INDENT, _INDENT + " " * len(label))
        lines.append(f"{_INDENT}{command(header, cause)}")
    others: dict[str, list[Cause]] = {
        "in the baseline": expected,
        "failing only with --fail-on-should": [c for c in found if not c.is_expected and c not in bad],
    }
    lines += _rest_lines(bad, limit)
    return [*lines, *(f"{_INDENT}{title}: {_counted(group)}" for title, group in others.items() if group)]


def _expected_lines(expected: Sequence[Cause], limit: int | None) -> list[str]:
    if not expected:
        return []
    count = plural(_cases(expected), "case")
    lines = [f"CAUSES OF THE EXPECTED FAILURES of {count}: {len(expected):,}, worst first"]
    for cause in expected[:limit]:
        lines += _title_lines(cause)
    return lines + _rest_lines(expected, limit)


def _title_lines(cause: Cause) -> list[str]:
    return _wrapped(headline(cause), f"{len(cause.cases):>6,}  ", _INDENT)


def _rest_lines(all_causes: Sequence[Cause], limit: int | None) -> list[str]:
    rest = [] if limit is None else all_causes[limit:]
    more = plural(len(rest), "more cause", "more causes")
    return [f"     …  {more}, {plural(_cases(rest), 'case')}; --full-failures shows all"] if rest else []


def _cases(found: Sequence[Cause]) -> int:
    return len({case for cause in found for case in cause.cases})


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Wrap text without starting a line with ``::``, which GitHub would run as a workflow command."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [f"{others}… {line.strip()}" if line.strip().startswith("::") else line for line in lines]


def _counted(found: Sequence[Cause]) -> str:
    cases = Counter[str]()
    for cause in found:
        for verdict, count in cause.verdicts:
            cases[kind_of(verdict)] += count
    numbers = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in cases.items())
    return f"{plural(len(found), 'cause')} ({numbers})"
