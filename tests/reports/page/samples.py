"""Reports to make pages of: one reader, several, many, none wrong, cut off, and one that means harm."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from safetensors_corpus import Case
from safetensors_reports.audit.inputs import BaselineEntry
from safetensors_reports.audit.report import Report
from safetensors_reports.record.run import RunRecord

from ..samples import HOLE, TWICE, Make, corpus, failing, report, run

SPACE = "leading-whitespace"
"""A choice that many cases are about."""
PLANTED = '</script><script>window.__pwned=1</script><img src=x onerror="window.__pwned=1">'
"""Text that runs where a page forgets to escape it."""
HOSTILE = [
    PLANTED,
    '"><svg onload=window.__pwned=1>',
    "javascript:window.__pwned=1//",
    "{{ 7*7 }}{% raw %}<!-- ]]>",
    "\u202egpj.exe\u2066\u200f",
    "\ud800 lone \udfff",
    "\x00\x1b[2J\r\n\u2028",
    "x" * 10_000,
    "-".join(["word"] * 2_500),
]


def _first(kind: str, outcome: str) -> list[Case]:
    """Cases of a kind whose author demands an outcome, the first of every rule."""
    found: dict[str, Case] = {}
    for case in corpus().cases:
        if case.kind == kind and case.expect is not None and case.expect.outcome == outcome:
            found.setdefault(case.rules[0], case)
    return list(found.values())


@cache
def one() -> Report:
    """One reader with a finding of nearly every kind, a baseline, choices, and cases not run."""
    bad, good = _first("read", "reject"), _first("read", "accept")
    space = next(c for c in corpus().cases if c.choice == SPACE)
    rows = [
        failing(bad[0].id, "unsafe", outcome="crash", message="killed by SIGSEGV", peak_bytes=3 << 20),
        failing(bad[1].id, "unsafe", outcome="hang"),
        failing(good[0].id, "wrong-content", detail='tensor "a": other bytes', wall_ms=812.5),
        failing(good[1].id, "wrong-reject", outcome="reject", message="no"),
        failing(bad[2].id, "late-reject", outcome="reject", message="late"),
        failing(bad[3].id, "harness-error", outcome="harness-error", message="adapter"),
        failing(good[2].id, "not-strict", outcome="accept", detail="missed"),
        failing(good[3].id, "unsupported", outcome="unsupported"),
        failing(space.id, "choice:accept", choice=SPACE),
        failing(HOLE, expected_failure=True, message="accept, 2 tensors"),
        failing(TWICE, expected_failure=True),
        *(failing(case.id, "pass", outcome="reject", wall_ms=n, peak_bytes=n << 20)
          for n, case in enumerate(bad[4:30], 1)),
    ]  # fmt: skip
    said = {"choice": SPACE, "verdict": "choice-inconsistent", "detail": "accept here, reject there"}
    record = run(*rows, name="lib", version="1.0", cases=2 * len(rows), choices=[said], baseline="lib.toml")
    listed = {
        HOLE: ("holes", "https://example.org/1", "2027-01-01"),
        TWICE: ("names", "unreported", "2026-12-24"),
        bad[5].id: ("was wrong", "safetensors/safetensors#1"),
    }
    known = [BaselineEntry(case, (case,), {"read": "wrong-accept"}, *why) for case, why in listed.items()]
    return report(record, known={0: known})


def records(number: int, cases: int) -> list[RunRecord]:
    """Return complete runs over the first cases of the corpus, with some thirty findings each."""
    chosen = corpus().cases[:cases]
    rules = sorted({case.rules[0] for case in chosen})
    # Readers break the same rules: in real runs one rule and verdict is shared by six readers of forty-six.
    rules = random.Random(0).sample(rules, min(60, len(rules)))
    out = []
    for i in range(number):
        dice = random.Random(i)
        broken = set(dice.sample(rules, min(15, len(rules))))
        rows = [_answer(case, case.rules[0] in broken, dice) for case in chosen]
        said = [{"choice": SPACE, "verdict": f"choice:{dice.choice(['accept', 'reject'])}", "detail": ""}]
        out.append(run(*rows, name=f"lib{i}", version=f"{i}.0", choices=said))
    return out


def _answer(case: Case, broken: bool, dice: random.Random) -> dict[str, Any]:
    step = case.kind if case.kind in ("slice", "write", "index", "lifecycle") else "read"
    times = {"step": step, "wall_ms": dice.uniform(0.1, 50), "peak_bytes": dice.randrange(1 << 24)}
    if case.expect is None:
        return failing(case.id, f"choice:{next(iter(case.options))}", choice=case.choice, **times)
    outcome = case.expect.outcome
    if not broken or dice.random() < 0.4:
        return failing(case.id, "pass", outcome=outcome, **times)
    if outcome == "reject":
        ends = [("wrong-accept", "accept"), ("late-reject", "reject"), ("unsafe", "crash")]
        verdict, outcome = dice.choices(ends, [12, 2, 1])[0]
        return failing(case.id, verdict, outcome=outcome, message="2 tensors", **times)
    if dice.random() < 0.3:
        return failing(case.id, "wrong-content", detail='tensor "a": other bytes', **times)
    return failing(case.id, "wrong-reject", outcome="reject", message="no such dtype", **times)


@cache
def several() -> Report:
    """Three readers, one of which loads onto a device too."""
    whos = records(3, 150)
    seen = [{"name": "lifetime", "status": "pass", "message": ""}]
    rows = [{**row, "step": "device", "checks": seen} for row in whos[1].results if row["step"] == "read"]
    rows[0]["checks"] = [*seen, {"name": "alignment", "status": "fail", "message": "begins at 1"}]
    whos[1].results += rows
    whos[1].header["device"] = "cuda:0"
    return report(*whos)


@cache
def many() -> Report:
    """Twenty-five readers, columns of letters instead of words."""
    return report(*records(25, 40))


@cache
def public() -> Report:
    """Three readers and this project's own, as published."""
    own = run(failing(HOLE), failing(TWICE, "pass"), name="reference", version="1")
    told = run(failing(TWICE), failing(HOLE), name="safetensors", version="0.8.0")
    return report(*records(2, 150), own, told, public=True)


@cache
def clean() -> Report:
    """A reader with nothing wrong."""
    return report(run(failing(HOLE, "pass", outcome="reject"), name="lib", version="1"))


@cache
def cut() -> Report:
    """A run without an end, a filtered one and one with another corpus."""
    other = run(failing(TWICE, "harness-error", outcome="harness-error"), name="c", version="1")
    other.header["corpus"]["digest"] = "0" * 64
    return report(
        run(failing(HOLE), name="a", version="1", footer=None, problems=["the worker died"]),
        run(failing(HOLE, "pass"), name="b", version="1", cases=9, footer=Make.CUT | {"not_run": 8}),
        other,
    )  # fmt: skip


@cache
def hostile() -> Report:
    """Readers whose names and answers, and files whose names, try to become part of the page."""
    plain = _first("read", "reject")
    rows = []
    for i, text in enumerate(HOSTILE):
        case = plain[i].id
        bad = [
            failing(case, message=text, noise=text),
            failing(plain[i + 20].id, "wrong-content", detail=text, exception=text, documented=text),
            failing(HOLE, "unsafe", outcome="crash", message=text),
            failing(HOLE, step="device", checks=[{"name": "threads", "status": "fail", "message": text}]),
        ]
        who = run(*bad, name=text, version=text[:40], problems=[text], lacks=[text], baseline="b.toml",
                  platform=text, python=text)  # fmt: skip
        who.header["implementation"]["language"] = text
        who.header["device"] = text
        rows.append(who)
    issues = [f"https://example.org/{PLANTED}", *HOSTILE[1:]]
    known = [
        BaselineEntry(HOLE, (HOLE,), {"read": "unsafe"}, text, issue, text[:80])
        for text, issue in zip(HOSTILE, issues, strict=True)
    ]
    return report(*rows, known={i: [entry] for i, entry in enumerate(known)})


ALL = {"one": one, "several": several, "many": many, "public": public, "clean": clean, "cut": cut,
    "hostile": hostile}  # fmt: skip
