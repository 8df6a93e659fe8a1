"""Cases with one fault twice: two tensors of a file have the same fault.

A reader that stops at the first fault and repairs it, or that counts faults, may miss the second.
"""

from __future__ import annotations

from safetensors_corpus.author.case import CaseFunction, Reject, register
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.steps import KINDS

from .covered import AREA, IMPORTANCE
from .model import Topic
from .tensor_faults import FAULTS
from .tensors import TENSORS

ONCE = (
    "length-",
    "metadata-",
    "begin-minus-zero",
    "offsets-booleans",
    "offsets-from-file",
    "zeros-behind",
    "byte-behind",
    "eight-behind",
    "byte-cut",
    "eight-cut",
    "name-twice",
)
"""Prefixes of the names of faults that a file can have only once."""


def _twice(f: FileBuilder, name: str, topic: Topic) -> None:
    levels = TENSORS.levels(name)
    row = {key: usual[0] for key, usual in levels.items()} | {"names": "plain", "metadata": "bare"}
    topic.make(row, f)
    topic.make(row | {"names": "utf8"}, f)


for _name, _topic in FAULTS.items():
    if not _name.startswith(ONCE):
        _row = {key: usual[0] for key, usual in TENSORS.levels(_name).items()}
        _rules = _topic.rules_of(_row)
        register(
            CaseFunction(
                id=f"{AREA}/twice-{_name}",
                title=f"Two tensors have the same fault: {_topic.about}.",
                rules=_rules,
                options={"": Reject(_topic.codes_of(_row))},
                body=_twice,
                arguments=(_name, _topic),
                importance=IMPORTANCE.get(_rules[0], "medium"),
                steps=KINDS["read"].steps,
                source={"kind": "hand"},
            )
        )
