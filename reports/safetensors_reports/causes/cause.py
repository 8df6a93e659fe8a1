"""Find the causes of the failures of a run, worst first, with commands that reproduce them.

Valid inputs that fail are grouped by the features that they share. A feature (a dtype, an empty tensor, an
order, ...) explains why inputs are rejected or misread if the program rejects or misreads nearly all inputs
that have the feature.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.verdicts import badness, fails, kind_of
from safetensors_corpus.judging.written_folder import MEANINGS
from safetensors_reference import rule_book

from ..labels import CAUSE_WORDS
from ..record.device_checks import CHECKS
from ..record.run import Row, RunRecord, reproducer
from ..severity import (
    ADVICE_BY_CAUSE,
    ADVICE_BY_CODE,
    ADVICE_BY_OUTCOME,
    ADVICE_BY_PROPERTY,
    of_end,
    of_rule,
    outcome_class,
)
from ..text import COPIED, feature_name, listed, visible
from .failures import (
    CONFUSING,
    INPUT,
    NOT_EXAMINED,
    OF_TEXT,
    ORDER,
    Failure,
    Group,
    Key,
    differing_reports,
    dtypes,
    failures,
    features,
    group_by_mistake,
    mask_letters,
    message_class_of,
    mistake_key,
    realm,
)

TELLING_SHARE = 0.8
"""A feature explains the rejections if at least this share of the inputs that have it are rejected."""
MIN_INPUTS = 10
"""In a filtered run, every feature looks like an explanation."""


def group_failures(rows: Sequence[Row], cases: Mapping[str, Case]) -> list[Group]:
    groups = group_by_mistake(rows, cases)
    refused, misread = ([g for g in groups if g.key[0] == aspect] for aspect in ("reject", "content"))
    out = [group for group in groups if group.key[0] not in ("reject", "content")]
    if refused or misread:
        answers = Answers(rows, cases)
        out += [*group_refusals(refused, answers), *group_misreadings(misread, answers)]
    for group in out:
        if group.key[0] in ("end", "harness", "reject") and not group.said:
            group.said = words_of(group.failures, cases)
    return out


def words_of(members: Iterable[Failure], cases: Mapping[str, Case]) -> str:
    words = Counter(message_class_of(f.message, cases.get(f.case)) for f in members)
    return min(words, key=lambda w: (-words[w], w))


MANY_CODES, MANY_AREAS = 5, 3
"""A message is unspecific if at least this many faults, in at least this many areas of rules, produce it."""


class Answers:
    """How a run answered valid inputs, and the messages of its rejections of invalid inputs."""

    def __init__(self, rows: Iterable[Row], cases: Mapping[str, Case]) -> None:
        self.cases = cases
        self._good: dict[str, set[str]] = defaultdict(set)
        self._bad: dict[str, set[str]] = defaultdict(set)
        self._refused: set[tuple[str, Case]] = set()
        for row in rows:
            case = cases.get(row["case"])
            if case is None or case.expect is None or kind_of(row["verdict"]) == "unsupported":
                continue
            if case.expect.outcome == "reject":
                if row["outcome"] == "reject":
                    self._refused.add((str(row.get("message") or ""), case))
            else:
                good = row["outcome"] == "accept" and not failures(row)
                (self._good if good else self._bad)[realm(row["step"])].add(case.id)
        for where, bad in self._bad.items():
            self._good[where] -= bad

    @cached_property
    def _codes(self) -> dict[str, set[str]]:
        codes: dict[str, set[str]] = {}
        for message, case in self._refused:
            codes.setdefault(mask_letters(message_class_of(message, case)), set()).update(case.codes[:1])
        return codes

    def general(self, words: str) -> bool:
        codes = self._codes.get(words, set())
        many = len(codes) >= MANY_CODES and len({code[:3] for code in codes}) >= MANY_AREAS
        return many or not words.strip(" #:.")

    def lacking(
        self, where: str, members: list[Failure]
    ) -> tuple[tuple[str, ...], list[Failure], list[Failure]]:
        """Return the dtypes of which nearly all inputs fail, and the failures with and without them."""
        concerned = {f.case for f in members}
        mine = Counter(name for case in concerned for name in dtypes(self.cases.get(case)))
        others = self._good[where] | (self._bad[where] - concerned)
        left = Counter(name for case in others for name in dtypes(self.cases[case]))
        lacks: set[str] = set()
        if len(self._good[where]) >= MIN_INPUTS:
            lacks = {name for name, n in mine.items() if n >= TELLING_SHARE * (n + left[name])}
        with_them = {case for case in concerned if lacks & dtypes(self.cases.get(case))}
        return tuple(sorted(lacks)), *_take(members, with_them)

    def nearly_all(self, where: str, concerned: set[str]) -> bool:
        asked = self._good[where] | self._bad[where]
        mine = len(asked & concerned)
        return mine >= MIN_INPUTS and mine >= TELLING_SHARE * len(asked)

    def telling_features(self, concerned: Iterable[Failure]) -> tuple[dict[str, set[str]], int]:
        """Return feature -> cases that it explains, most cases first, and the number of examined cases."""
        mine = {f.case: features(self.cases.get(f.case)) for f in concerned if realm(f.step) == "file"}
        known = {case: has for case, has in mine.items() if has is not None}
        read = [features(self.cases[case]) for case in self._good["file"]] if known else []
        fine = [has for has in read if has is not None]
        out: dict[str, set[str]] = {}
        for name in CONFUSING if len(fine) >= MIN_INPUTS else ():
            with_it = {case for case, has in known.items() if name in has}
            others = sum(name in has for has in fine)
            if with_it and len(with_it) >= TELLING_SHARE * (len(with_it) + others):
                out[name] = with_it
        return dict(sorted(out.items(), key=lambda item: -len(item[1]))), len(known)


def _take(left: list[Failure], chosen: set[str]) -> tuple[list[Failure], list[Failure]]:
    return [f for f in left if f.case in chosen], [f for f in left if f.case not in chosen]


def group_refusals(groups: Sequence[Group], answers: Answers) -> Iterator[Group]:
    """Group rejections of valid inputs by cause: dtypes first, then features, then messages."""
    pools: dict[tuple[str, str], list[Failure]] = {}
    for group in groups:
        _, where, words, _ = group.key
        pools.setdefault((where, words), []).extend(group.failures)
    for where, words in list(pools):
        # If slicing and reading fail with the same message, it is the same mistake.
        if where in ("slice", "index") and ("file", words) in pools and not answers.general(words):
            pools["file", words] += pools.pop((where, words))
    for (where, words), members in pools.items():
        lacks, mine, pools[where, words] = answers.lacking(where, members)
        if mine:
            yield Group(("reject", where, words, "dtypes"), mine, lacks)
    yield from _tripped("reject", pools, answers)
    for (where, words), members in pools.items():
        if members:
            yield from _by_reason(("reject", where, words), members, answers, answers.general(words))


def _tripped(aspect: str, pools: dict[tuple[str, str], list[Failure]], answers: Answers) -> Iterator[Group]:
    files = [pool for pool in pools if pool[0] == "file"]
    why, _ = answers.telling_features(f for pool in files for f in pools[pool])
    for name in [name for name in why if name in OF_TEXT]:
        mine: list[Failure] = []
        for pool in files:
            taken, pools[pool] = _take(pools[pool], why[name])
            mine += taken
        if mine:
            yield Group((aspect, "file", "", name), mine, feature=name)


def _by_reason(
    key: tuple[str, str, str], members: list[Failure], answers: Answers, general: bool
) -> Iterator[Group]:
    if answers.nearly_all(key[1], {f.case for f in members}):
        yield Group((*key, ""), members, every=True)
        return
    why, looked = answers.telling_features(members)
    whole = next((name for name, cases in why.items() if len(cases) == looked), "")
    if whole or not general:
        yield Group((*key, whole), members, feature=whole)
        return
    message = words_of(members, answers.cases) if key[0] == "reject" else ""
    left = members
    for name, cases in why.items():
        mine, left = _take(left, cases)
        if mine:
            yield Group((*key, name), mine, feature=name, said=message)
    by_rule: dict[str, list[Failure]] = {}
    for f in left:
        by_rule.setdefault(f.rule, []).append(f)
    for rule, mine in by_rule.items():
        yield Group((*key, rule), mine, said=message)


def group_misreadings(groups: Sequence[Group], answers: Answers) -> Iterator[Group]:
    pools: dict[tuple[str, str], list[Failure]] = {}
    for group in groups:
        _, where, part, *_ = group.key
        if where == "file" and (part == "metadata" or len(group.key) > 4):
            pools.setdefault((where, part), []).extend(group.failures)
        else:
            yield group
    yield from _tripped("content", pools, answers)
    for (where, part), members in pools.items():
        lacks, mine, left = answers.lacking(where, members)
        if mine:
            yield Group(("content", where, part), mine, lacks)
        if left:
            yield from _by_reason(("content", where, part), left, answers, part != "metadata")


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
        case "reject" if group.dtypes:
            return f"{'does not write' if parts[0] == 'write' else 'rejects'} the {_dtypes(group)}"
        case "reject":
            inputs = ": nearly all" if group.every else f" with {group.feature}" if group.feature else ""
            return CAUSE_WORDS["rejects"][parts[0]] + (inputs or f": {title}")
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
            count = Counter(code for name in group.cases if name in cases for code in cases[name].codes[:1])
            codes = [f"{code} {n:,}" for code, n in sorted(count.items(), key=lambda x: (-x[1], x[0]))]
            text = listed(codes, MAX_NAMED) or "codes unknown"
            return f"opens invalid files and fails only when reading them: {text}"
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
    name, *codes = parts
    if name != "valid":
        others = {
            INPUT: "changes, removes or replaces the file that it reads",
            ORDER: "gives an answer that depends on the files read before (order-dependent)",
        }
        return others.get(name) or f"fails a check after saving: {MEANINGS.get(name, name)}"
    if codes:
        text = rule_book().codes.get(codes[0], codes[0])
        return f"writes files that violate a rule: {text.partition(' (')[0]}"
    folder = title.startswith("IDX")
    return f"{'leaves a folder that violates' if folder else 'does not write a valid file:'} {title}"


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
        expected=len(group.cases) - len(new),
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
    apart = (
        pair
        for pair in combinations(answers, 2)
        if pair[0]["case"] != pair[1]["case"] and set(pair[0]["options"]).isdisjoint(pair[1]["options"])
    )
    shown = next(apart, answers[:1])
    taken = [f"{'|'.join(row['options'])} in {row['case']}" for row in shown]
    example, beside = [*(str(row["case"]) for row in shown), "", ""][:2]
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
        example=example,
        beside=beside,
        advice=ADVICE_BY_OUTCOME["contradiction"],
    )


def command(header: Row, cause: Cause) -> str:
    info = header["implementation"]
    cases = [case for case in (cause.example, cause.beside) if case]
    device = header.get("device") if set(cause.steps) == {"device"} else None
    again = reproducer(str(info.get("selector") or info["name"]), cases, header.get("profile"), device)
    return visible(again, COPIED)


def cause_text(cause: Cause) -> str:
    rule = f" ({cause.rule})" if cause.rule and cause.rule not in cause.what else ""
    return cause.what + rule


def failing(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    return [cause for cause in found if fails(cause.verdict, strict=strict) and not cause.is_expected]
