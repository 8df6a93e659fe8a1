"""Likely causes: what stands together, what stays apart, their order, and texts that must do no harm."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import VERDICTS, badness
from safetensors_reference import rule_book
from safetensors_reports.causes.cause import MAX_CAUSES, Cause, causes, command, mistakes_of
from safetensors_reports.causes.failures import MAX_WORDINGS, OF_TEXT, features
from safetensors_reports.causes.lines import cause_lines
from safetensors_reports.comment import markdown, summary_markdown
from safetensors_reports.record.run import Row, RunRecord

from ..samples import HOLE, TWICE, Make, corpus, failing, report, run

HOSTILE = ["\x1b]0;gone\x07 \x9b31m \u202egpj.exe\u2066 \ud800", "::warning::planted\n::error::planted",
    "\n::stop-commands::x\r\n", "<script>alert(1)</script> @everyone | `tick` | a", "x" * 1_000_000,
    "'" * 100_000, "[1, " * 50_000, "/a" * 50_000]  # fmt: skip
OUTCOMES = {"wrong-reject": "reject", "wrong-content": "accept", "unsafe": "crash",
    "harness-error": "harness-error", "deviation:exception": "reject"}  # fmt: skip


def found(*rows: Row, **more: Any) -> list[Cause]:
    return causes(run(*rows, **more), corpus())


def valid(has: Callable[[Case], bool]) -> list[str]:
    """Return the ids of small valid files."""
    return [c.id for c in corpus().reading if c.expect and c.expect.outcome == "accept" and has(c)]


def named(name: str) -> list[str]:
    return valid(lambda c: c.size < 60_000 and name in (features(c) or ()))


def about(rule: str, number: int = 1) -> list[str]:
    """Return the ids of the first valid files of a rule."""
    return valid(lambda c: c.rules[0] == rule)[:number]


def refuses(case: str, words: str, **more: Any) -> Row:
    return failing(case, "wrong-reject", outcome="reject", message=words, detail=f"reject: {words}", **more)


def reads(case: str) -> Row:
    return failing(case, "pass")


def broken(number: int) -> list[Case]:
    """Return one case for each of some fault codes that a file may be refused for."""
    cases: dict[str, Case] = {}
    for case in corpus().reading:
        if case.expect and case.expect.codes:
            cases.setdefault(case.expect.codes[0], case)
    return list(cases.values())[:number]


def test_one_cause_for_a_fault_whatever_rule_and_step_show_it() -> None:
    rows = [failing(HOLE), failing(HOLE, step="open"), failing("layout/hole-for-alignment-8")]
    one, two = found(*rows, failing(TWICE, step="index"), failing("metadata/map-key-twice-same"))
    assert one.cases == ("header/name-twice-dtypes", "metadata/map-key-twice-same")
    assert two.cases == (HOLE, "layout/hole-for-alignment-8")
    assert (two.rule, two.rules, two.steps) == ("OFF-07", ("OFF-07", "OFF-12"), ("open", "read"))
    assert two.what == "accepts although bytes before or between the tensors belong to none of them"
    assert two.advice == "Sort the ranges, and require an unbroken chain that starts at byte 0."
    assert (two.verdict, two.example) == ("wrong-accept", HOLE)
    # Keys of a header and of an index are read by different code.
    rows = [failing(TWICE), failing("index/tensor-twice-in-map-escaped", step="index")]
    fault = "accepts although a key appears twice in one object"
    assert [c.what for c in found(*rows)] == [fault, f"{fault} of the index"]


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("header/ignored-text-nan", "NaN and Infinity"),
        ("header/escape-text-low-surrogate", "lone surrogate escapes"),
        ("header/escape-of-another-kind-letter-a", "escapes that JSON does not allow"),
        ("header/raw-control-in-dtype-nul", "raw control characters in strings"),
        ("header/ignored-text-block-comment", "comments"),
        ("header/entry-text-single-quotes", "single quotes"),
        ("header/entry-text-trailing-comma", "extra commas"),
        ("header/ignored-text-hexadecimal", "number formats that JSON does not allow"),
        ("header/ignored-word-undefined", "words that JSON does not allow"),
        ("header/character-between-tokens-nul", "other characters between tokens"),
        ("header/ignored-number-1e999", "numbers that do not fit into a double"),
        ("shape/number-spelled-half", "fractions and exponents"),
        ("shape/negative-1", "negative numbers"),
        ("shape/beyond-64-bits-2p64", "numbers beyond 64 bits"),
        ("layout/offset-type-strings", "values that are not numbers"),
        ("layout/offset-spelled-minus-zero", "minus zero"),
    ],
)
def test_a_broad_code_is_told_by_the_bytes_at_fault(case: str, kind: str) -> None:
    (one,) = found(failing(case))
    assert one.what.endswith(f": {kind}")


def test_a_mistake_takes_in_what_follows_from_it_and_inputs_that_are_too_large_or_gone() -> None:
    zero, minus = "layout/offset-spelled-minus-zero", "layout/offset-negative"
    (one,) = found(failing(zero), failing(minus))
    assert one.what.endswith(": negative numbers")
    assert (one.cases, one.example) == ((minus, zero), minus)
    # Files that are made when they are needed are not made to be examined.
    large, small = "resource/digits-in-shape-1mb", "shape/beyond-64-bits-beside-zero-front"
    assert corpus().by_id[large].rules[0] == corpus().by_id[small].rules[0]
    (one,) = found(failing(large), failing(small))
    assert one.example == small
    (alone,) = found(failing(large))
    assert not alone.what.endswith("unseen")
    (gone,) = found(Make.result("gone/case", "wrong-accept"), Make.result("gone/other", "wrong-accept"))
    assert gone.what == "accepts what OFF-07 (no holes) forbids"
    assert gone.cases == ("gone/case", "gone/other")


@pytest.mark.parametrize("few", [("c64",), ("c64", "f4"), ()])
def test_dtypes_that_are_refused_as_a_whole_are_one_cause_and_all_named_in_the_advice(
    few: tuple[str, ...],
) -> None:
    every = {name for c in corpus().reading for name in c.features if name.startswith("dtype-")}
    lacks = {f"dtype-{name}" for name in few} or every - {"dtype-f32", "dtype-u8"}
    rows = []
    for case in valid(lambda c: bool(c.features)):
        if mine := sorted(lacks & set(corpus().by_id[case].features)):
            rows.append(refuses(case, f"unsupported dtype: {mine[0][6:].upper() if few else ''}"))
        else:
            rows.append(reads(case))
    (one,) = found(*rows)
    assert set(one.cases) == {row["case"] for row in rows if row["verdict"] != "pass"}
    assert one.advice.endswith(f"lacks = [{', '.join(json.dumps(name) for name in sorted(lacks))}]")
    if few:
        what = "dtypes C64, F4" if len(few) > 1 else "dtype C64"
        assert (one.what, one.said) == (f"rejects the {what}", "unsupported dtype: <type>")
    else:
        assert one.what.endswith(f" and {len(lacks) - 6} more")


def test_a_dtype_is_not_to_blame_if_it_is_read_elsewhere_or_everything_is_refused() -> None:
    c64 = valid(lambda c: c.features == ("dtype-c64",))
    rows = [refuses(c64[0], "no"), *(reads(case) for case in [*c64[1:], *named("metadata")])]
    (one,) = found(*rows)
    assert "the dtype" not in one.what
    assert "lacks" not in one.advice
    (one,) = found(*(refuses(case, "broken build") for case in valid(lambda c: True)[:30]))
    assert "dtype" not in one.what


def among_valid(bad: list[Row]) -> list[Cause]:
    """Return the causes of rows if all other valid files are read."""
    mine = {row["case"] for row in bad}
    return found(*bad, *(reads(case) for case in valid(lambda c: c.id not in mine)))


def test_what_refused_or_misread_files_have_in_common_is_named() -> None:
    empty = named("a tensor of zero bytes")
    (one,) = among_valid([refuses(case, "AssertionError: ") for case in empty])
    assert one.what == "rejects valid files with a tensor of zero bytes"
    assert one.cases == tuple(sorted(empty))
    # What trips a parser is one mistake, whatever it says there.
    escapes = named("escapes in header strings")
    rows = [refuses(case, ("no such key", "expected a comma")[i % 2]) for i, case in enumerate(escapes)]
    assert [c.what for c in among_valid(rows)] == ["rejects valid files with escapes in header strings"]
    lost = ('tensor "n" is missing', 'metadata key "k" is missing')
    rows = [failing(case, "wrong-content", detail=lost[i % 2]) for i, case in enumerate(escapes)]
    assert [c.what for c in among_valid(rows)] == ["misreads files with escapes in header strings"]
    assert {name for case in corpus().reading for name in features(case) or ()} >= OF_TEXT


def test_words_that_are_said_of_everything_stand_for_as_many_mistakes_as_features_tell() -> None:
    empty, text = named("a tensor of zero bytes"), named("no tensors")
    other = next(c for c in named("metadata") if c not in (*empty, *text))
    rows = [refuses(case, "invalid file") for case in [*empty, *text, other]]
    rows += [failing(c.id, "pass", outcome="reject", message="invalid file") for c in broken(12)]
    whats = [c.what for c in among_valid(rows)]
    with_it = "rejects valid files with"
    assert whats[:2] == [f"{with_it} a tensor of zero bytes", f"{with_it} no tensors"]
    assert whats[2].startswith(f"rejects valid files: {corpus().by_id[other].rules[0]} (")


def test_words_that_are_said_of_one_thing_stand_for_one_mistake() -> None:
    one, other = about("DAT-03") + about("DTY-04")
    rows = [refuses(one, "the reader's buffer is full"), refuses(other, "the reader's buffer is full")]
    (both,) = among_valid(rows)
    assert set(both.cases) == {one, other}
    assert len(among_valid([{**rows[0], "message": "another thing entirely"}, rows[1]])) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tensor w: range 0..4 of 8", "tensor b: range 8..12 of 16"),
        ("/tmp/x/y.safetensors: bad", "/home/me/z.safetensors: bad"),
        ("cannot view Float32Array", "cannot view BigInt64Array"),
        ("no type for torch.float8_e4m3fn", "no type for torch.bfloat16"),
        ("at 0x7fffdeadbeef: bad", "at 0x55aa00001111: bad"),
        ("bad 'first'", "bad 'second'"),
        ("cannot parse {}.safetensors", "cannot parse {}.safetensors"),
    ],
)
def test_words_that_differ_in_names_numbers_paths_and_types_are_the_same(one: str, other: str) -> None:
    pairs = zip(about("DAT-06", 2), (one, other), strict=True)
    rows = [refuses(case, text.format(case.partition("/")[2])) for case, text in pairs]
    assert len(found(*rows)) == 1
    assert mistakes_of(rows[0], corpus()) == mistakes_of(rows[1], corpus())


def test_a_missed_recommendation_joins_the_refusal_of_the_same_words() -> None:
    *two, three = (refuses(case, "too odd") for case in about("DAT-06", 3))
    (one,) = found(*two, three | {"verdict": "not-strict"})
    assert (one.verdict, one.verdicts) == ("wrong-reject", (("wrong-reject", 2), ("not-strict", 1)))


def misread(case: str, field: str, value: object) -> Row:
    """Return a result that reports a field of the first tensor of a valid file wrongly."""
    first, *rest = (corpus().by_id[case].demands[0].content or {})["tensors"]
    content = {"tensors": [{**first, field: value}, *rest], "metadata": None}
    return failing(case, "wrong-content", detail=f'tensor "w": {field} {value}, the file…', content=content)


@pytest.mark.parametrize(
    ("cases", "value", "what"),
    [
        (["shape/empty-beside-2p32"], [0, 0], "reports large dimensions wrapped to 32 bits"),
        (["shape/empty-beside-2p31"], [0, -(2**31)], "reports large dimensions wrapped to 32 bits"),
        (["shape/large-behind-zero-2p53-plus-1"], [0, 2**53], "reports large dimensions rounded to a double"),
        (["shape/empty-beside-2p31"], [0, 7], "reports wrong shapes: SHP-08 ("),
        (["dtype/eight-elements-f8-e4m3", "dtype/eight-elements-f8-e8m0"], "U8",
         "reports dtype U8 instead of F8_E4M3, F8_E8M0"),
    ],
)  # fmt: skip
def test_how_a_shape_or_dtype_is_wrong_is_told(cases: list[str], value: object, what: str) -> None:
    (one,) = found(*(misread(case, "dtype" if value == "U8" else "shape", value) for case in cases))
    assert one.what.startswith(what)


def test_other_bytes_are_told_apart_by_rule() -> None:
    cases = about("DAT-01", 2) + about("DAT-06", 2)
    rows = [failing(c, "wrong-content", detail='tensor "w": other bytes than the file holds') for c in cases]
    assert [len(one.cases) for one in among_valid(rows)] == [2, 2]


def ends(case: str, outcome: str, message: str, **more: Any) -> Row:
    return failing(case, "unsafe", outcome=outcome, message=message, detail=f"{outcome}: {message}", **more)


def test_ends_are_told_apart_by_outcome_signal_and_area() -> None:
    layout, header = "layout/data-lacks-1-byte", "header/nesting-1000-arrays"
    rows = [
        ends(layout, "crash", "killed by SIGSEGV"),
        ends(header, "crash", "killed by SIGSEGV"),
        ends(HOLE, "crash", "killed by SIGABRT"),
        ends(TWICE, "hang", "no answer within 10 s; killed"),
        ends("framing/no-bytes", "exhausted", "MemoryError: 12 bytes"),
        ends("framing/length-zero-alone", "exhausted", "used more than 512 MiB of memory; killed"),
    ]
    causes_found = found(*rows)
    assert [len(c.cases) for c in causes_found] == [2, 1, 1, 1, 1]
    assert causes_found[0].what.startswith("runs out of memory: FRM-0")
    assert {c.what.partition(":")[0] for c in causes_found} == {"crashes", "hangs", "runs out of memory"}
    # Words of the implementation itself tell a crash whatever the area.
    rows = [
        ends(case, "crash", f"PanicException: range end index {n} out of range", exception="PanicException")
        for n, case in enumerate((HOLE, "shape/bits-wrap-to-0-u8"))
    ]
    (one,) = found(*rows)
    assert one.said == "PanicException: range end index # out of range"
    # A broken file that is opened is no second mistake where reading it ends worse.
    (one,) = found(failing(HOLE, step="open"), ends(HOLE, "crash", "killed by SIGSEGV"))
    assert one.verdict == "unsafe"
    assert len(found(failing(HOLE, step="open"), failing(HOLE, "late-reject", outcome="reject"))) == 2


def test_costs_late_refusals_and_adapters() -> None:
    cost = next(c.id for c in corpus().cases if c.budget)
    rows = [
        failing(cost, "unsafe", detail="over budget: seconds 3 of 2"),
        failing(HOLE, "late-reject", step="open"),
        failing(TWICE, "late-reject", step="open"),
        *(
            failing(case, "harness-error", outcome="harness-error", message=f"line {n}: KeyError 'a{n}'")
            for n, case in enumerate(("framing/no-bytes", "dtype/eight-elements-i8"))
        ),
    ]
    expensive, adapter, late = found(*rows)
    assert expensive.what.startswith("exceeds a time or memory budget: ")
    assert (adapter.what, len(adapter.cases)) == ("the adapter failed", 2)
    assert late.what == ("opens invalid files and fails only when reading them: HDR_DUP_KEY 1, OFF_HOLE 1")


def test_a_writer_has_a_cause_per_broken_property() -> None:
    valid = {"verdict": "wrong-content", "rule": "WRT-01", "basis": "text", "property": "valid"}
    padded = {"verdict": "not-strict", "rule": "WRT-02", "property": "header-padded", "detail": ""}
    parts = [{**valid, "detail": "the file breaks rules: OFF_HOLE (OFF-07)"}, padded]
    first, second = found(failing("writer/alignment-all", "wrong-content", step="write", failures=parts))
    fault = "bytes before or between the tensors belong to none of them"
    assert first.what == f"writes files that violate a rule: {fault}"
    assert (first.rule, first.basis) == ("WRT-01", "text")
    assert second.what == "fails a check after saving: the header is padded to a multiple of 8 bytes"
    assert (second.verdict, second.rule) == ("not-strict", "WRT-02")
    assert second.advice


def test_a_device_has_a_cause_per_broken_promise_and_shares_those_of_reading() -> None:
    check = [
        {"name": "lifetime", "status": "fail", "message": "bytes differ"},
        {"name": "alignment", "status": "fail", "message": "begins at 1"},
        {"name": "stream", "status": "unknown", "message": ""},
    ]
    told = {"verdict": "deviation:content", "property": "lifetime", "detail": "bytes differ"}
    right = valid(lambda c: True)[0]
    rows = [
        failing(right, "deviation:content", step="device", checks=check, failures=[told]),
        failing(HOLE),
        failing(HOLE, step="device"),
    ]
    hole, lifetime, alignment = found(*rows)
    assert "a tensor keeps its bytes" in lifetime.what
    assert (hole.cases, hole.steps) == ((HOLE,), ("device", "read"))
    assert (alignment.verdict, alignment.rule) == ("not-strict", "OFF-11")


def test_a_contradiction_shows_two_cases_that_contradict() -> None:
    choice = "trailing-whitespace"
    cases = [c.id for c in corpus().cases if c.choice == choice][:3]
    rows = [
        failing(case, f"choice:{option}", choice=choice, options=[option])
        for case, option in zip(cases, ("accept", "accept", "reject"), strict=True)
    ]
    said = {"choice": choice, "verdict": "choice-inconsistent", "detail": "both"}
    record = run(*rows, choices=[said])
    (one,) = causes(record, corpus())
    assert (one.verdict, one.rule) == ("choice-inconsistent", "HDR-03")
    assert {one.example, one.beside} <= set(cases)
    assert cases[2] in (one.example, one.beside)
    assert command(record.header, one).count("--case") == 2


def test_a_deviation_stands_with_the_mistake_that_it_shows() -> None:
    silent = failing("layout/hole-for-alignment-8", "deviation:accept", basis="official", rule="OFF-12")
    (one,) = found(failing(HOLE), silent)
    assert (one.verdict, one.verdicts) == ("wrong-accept", (("wrong-accept", 1), ("deviation:accept", 1)))
    (alone,) = found(silent)
    assert (alone.verdict, alone.basis, alone.rule) == ("deviation:accept", "official", "OFF-12")
    told = failing(HOLE, "deviation:exception", outcome="reject", exception="IndexError")
    assert "IndexError" in found(told)[0].what


CASES = [c.id for c in corpus().reading][:400:5]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(CASES), st.sampled_from([v for v in VERDICTS if v != "choice"]))),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_matter_and_the_worst_come_first(
    answers: list[tuple[str, str]], dice: random.Random
) -> None:
    rows = [
        failing(case, verdict, outcome=OUTCOMES.get(verdict, "accept"), message="no")
        for case, verdict in dict(answers).items()
        if verdict != "choice-inconsistent"
    ]
    first = found(*rows)
    dice.shuffle(rows)
    assert found(*rows) == first
    order = [(badness(c.verdict), -len(c.cases)) for c in first]
    assert order == sorted(order)
    told = {case for c in first for case in c.cases}
    assert told == {r["case"] for r in rows if r["verdict"] not in ("pass", "unsupported")}


def test_words_without_end_do_not_make_causes_without_end() -> None:
    dice = random.Random(0)

    def words() -> str:
        return "".join(dice.choice("bcdfghjklm ") for _ in range(60))

    rows = [refuses(case, words()) for case in valid(lambda c: True)[:600]]
    rows += [ends(c.id, "crash", words(), exception="E") for c in broken(40)]
    many = found(*rows)
    assert len(many) < 120 <= MAX_CAUSES
    assert len({c.said for c in many}) <= len(many)
    few = [refuses(case, words()) for case in valid(lambda c: True)[:MAX_WORDINGS]]
    told = found(*few)
    assert len(told) > MAX_WORDINGS // 2
    table = cause_table([run(*few, name="lib", version="1")], [told])
    shown = sum("stc run" in line for line in table.splitlines())
    assert 0 < shown < len(told)
    assert f"… and {len(told) - shown} more causes" in table


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_readers_do_no_harm(text: str) -> None:
    rows = [
        failing(case, verdict, outcome=outcome, message=text, detail=text,
            exception=text, content={"tensors": [{"name": "w", "dtype": text, "shape": [text]}]})
        for case, (verdict, outcome) in zip(valid(lambda c: True), OUTCOMES.items(), strict=False)
    ]  # fmt: skip
    record = run(*rows, name=text[:50], version="1", profile=text[:20])
    told = causes(record, corpus())
    assert {one.verdict for one in told} == OUTCOMES.keys()
    lines = cause_lines(told, record.header, limit=None)
    for line in lines:
        assert line.isprintable()
        assert not line.strip().startswith("::")
        assert len(line) < 1_000
    for one in told:
        assert max(len(t) for t in (one.what, one.said, one.advice)) < 600
    table = cause_table([record, run(*rows, name="b", version="1")], [told, told])
    html = MarkdownIt("commonmark").enable("table").render(table)
    assert "<script>" not in html
    assert html.count("<td") == 5 * 2 * len(told)
    assert table.encode("utf-8")


def cause_table(records: Sequence[RunRecord], told: Sequence[Sequence[Cause]]) -> str:
    """Return the table of causes in the comment about some runs."""
    return markdown(records, told).partition("**Likely causes, worst first**")[2].partition("**Failing")[0]


def test_lines_for_a_terminal() -> None:
    rows = [failing(HOLE), failing(TWICE), failing("header/name-twice-adjacent")]
    rows += [failing("layout/two-dtypes", "not-strict", outcome="reject", message="odd")]
    record = run(*rows, name="lib", version="1", profile="text")
    fault = rule_book().codes["HDR_DUP_KEY"].partition(" (")[0]
    assert cause_lines(causes(record, corpus()), record.header) == [
        "LIKELY CAUSES of 3 failing cases: 2, worst first",
        f"     2  wrong-accept: accepts although {fault} (HDR-09)",
        "        fix: Reject duplicate keys at every level with a pairs hook or a streaming parser; a map no",
        "             longer contains the duplicates.",
        f"        stc run --impl lib --case {TWICE} --profile text",
        "     1  wrong-accept: accepts although bytes before or between the tensors belong to none of them",
        "        (OFF-07)",
        "        fix: Sort the ranges, and require an unbroken chain that starts at byte 0.",
        f"        stc run --impl lib --case {HOLE} --profile text",
        "        failing only with --fail-on-should: 1 cause (not-strict 1)",
    ]
    strict = cause_lines(causes(record, corpus()), record.header, strict=True)
    assert strict[0] == "LIKELY CAUSES of 4 failing cases: 3, worst first"
    short = cause_lines(causes(record, corpus()), record.header, limit=1)
    assert "     …  1 more cause, 1 case; --full-failures shows all" in short
    assert cause_lines(found(failing(HOLE)), record.header) == []
    # What a baseline lists is counted, and shown only if nothing else fails.
    record = run(failing(HOLE, expected_failure=True), *rows[1:3], name="lib", version="1")
    told = causes(record, corpus())
    lines = cause_lines(told, record.header)
    assert not any(HOLE in line for line in lines)
    assert lines[-1] == "        in the baseline: 1 cause (wrong-accept 1)"
    table = cause_table([record], [told])
    assert (TWICE in table, HOLE in table) == (True, False)
    told = found(*(row | {"expected_failure": True} for row in rows[:3]))
    title = "CAUSES OF THE EXPECTED FAILURES of 3 cases: 2, worst first"
    first = f"     2  wrong-accept: accepts although {fault} (HDR-09)"
    assert cause_lines(told, record.header)[:2] == [title, first]
    rest = "     …  1 more cause, 1 case; --full-failures shows all"
    assert cause_lines(told, record.header, limit=1) == [title, first, rest]


def test_a_reader_that_changes_its_inputs_is_one_cause_and_no_rule_is_charged() -> None:
    def changed(case: str, detail: str) -> Row:
        part = {"verdict": "deviation:content", "rule": "", "basis": "ours", "property": "input"}
        parts = [{**part, "detail": detail}]
        return failing(case, "deviation:content", rule=None, basis="ours", detail=detail, failures=parts)

    (one,) = found(changed(HOLE, "its input was removed"), changed(TWICE, "its input was written to"))
    assert one.what == "changes, removes or replaces the file that it reads"
    assert set(one.cases) == {HOLE, TWICE}
    assert not one.rules
    assert "for reading only" in one.advice


def test_commands_can_be_run_as_they_stand_and_are_never_cut() -> None:
    record = run(failing(HOLE, step="device"), name="py:my reader.py:Adapter", version="1", device="cuda:0")
    (one,) = causes(record, corpus())
    adapter = "stc run --impl 'py:my reader.py:Adapter'"
    assert command(record.header, one) == f"{adapter} --case {HOLE} --device cuda:0"
    record = run(failing(HOLE), failing(TWICE), name=f"cmd:{'x/' * 800}y", version="1")
    found = causes(record, corpus())
    for text in (markdown([record], [found]), "\n".join(cause_lines(found, record.header))):
        assert f"stc run --impl {record.selector} --case {HOLE}" in text
    assert f"{record.selector} --case {HOLE}`" in summary_markdown(report(record))
    fine = run(failing(HOLE, "pass", outcome="reject"), name="lib", version="1")
    assert (causes(fine, corpus()), cause_lines([], fine.header)) == ([], [])
    assert cause_table([fine], [[]]) == ""
