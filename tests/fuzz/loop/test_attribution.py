"""Which rule a wrong answer is charged with: the features of the file decide, whatever the reader says."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.finding import load, write
from safetensors_fuzz.loop.attribution import MAX_RUNS, cause_of_refusal
from safetensors_fuzz.loop.question import Mistake, opinion
from safetensors_fuzz.loop.subjects import CallSubject
from safetensors_reference import explain

from ..feature_fakes import FAKES, Refuses, seen, valid_files
from ..samples import built, finding, fuzzed_with, refuse, two_tensors


def refusing(refuses: Refuses) -> Callable[[bytes], bool]:
    """A reader that refuses files that are so, and accepts all others that are valid."""

    def accepts(data: bytes) -> bool:
        assert explain(data).valid
        return not refuses(seen(data))

    return accepts


SCALAR = built(("w", "F32", []), metadata={"k": "v"}).render()
is_scalar = FAKES["a scalar"][1]


@pytest.mark.by_day(18)
@pytest.mark.parametrize("words", FAKES)
def test_a_refusal_is_charged_to_the_feature_refused(words: str) -> None:
    rule, refuses = FAKES[words]
    smallest, *others = (data for data in valid_files() if refuses(seen(data)) and len(data) < 2048)
    cause = cause_of_refusal(smallest, refusing(refuses))
    assert cause.rules[0] == rule
    assert cause.words.startswith(f"accepted without {words}")
    if others:
        # Other features of a large file do not matter.
        assert rule in cause_of_refusal(others[len(others) * 3 // 4], refusing(refuses)).rules


FILES = {
    "scalar": built(("a.b", "F32", []), metadata={"k": "v"}),
    "two": built(("a.b", "F32", []), ("c", "U8", [2]), metadata={"k": "v"}, padding=b""),
    "three": built(("a.b", "F32", []), ("c", "U8", [2, 3]), ("d", "BOOL", [0]), metadata={"k": "v"}),
}
METADATA_OR_SCALAR = "metadata, or a scalar"


@pytest.mark.parametrize(
    ("file", "groups", "rules", "words"),
    [
        ("scalar", ["metadata + a scalar"], "MET-01 SHP-03", f"accepted without {METADATA_OR_SCALAR}"),
        ("scalar", ["metadata", "a scalar"], "MET-01 SHP-03", f"not accepted with {METADATA_OR_SCALAR}"),
        ("scalar", ["a name with dots + metadata + a scalar"], "ENT-09 MET-01 SHP-03", "accepted without"),
        ("two", ["metadata + a scalar", "a name with dots + dtype U8"], "MET-01 SHP-03", "accepted without"),
        (
            "three",
            [
                "metadata + a scalar + a name with dots",
                "dtype U8 + several dimensions + a tensor of zero bytes",
            ],
            "",
            "not known: ",
        ),
    ],
)
def test_features_refused_together_or_each_are_named_in_order(
    file: str, groups: list[str], rules: str, words: str
) -> None:
    def refuses(s: Any) -> bool:
        return any(all(FAKES[name][1](s) for name in group.split(" + ")) for group in groups)

    cause = cause_of_refusal(FILES[file].render(), refusing(refuses))
    assert cause.rules == tuple(rules.split())
    assert cause.words.startswith(words)


def at_random(seed: int) -> Callable[[bytes], bool]:
    rng = random.Random(seed)
    return lambda _: rng.random() < 0.5


def by_size(modulus: int) -> Callable[[bytes], bool]:
    return lambda data: len(data) % modulus != len(SCALAR) % modulus


@pytest.mark.parametrize("accepts", [*map(at_random, range(3)), *map(by_size, (2, 3, 5, 7))])
def test_what_is_refused_at_random_or_by_size_is_charged_to_nobody(accepts: Callable[[bytes], bool]) -> None:
    cause = cause_of_refusal(SCALAR, accepts)
    assert cause.rules == ()
    assert cause.words.startswith("not known: ")


@pytest.mark.parametrize("most", [0, 1, 5, MAX_RUNS])
def test_questions_are_counted(most: int) -> None:
    for data in valid_files()[::40]:
        asked: list[bytes] = []

        def accepts(other: bytes, asked: list[bytes] = asked) -> bool:
            asked.append(other)
            return not is_scalar(seen(other)) and seen(other).header.metadata is None

        cause_of_refusal(data, accepts, questions=most)
        assert len(asked) <= most


@pytest.mark.parametrize(
    ("file", "rules"),
    [
        (two_tensors(before=b" "), ("HDR-02",)),
        (two_tensors(before=b" ", padding=b"\t"), ()),
        (built(("w", "F32", []), before=b" "), ("SHP-03",)),
    ],
)
def test_what_a_profile_tolerates_is_the_cause_where_it_is_refused(file: Any, rules: tuple[str, ...]) -> None:
    def accepts(data: bytes) -> bool:
        if rules != ("SHP-03",):
            return explain(data, "hardened").valid
        header = explain(data, "official").header
        assert header is not None
        return all(tensor.shape for tensor in header.tensors.values())

    assert cause_of_refusal(file.render(), accepts, "official").rules == rules


ONE_FAULT, TWO_FAULTS = two_tensors(trailer=b"\0").render(), two_tensors(trailer=b"\0", before=b" ").render()


@pytest.mark.parametrize(
    ("data", "verdict", "kind", "rules"),
    [
        *((ONE_FAULT, "unsafe", kind, ("OFF-08",)) for kind in ("crash SIGSEGV", "hang", "exhausted")),
        *((TWO_FAULTS, "unsafe", kind, ()) for kind in ("crash SIGSEGV", "hang", "exhausted")),
        (SCALAR, "unsafe", "hang", ()),
        (SCALAR, "unsafe", "exhausted memory", ()),
        (SCALAR, "harness-error", "", ()),
    ],
)
def test_what_takes_too_long_is_not_asked_again(
    data: bytes, verdict: str, kind: str, rules: tuple[str, ...]
) -> None:
    """It is charged to the fault where there is just one."""

    def accepts(_: bytes) -> bool:
        pytest.fail("asked")

    cause = opinion(data, "text").cause_of(Mistake(verdict, "", kind, verdict), accepts)
    assert cause.rules == rules
    assert rules or cause.words.startswith("not known: ")


class Liar(CallSubject):
    """Refuses files without dimensions, and says that it is about something else."""

    def __init__(self, message: str, crashes: bool = False) -> None:
        super().__init__("liar", self.told)
        self.message, self.crashes, self.asked = message, crashes, 0

    def told(self, data: bytes) -> dict[str, Any]:
        self.asked += 1
        if not explain(data).valid:
            raise Refused("broken")
        if is_scalar(seen(data)):
            raise (RuntimeError if self.crashes else Refused)(self.message)
        content: dict[str, Any] = opinion(data).content()
        return content


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("message", ["bad utf-8", "metadata", "tensor not aligned", "unknown dtype", ""])
def test_the_words_of_a_message_name_no_rule(message: str, crashes: bool) -> None:
    subject = Liar(message, crashes)
    _, (found,) = fuzzed_with(subject, SCALAR)
    assert found.rules == ("SHP-03",)
    assert found.cause == "accepted without a scalar"
    assert subject.asked < MAX_RUNS + 20


def test_nothing_is_asked_for_what_does_not_come_again() -> None:
    class Once(Liar):
        def answer(self, data: bytes, path: str, step: str) -> StepResult:
            self.asked += 1
            return StepResult("reject" if self.asked <= 3 else "accept", "no")

    subject = Once("")
    assert fuzzed_with(subject, SCALAR)[1] == []
    assert subject.asked < 10


def test_a_finding_without_a_rule_says_so_on_disk(tmp_path: Path) -> None:
    _, (found,) = fuzzed_with(CallSubject("never", refuse), SCALAR)
    assert found.rules == ()
    folder = write(found, tmp_path)
    assert folder.name.startswith("valid-")
    assert load(folder) == found
    readme = (folder / "README.md").read_text()
    assert "- rule: not known: the reader does not accept the plainest form of the file either" in readme
    (test,) = folder.glob("test_*.py")
    assert "# rule not known" in test.read_text()
    compile(test.read_text(), str(test), "exec")


def test_a_finding_of_an_earlier_version_has_no_cause(tmp_path: Path) -> None:
    old = finding(SCALAR, ("SHP-03",), {"outcome": "accept", "content": opinion(SCALAR).content()}, "x")
    document = write(old, tmp_path) / "finding.json"
    text = document.read_text()
    assert '"cause": ""' in text
    document.write_text(text.replace(' "cause": "",\n', ""))
    assert load(document) == old
