"""Which rule a wrong answer is charged with: the features of the file decide, whatever the reader says."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.engines.campaign import Campaign
from safetensors_fuzz.finding import Finding, load, write
from safetensors_fuzz.loop.attribution import MAX_RUNS, cause_of_refusal
from safetensors_fuzz.loop.expectation import opinion
from safetensors_fuzz.loop.recorder import Mistake, Settings
from safetensors_fuzz.loop.subjects import CallSubject, Slots
from safetensors_reference import explain

from ..feature_fakes import FAKES, Refuses, seen, valid_files
from ..samples import finding, two_tensors


def refusing(refuses: Refuses) -> Callable[[bytes], bool]:
    """A reader that refuses files that are so, and accepts all others that are valid."""

    def accepts(data: bytes) -> bool:
        assert explain(data).valid
        return not refuses(seen(data))

    return accepts


def scalar(name: str = "w", **metadata: str) -> bytes:
    builder = FileBuilder()
    if metadata:
        builder.metadata(metadata)
    builder.tensor(name, "F32", [])
    return builder.render()


SCALAR, METADATA = FAKES["a scalar"][1], FAKES["metadata"][1]


# ---- refusals of valid files ----


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


THREE = ("a name with dots", "metadata", "a scalar")


@pytest.mark.parametrize(
    ("refuses", "rules", "words"),
    [
        (
            lambda s: SCALAR(s) and METADATA(s),
            ("MET-01", "SHP-03"),
            "accepted without metadata, or a scalar",
        ),
        (
            lambda s: SCALAR(s) or METADATA(s),
            ("MET-01", "SHP-03"),
            "not accepted with metadata, or a scalar",
        ),
        (
            lambda s: all(FAKES[name][1](s) for name in THREE),
            ("ENT-09", "MET-01", "SHP-03"),
            "accepted without",
        ),
    ],
    ids=["together", "each", "all three"],
)
def test_features_refused_together_or_each_are_named_in_order(
    refuses: Callable[[Any], bool], rules: tuple[str, ...], words: str
) -> None:
    cause = cause_of_refusal(scalar("a.b", k="v"), refusing(refuses))
    assert cause.rules == rules
    assert cause.words.startswith(words)


def test_two_pairs_of_which_each_is_refused_are_taken_apart() -> None:
    builder = FileBuilder(padding=b"")
    builder.metadata({"k": "v"})
    builder.tensor("a.b", "F32", [])
    builder.tensor("c", "U8", [2])
    pairs = [("metadata", "a scalar"), ("a name with dots", "dtype U8")]

    def refuses(s: Any) -> bool:
        return any(FAKES[a][1](s) and FAKES[b][1](s) for a, b in pairs)

    cause = cause_of_refusal(builder.render(), refusing(refuses))
    assert cause.rules in (("MET-01", "SHP-03"), ("ENT-09", "DTY-05"))


def test_of_two_groups_of_three_features_none_is_named() -> None:
    builder = FileBuilder(padding=b"")
    builder.metadata({"k": "v"})
    builder.tensor("a.b", "F32", [])
    builder.tensor("c", "U8", [2, 3])
    builder.tensor("d", "BOOL", [0])
    groups = [
        ("metadata", "a scalar", "a name with dots"),
        ("dtype U8", "several dimensions", "a tensor of zero bytes"),
    ]

    def refuses(s: Any) -> bool:
        return any(all(FAKES[name][1](s) for name in group) for group in groups)

    cause = cause_of_refusal(builder.render(), refusing(refuses))
    assert cause.rules == ()
    assert cause.words.startswith("not known: ")


@pytest.mark.parametrize("seed", range(3))
def test_what_is_refused_at_random_is_charged_to_nobody(seed: int) -> None:
    rng = random.Random(seed)
    cause = cause_of_refusal(scalar(k="v"), lambda _: rng.random() < 0.5)
    assert cause.rules == ()
    assert cause.words.startswith("not known: ")


@pytest.mark.parametrize("modulus", [2, 3, 5, 7])
def test_who_refuses_by_the_size_of_the_file_refuses_no_feature(modulus: int) -> None:
    data = scalar(k="v")
    cause = cause_of_refusal(data, lambda other: len(other) % modulus != len(data) % modulus)
    assert cause.rules == ()


@pytest.mark.parametrize("most", [0, 1, 5, MAX_RUNS])
def test_questions_are_counted(most: int) -> None:
    for data in valid_files()[::40]:
        asked: list[bytes] = []

        def accepts(other: bytes, asked: list[bytes] = asked) -> bool:
            asked.append(other)
            return not SCALAR(seen(other)) and not METADATA(seen(other))

        cause_of_refusal(data, accepts, questions=most)
        assert len(asked) <= most


# ---- what a profile tolerates ----


def test_what_a_profile_tolerates_is_the_cause_where_it_is_refused() -> None:
    builder = two_tensors()
    builder.before = b" "
    data = builder.render()
    cause = cause_of_refusal(data, lambda other: explain(other, "hardened").valid, "official")
    assert cause.rules == ("HDR-02",)
    builder.padding = b"\t"
    cause = cause_of_refusal(builder.render(), lambda other: explain(other, "hardened").valid, "official")
    assert cause.rules == ()


def test_a_feature_is_the_cause_beside_what_a_profile_tolerates() -> None:
    builder = FileBuilder(before=b" ")
    builder.tensor("w", "F32", [])

    def accepts(data: bytes) -> bool:
        header = explain(data, "official").header
        assert header is not None
        return all(tensor.shape for tensor in header.tensors.values())

    assert cause_of_refusal(builder.render(), accepts, "official").rules == ("SHP-03",)


# ---- other wrong answers ----


def one_fault() -> bytes:
    builder = two_tensors()
    builder.trailer = b"\0"
    return builder.render()


def two_faults() -> bytes:
    builder = two_tensors()
    builder.trailer, builder.before = b"\0", b" "
    return builder.render()


@pytest.mark.parametrize("outcome", ["crash", "hang", "exhausted"])
def test_a_bad_end_is_charged_to_the_fault_where_there_is_just_one(outcome: str) -> None:
    mistake = Mistake("unsafe", "", f"{outcome} SIGSEGV")
    assert opinion(one_fault()).cause_of(mistake, lambda _: False).rules == ("OFF-08",)
    several = opinion(two_faults(), "text").cause_of(mistake, lambda _: False)
    assert several.rules == ()
    assert several.words.startswith("not known: ")


@pytest.mark.parametrize(
    "mistake",
    [
        Mistake("unsafe", "", "hang"),
        Mistake("unsafe", "", "exhausted memory"),
        Mistake("harness-error", "", ""),
    ],
)
def test_what_takes_too_long_to_ask_again_is_not_asked(mistake: Mistake) -> None:
    def accepts(_: bytes) -> bool:
        pytest.fail("asked")

    assert opinion(scalar()).cause_of(mistake, accepts).rules == ()


# ---- findings ----


class Liar(CallSubject):
    """Refuses files without dimensions, and says that it is about something else."""

    def __init__(self, message: str, crashes: bool = False) -> None:
        super().__init__("liar", self.told)
        self.message, self.crashes, self.asked = message, crashes, 0

    def told(self, data: bytes) -> dict[str, Any]:
        self.asked += 1
        explanation = explain(data)
        if not explanation.valid:
            raise Refused("broken")
        if SCALAR(seen(data)):
            raise (RuntimeError if self.crashes else Refused)(self.message)
        content: dict[str, Any] = opinion(data).content()
        return content


def kept(subject: CallSubject, data: bytes) -> list[Finding]:
    out: list[Finding] = []
    campaign = Campaign([subject], Settings(shrink_seconds=0), keep=out.append)
    with Slots(1) as slots:
        campaign.run_one(data, slots)
    return out


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("message", ["bad utf-8", "metadata", "tensor not aligned", "unknown dtype", ""])
def test_the_words_of_a_message_name_no_rule(message: str, crashes: bool) -> None:
    subject = Liar(message, crashes)
    (found,) = kept(subject, scalar(k="v"))
    assert found.rules == ("SHP-03",)
    assert found.cause == "accepted without a scalar"
    assert subject.asked < MAX_RUNS + 20


def test_nothing_is_asked_for_what_does_not_come_again() -> None:
    class Once(Liar):
        def answer(self, data: bytes, path: str, step: str) -> StepResult:
            self.asked += 1
            return StepResult("reject" if self.asked <= 3 else "accept", "no")

    subject = Once("")
    assert kept(subject, scalar()) == []
    assert subject.asked < 10


def test_a_finding_without_a_rule_says_so_on_disk(tmp_path: Path) -> None:
    class Never(Liar):
        def told(self, data: bytes) -> dict[str, Any]:
            raise Refused("no")

    (found,) = kept(Never(""), scalar())
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
    old = finding(scalar(), ("SHP-03",), {"outcome": "accept", "content": opinion(scalar()).content()}, "x")
    folder = write(old, tmp_path)
    text = (folder / "finding.json").read_text()
    assert '"cause": ""' in text
    (folder / "finding.json").write_text(text.replace(' "cause": "",\n', ""))
    assert load(folder) == old
