"""Mutation of the strict reader: what is changed, what is left alone, and that the committed result holds."""

from __future__ import annotations

import gc
import os
import re
import signal
import textwrap
import time
from collections.abc import Callable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from proof.mutation import __main__ as program
from proof.mutation import result as results
from proof.mutation.__main__ import mutants as command
from proof.mutation.engine import Limits, Outcome, run_all
from proof.mutation.faults import faulty
from proof.mutation.mutants import Mutant, mutants_of
from proof.mutation.reader import Probe, objection, probes_of, reader_loader, reader_mutants, warm
from proof.mutation.result import Reason, problems, result_of
from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.manifest import Expectation
from safetensors_reference import explain


@pytest.fixture(autouse=True)
def kept_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests have loaded stays out of the search for garbage before every run of mutants."""
    monkeypatch.setattr(gc, "unfreeze", lambda: None)


def found(source: str) -> list[Mutant]:
    return mutants_of({"m": textwrap.dedent(source)})


def afters(body: str, operator: str) -> list[str]:
    """What one operator makes of the body of a function."""
    source = "def f(a, b):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return [m.after for m in found(source) if m.name.split(":")[2] == operator]


CHANGES = {
    "compare": [("<", "<="), (">=", ">"), ("==", "!="), ("not in", "in"), ("is", "is not")],
    "boolean": [("and", "or")],
    "arithmetic": [("+", "-"), ("<<", ">>"), ("%", "//")],
}


@pytest.mark.parametrize(
    ("body", "operator", "expected"),
    [
        ("return a < 1 < b", "compare", ["return a <= 1 < b", "return a < 1 <= b"]),
        ("return a or b", "operand", ["return b", "return a"]),
        ("return not a", "negation", ["return a"]),
        *((f"{word} a: b()", "condition", [f"{word} True:", f"{word} False:"]) for word in ("if", "while")),
        ("while True: b()", "condition", []),
        ("return 1 if a else 2", "condition", ["return 1 if True else 2", "return 1 if False else 2"]),
        ("b(x for x in a if x)", "condition", ["b((x for x in a if True))", "b((x for x in a if False))"]),
        *(
            (f"return a {before} b", operator, [f"return a {after} b"])
            for operator, changes in CHANGES.items()
            for before, after in changes
        ),
        ("return a + 'text'", "arithmetic", []),
        ("a += b", "arithmetic", ["a -= b"]),
        ("return a[3]", "integer", ["return a[4]", "return a[2]"]),
        ("return a[b:]", "slice", ["return a[b + 1:]", "return a[b - 1:]", "return a[b:-1]"]),
        ("return a[:2]", "slice", ["return a[1:2]"]),
        *((f"return a == {text}'x'", "text", [f"return a == {text}'x~'"]) for text in ("", "b")),
        ("return a.read('little')", "text", ["return a.read('big')"]),
        ("b(a in b'xy')", "member", ["b(a in b'xy\\x0c')", "b(a in b'y')", "b(a in b'x')"]),
        ("return a.lstrip(b' ')", "member", ["return a.lstrip(b' \\x0c')"]),
        ("return a in {1, b}", "element", ["return a in {b}", "return a in {1}"]),
        ("return a in (1, b)", "element", ["return a in (b,)", "return a in (1,)"]),
        ("return (1, b)", "element", []),
        ("return {'x': 1, 'y': 2}", "element", ["return {'y': 2}", "return {'x': 1}"]),
        ("return True", "flip", ["return False"]),
        ("a()\nb()", "delete", ["pass", "pass"]),
        *(
            (gone, "delete", ["pass"])
            for gone in ("raise a", "for x in a:\n    continue", "return", "x = a\nx = b", "a.x = b")
        ),
        ("x = a", "delete", []),
    ],
)
def test_each_operator_makes_the_faults_it_is_for(body: str, operator: str, expected: list[str]) -> None:
    assert afters(body, operator) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[ab]*", {"[^ab]*", "[b]*", "[a]*", "[ab]+", "[ab]?"}),
        ("[0-9]", {"[^0-9]", "[1-9]", "[0-8]"}),
        ("[^a]", {"[a]"}),
        ("x{4}", {"x{3}", "x{5}", ""}),
        ("a|bc", {"|bc", "a|c", "a|b", "bc", "a"}),
        ("(?:a|b)c", {"(?:|b)c", "(?:a|)c", "(?:a|b)", "(?:b)c", "(?:a)c"}),
        ("%(n)sx", {"%(n)s"}),
    ],
)
def test_faults_of_patterns(pattern: str, expected: set[str]) -> None:
    assert set(faulty(pattern)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("X = re.compile(b'a', re.DOTALL)", ["X = re.compile(b'', re.DOTALL)", "X = re.compile(b'a')"]),
        # A value becomes none only where the type allows it.
        ("def f(a) -> int | None:\n    return a", ["return None"]),
        ("def f(a) -> int:\n    return a", []),
        # A variable that decides as well is not silent.
        ("def f(at):\n  n = at + b\n  Fault(at, 'R', f'{n}', n, 9)\n  return n", ["n = at - b", "pass"]),
    ],
)
def test_faults_of_whole_sources(source: str, expected: list[str]) -> None:
    assert [m.after for m in found(source)] == expected


SILENT = '''
"""Module docstring with 1 and True."""
from __future__ import annotations
from typing import TYPE_CHECKING, Literal
__all__ = ["f", "g"]
if TYPE_CHECKING:
    import os
Kind = Literal["a", "b"]

@dataclass(slots=True)
class Box:
    """Docstring."""
    __slots__ = ("a", "b")
    size: "int"

def message(code, text, start):
    Fault(code, "R-1", text, start + 8, 9)

def f(code, at: "x < 1"):
    """Docstring."""
    assert at > 0
    tail = "one" if at == 1 else "more"
    words = f"{at + 1} bytes {tail}"
    message(code, words, at - 1)
'''


def test_what_no_case_can_see_is_left_alone() -> None:
    assert [(m.name, m.before) for m in found(SILENT)] == [
        ("m:message:delete:1", "Fault(code, 'R-1', text, start + 8, 9)"),
        ("m:f:delete:1", "message(code, words, at - 1)"),
    ]


def test_a_mutant_is_one_change_and_leaves_the_others_alone() -> None:
    made = found("def f(a):\n    return a < 2")
    values = []
    for mutant in made:
        space: dict[str, Any] = {}
        exec(mutant.compiled(), space)
        values.append([space["f"](n) for n in (1, 2, 3)])
    assert [m.after for m in made] == ["return a <= 2", "return a < 3", "return a < 1"]
    assert values == [[True, True, False], [True, True, False], [False, False, False]]


def test_skipped_functions_have_no_mutants() -> None:
    source = {"m": "X = 1\ndef f(a): return a < 1\nclass C:\n    def g(self): return 1"}
    assert {m.name.split(":")[1] for m in mutants_of(source, {"m": ("f",)})} == {"X", "C.g"}
    assert {m.name.split(":")[1] for m in mutants_of(source, {"m": ("*",)})} == {"X"}


# The engine, with readers that are no readers


NUMBERS = [Probe(f"n{number}", b"", "text", ()) for number in range(5)]
QUICK = Limits(probe=0.3, whole=2.0)


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


MUTANTS: dict[str, tuple[Callable[[], object] | None, Outcome]] = {
    "right": (lambda: None, Outcome("survived")),
    "other verdict": (lambda: "verdict", Outcome("killed", "n3", "verdict")),
    "raises": (lambda: int("a mutant"), Outcome("killed", "n3", "crash")),
    "never ends": (lambda: spin(9), Outcome("killed", "n3", "runaway")),
    "fills memory": (lambda: [bytearray(16 << 20) for _ in count()], Outcome("killed", "n3", "runaway")),
    "dies": (lambda: os.kill(os.getpid(), signal.SIGKILL), Outcome("killed", "n3", "runaway")),
    "cannot be loaded": (None, Outcome("stillborn")),
}


def loader(bad: Callable[[], Any] | None) -> Callable[[], Callable[[Probe], str | None]]:
    def load() -> Callable[[Probe], str | None]:
        if bad is None:
            raise SyntaxError
        return lambda probe: bad() if probe.id == "n3" else None

    return load


def test_every_way_to_go_wrong_is_noticed_with_its_probe() -> None:
    work = [(name, loader(bad), NUMBERS) for name, (bad, _) in MUTANTS.items()]
    work.append(("dies while loaded", lambda: os._exit(1), NUMBERS))
    outcomes = dict(run_all(work, QUICK, jobs=3))
    assert outcomes.pop("dies while loaded") == Outcome("stillborn")
    assert outcomes == {name: outcome for name, (_, outcome) in MUTANTS.items()}


def test_many_slow_probes_are_a_hang_in_all() -> None:
    work = [("slow", lambda: lambda _: spin(0.2), NUMBERS)]
    ((_, outcome),) = run_all(work, Limits(probe=5, whole=0.5), jobs=1)
    assert (outcome.status, outcome.how) == ("killed", "runaway")


# What a case demands


@pytest.fixture(scope="module")
def shipped() -> Manifest:
    """The corpus as it is committed."""
    return load_manifest()


def answer(codes: tuple[str, ...] = (), **header: Any) -> Any:
    return SimpleNamespace(
        header=SimpleNamespace(**header) if header else None, faults=[SimpleNamespace(code=c) for c in codes]
    )


REFUSE = Expectation("reject", None, ("OFF_HOLE", "OFF_TRAILING"))


def test_a_refusal_needs_the_first_code_when_hardened() -> None:
    for profile, code, said in (
        ("hardened", "OFF_HOLE", None),
        ("hardened", "OFF_TRAILING", "codes"),
        ("official", "OFF_TRAILING", None),
        ("official", "OFF_OVERLAP", "codes"),
    ):
        assert objection(answer((code,)), Probe("x/y", b"", profile, (REFUSE,))) == said, (profile, code)


def test_verdict_and_content_are_held_against_the_case(shipped: Manifest) -> None:
    probe = probes_of([shipped.by_id["framing/one-tensor"]])[0]
    assert objection(explain(probe.data), probe) is None
    assert objection(answer(("OFF_HOLE",)), probe) == "verdict"
    assert objection(explain(probe.data), Probe(probe.id, b"", "text", (REFUSE,))) == "verdict"
    changed = answer(data_start=8, tensors={}, metadata={"other": "map"})
    assert objection(changed, probe) == "content"


def test_any_option_will_do_where_the_profile_leaves_the_choice_open(shipped: Manifest) -> None:
    open_choice = [c for c in shipped.reading if c.choice == "number-range"][:1]
    demands = {p.profile: len(p.demands) for p in probes_of(open_choice)}
    assert demands == {"hardened": 1, "official": 1, "text": 2}


# Reasons and the committed result


def test_reasons_are_held_to_the_outcomes_both_ways() -> None:
    outcomes = {"m:f:compare:1": "survived", "m:f:compare:2": "killed", "m:f:compare:3": "stillborn"}
    reason = Reason("equivalent", "why")
    assert problems(outcomes, {"m:f:compare:1": reason}) == []
    assert problems(outcomes, {}) == ["survives without a reason: m:f:compare:1"]
    assert problems(outcomes, dict.fromkeys(["m:f:compare:1", "m:f:compare:2", "m:f:gone:1"], reason)) == [
        "has a reason but no longer exists: m:f:gone:1",
        "has a reason to survive but is killed: m:f:compare:2",
    ]
    assert problems({}, {"other:f:compare:1": reason}, ["m"]) == []


def test_only_wanted_cases_count_against_the_score() -> None:
    made = found("def f(a):\n    return a < 2 and a > 1")
    outcomes = {m.name: Outcome("killed", "x/y", "verdict") for m in made}
    survivors = [m.name for m in made[:2]]
    outcomes.update((name, Outcome("survived")) for name in survivors)
    result = result_of(made, outcomes, {survivors[0]: Reason("equivalent", "why")})
    assert result["equivalent"] == 1
    assert result["reasons"]["wanted"] == 1
    assert result["score"] == round((len(made) - 2) / (len(made) - 1), 4)


def committed_outcomes(result: Mapping[str, Any]) -> dict[str, str]:
    """Return name -> status of a result as it is stored."""
    return {
        **dict.fromkeys(result.get("killers", ()), "killed"),
        **dict.fromkeys((s["name"] for s in result.get("survivors", ())), "survived"),
        **dict.fromkeys(result.get("stillborn", ()), "stillborn"),
    }


@pytest.fixture(scope="module")
def current() -> dict[str, Mutant]:
    return {m.name: m for m in reader_mutants()}


def test_the_committed_result_is_that_of_this_source(current: dict[str, Mutant], shipped: Manifest) -> None:
    """The score is that of nearly all faults that a case could show."""
    committed, reasons = results.load_result(), results.load_reasons()
    statuses = committed_outcomes(committed)
    assert set(statuses) == set(current)
    assert problems(statuses, reasons) == []
    for row in committed["survivors"]:
        mutant = current[row["name"]]
        assert (row["before"], row["after"]) == (mutant.before, mutant.after)
        assert Reason(row["class"], row["reason"]) == reasons[row["name"]]
    assert set(committed["killers"].values()) <= set(shipped.by_id)
    assert committed["killed"] + len(committed["survivors"]) == committed["mutants"] > 1000
    assert committed["score"] >= 0.98


@pytest.mark.parametrize(
    ("mutants", "tried"),
    [(12, 150), pytest.param(40, 900, marks=pytest.mark.nightly)],
    ids=["day", "night"],
)
def test_a_sample_of_mutants_still_ends_as_committed(
    current: dict[str, Mutant], shipped: Manifest, mutants: int, tried: int
) -> None:
    warm()
    statuses = committed_outcomes(results.load_result())
    killers = results.load_result()["killers"]
    names = sorted(statuses)
    sample = names[:: len(names) // mutants]
    needed = {killers[n] for n in sample if n in killers} | {c.id for c in shipped.reading[:tried]}
    probes = probes_of(c for c in shipped.reading if c.id in needed)
    # Of a mutant that is noticed only the case that did it is tried; survivors face a part of the corpus.
    work = [
        (
            n,
            reader_loader(current[n]),
            [p for p in probes if p.id == killers[n]] if n in killers else probes[:tried],
        )
        for n in sample
    ]
    assert {n: o.status for n, o in run_all(work, Limits())} == {n: statuses[n] for n in sample}


# The command


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, current: dict[str, Mutant]) -> list[Mutant]:
    """Three mutants instead of all: two that are noticed, one that is not."""
    chosen = [m for name, m in current.items() if name.startswith("header.explain:check_layout:compare:")][:2]
    chosen.append(current["header.explain:_reversed:flip:1"])
    outcomes = {m.name: Outcome("killed", "layout/a", "verdict") for m in chosen[:2]}
    outcomes[chosen[2].name] = Outcome("survived")
    monkeypatch.setattr(program, "reader_mutants", lambda _modules: chosen)
    monkeypatch.setattr(
        program, "_measure", lambda picked, _known, _jobs: {m.name: outcomes[m.name] for m in picked}
    )
    monkeypatch.setattr(results, "load_reasons", lambda: {chosen[2].name: Reason("message", "a drawing")})
    return chosen


def test_the_command_writes_and_checks_the_result(
    small: list[Mutant], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    path = tmp_path / "mutants.json"
    monkeypatch.setattr(results, "result_path", lambda: path)
    runner = CliRunner()
    stale = runner.invoke(command, ["--check"])
    assert stale.exit_code == 1
    assert "not current" in stale.stdout
    written = runner.invoke(command, ["--write"])
    assert written.exit_code == 0
    assert "3 mutants: 2 killed, 1 survived (1 message)" in written.stdout
    assert "100.00%" in written.stdout
    assert path.read_text().endswith("}\n")
    assert runner.invoke(command, ["--check"]).exit_code == 0


def test_the_command_shows_one_mutant_and_fails_for_a_survivor_without_a_reason(
    small: list[Mutant], monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = CliRunner().invoke(command, ["--name", small[0].name])
    assert noticed.exit_code == 0
    assert re.search(r"^- .*\n\+ .*\nkilled by layout/a \(verdict\)", noticed.stdout, re.MULTILINE)
    survivor = CliRunner().invoke(command, ["--name", small[2].name])
    assert "survived: message: a drawing" in survivor.stdout
    monkeypatch.setattr(results, "load_reasons", dict)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert f"survives without a reason: {small[2].name}" in result.stdout


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "arguments",
    [["--name", "no:such:mutant:1"], ["--check", "--module", "header.explain"], ["--module", "nothing"]],
)
def test_the_command_refuses_what_makes_no_sense(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2
