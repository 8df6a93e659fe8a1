"""Comparison of two implementations that both accept a file that readers may reject.

Both implementations also read the twin: the most similar valid file, which differs only in the disputed part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from itertools import permutations
from math import prod
from typing import Any

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.features.tree import (
    Arr,
    File,
    Obj,
    Value,
    decode_string,
    integers,
    numbers,
    parse,
    text,
)
from safetensors_corpus.features.vocabulary import FIELDS, RESERVED
from safetensors_corpus.judging.content import Difference, first_disagreement
from safetensors_reference import explain
from safetensors_reference.rules.book import rule_book
from safetensors_reference.rules.dtypes import DTYPE_BITS
from safetensors_reports.differences.signatures import signature_of

from ..finding import AGREEMENT, Cause, unknown
from .question import (
    DIFFERENT_CONTENT,
    HIGH_RANK,
    Account,
    Examiner,
    FileQuestion,
    Keys,
    Mistake,
    Question,
    kind_of_part,
)

BESIDE_ZERO = 7
"""Smallest replacement for large dimensions of an empty tensor. Distinct dimensions remain distinct."""
_NAMES = frozenset(map(decode_string, FIELDS))
_HALF = re.compile(r"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\[^u])|\\u[dD][89a-fA-F]..")
"""Matches surrogate pairs and short escapes, which stay as they are, and lone surrogates."""
_LETTER = r"\u0061"


def differences(one: StepResult, other: StepResult) -> tuple[Difference, Difference] | None:
    """Return the difference between two accepting answers for each implementation, or None if they agree."""
    of_one = first_disagreement(other.content or {}, one.content or {})
    of_other = first_disagreement(one.content or {}, other.content or {})
    return None if of_one is None or of_other is None else (of_one, of_other)


def content_disagreements(answers: dict[str, StepResult]) -> dict[str, tuple[str, str]]:
    """Map each implementation to the first other one with different content, and to the difference."""
    out: dict[str, tuple[str, str]] = {}
    for name, other in permutations(answers, 2):
        found = differences(answers[name], answers[other])
        if found is not None:
            out.setdefault(name, (other, found[0].text))
    return out


def disagreement_text(difference: str, other: str) -> str:
    return f"{difference} (as {other} reads it)"


class PairQuestion(FileQuestion):
    """A file that two subjects may reject. If both accept it, they must return the same content."""

    @classmethod
    def of(cls, file: FileQuestion) -> PairQuestion:
        return cls(file.data, file.required, file.faults, file.choices, file.header, file.profile)

    def about(self, data: bytes) -> PairQuestion:
        return PairQuestion.of(super().about(data))

    def examine(self, examiner: Examiner) -> Mistake | None:
        if self.required != "open":
            return None
        mistake = self.compare(*self._answers(self.data, examiner))
        return None if mistake is None or self._recurs_on_twin(mistake, examiner) else mistake

    def _answers(self, data: bytes, examiner: Examiner) -> tuple[StepResult, StepResult]:
        path = examiner.path(data)
        one, other = (subject.answer(data, path, examiner.step) for subject in examiner.subjects)
        return one, other

    @cached_property
    def twin(self) -> FileQuestion | None:
        data = valid_twin(self.data)
        twin = None if data is None else super().about(data)
        return twin if twin is not None and twin.required == "accept" else None

    def _recurs_on_twin(self, mistake: Mistake, examiner: Examiner) -> bool | None:
        """Return whether the answers to the valid twin differ in the same way.

        Returns None if they cannot be compared.
        """
        if self.twin is None:
            return None
        one, other = self._answers(self.twin.data, examiner)
        if one.outcome != "accept" or other.outcome != "accept":
            return None
        again = self.compare(one, other)
        return again is not None and again.kind == mistake.kind

    def blame_on_valid_twin(
        self, mistake: Mistake, examiner: Examiner
    ) -> list[tuple[Examiner, FileQuestion, Mistake]] | None:
        """Return the mistakes on the valid twin, or None if the answers to it do not differ in this way."""
        twin = self.twin
        if twin is None or not self._recurs_on_twin(mistake, examiner):
            return None
        out = []
        for subject, answer in zip(examiner.subjects, self._answers(twin.data, examiner), strict=True):
            wrong = twin.mistake_in(answer, subject.lacks)
            if wrong is not None:
                out.append((Examiner([subject], examiner.step, examiner.profile), twin, wrong))
        return out

    def compare(self, one: StepResult, other: StepResult) -> Mistake | None:
        both = differences(one, other)
        if both is None:
            return None
        return Mistake("deviation:content", "", kind_of_part(both[1].part), "content", differences=both)

    @property
    def expected(self) -> str:
        return AGREEMENT

    @property
    def expectation(self) -> Mapping[str, Any]:
        codes, choices = list(self.codes), list(self.choices)
        return {"outcome": "open", "agree": True, "codes": codes, "choices": choices}

    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:  # noqa: ARG002
        return again.kind == mistake.kind

    def keys(self, examiner: Examiner, mistake: Mistake) -> Keys:
        names = {letter: subject.plain for letter, subject in zip("ab", examiner.subjects, strict=True)}
        signature = f"{signature_of(self.subject, DIFFERENT_CONTENT, names)} [{mistake.kind}]"
        return Keys(signature, f"{'+'.join(self.choices)}: {signature}")

    def explain(self, examiner: Examiner, mistake: Mistake) -> Account:
        cause = unknown("there is no similar valid file that both accept and that could be compared")
        if self._recurs_on_twin(mistake, examiner) is False:
            rules = self.rules or tuple(rule_book().choices[choice].rule for choice in self.choices)
            cause = Cause(rules, "the two readers do not differ in this way on the most similar valid file")
        (one, other), (first, second) = mistake.differences, (s.name for s in examiner.subjects)
        got = {
            first: f"accept, but {disagreement_text(one.text, second)}",
            second: f"accept, but {disagreement_text(other.text, first)}",
        }
        return Account(cause, mistake.verdict, got)


def valid_twin(data: bytes) -> bytes | None:
    """Return the most similar valid file, or None if there is no such file."""
    file = parse(data)
    root = file.root
    if type(root) is not Obj:
        return None
    length = len(file.header())
    root.head = root.head.strip()
    try:
        for member in root.members:
            member[0] = _without_lone_surrogates(member[0])
            value = member[1]
            if decode_string(member[0]) == decode_string(RESERVED):
                member[1] = _metadata(value)
            elif type(value) is Obj:
                value.members[:] = [field for field in value.members if decode_string(field[0]) in _NAMES]
                _entry(file, {decode_string(field[0]): field for field in value.members})
    except ValueError:  # the name is not a JSON string
        return None
    file.padding = b" " * max(length - len(text(root)), 0)
    made = file.render()
    return made if explain(made, "hardened").valid else None


def _metadata(value: Value) -> Value:
    """Rename metadata keys that look like fields of an entry. ``null`` becomes an empty map (MET-02)."""
    if type(value) is not Obj:
        return Obj([]) if text(value).strip() == b"null" else value
    for pair in value.members:
        pair[:] = map(_without_lone_surrogates, pair)
        key = decode_string(pair[0])
        if key in _NAMES:
            pair[0] = text(pair[0]).replace(json.dumps(key).encode(), json.dumps(f"{key[:-1]}_").encode())
    return value


def _without_lone_surrogates(value: Value) -> Value:
    if type(value) is not bytes or b"\\u" not in value:
        return value
    return _HALF.sub(lambda match: match[1] or _LETTER, value.decode()).encode()


def _entry(file: File, fields: dict[str, list[Value]]) -> None:
    """Write a shape that every reader must support, and valid BOOL bytes (DAT-05)."""
    if fields.keys() != _NAMES:
        return
    shape, offsets = (
        integers(Arr([item.strip() if type(item) is bytes else item for item in value.items]))
        if type(value) is Arr
        else None
        for value in (fields["shape"][1], fields["data_offsets"][1])
    )
    if shape is None or offsets is None or len(offsets) != 2 or type(fields["dtype"][1]) is not bytes:
        return
    begin, end = offsets
    dtype = decode_string(fields["dtype"][1])
    fit = _shape(shape, (end - begin) * 8, DTYPE_BITS.get(dtype, 8))
    if fit != shape:
        fields["shape"][1] = numbers(*fit)
    if dtype == "BOOL":
        file.data = file.data[:begin] + bytes(byte & 1 for byte in file.data[begin:end]) + file.data[end:]


def _shape(shape: list[int], size: int, width: int) -> list[int]:
    """Return a shape with few dimensions (SHP-10). In an empty tensor, they are small (SHP-06, SHP-08)."""
    if 0 in shape and size > 0:
        return [size // width]
    surplus = max(len(shape) - HIGH_RANK, 0)
    few = [prod(shape[: surplus + 1]), *shape[surplus + 1 :]] if surplus else shape
    large = sorted({dim for dim in few if dim >= BESIDE_ZERO}) if 0 in few else []
    return [BESIDE_ZERO + large.index(dim) if dim in large else dim for dim in few]
