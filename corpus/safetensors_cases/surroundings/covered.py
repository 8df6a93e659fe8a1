"""Cases in the area ``surroundings``.

There is one case for each row of the covering sets, and one for each fault that a file can have twice. A
reader that stops at the first fault and repairs it, or that counts faults, may miss the second.
"""

from __future__ import annotations

from collections.abc import Callable

from safetensors_corpus.author.case import ACCEPT, IMPORTANCE, CaseFunction, Reject, register
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.steps import KINDS

from .model import Model, Row, Topic
from .sets import rows, topics
from .tensor_faults import FAULTS
from .tensors import TENSORS

AREA = "surroundings"
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


def case_of(model: Model, name: str, row: Row) -> CaseFunction:
    about = model.topics[name].about
    phrase = ", ".join(
        prop.levels[row[key]] for key, prop in model.properties.items() if prop.levels[row[key]]
    )
    title = f"{about[0].upper()}{about[1:]} ({phrase or 'no other unusual property'})."
    return _case(f"{name}-{model.slug(row)}", title, model.topics[name], row, _once, "covering")


def _case(
    name: str,
    title: str,
    topic: Topic,
    row: Row,
    body: Callable[[FileBuilder, Topic, Row], None],
    source: str,
) -> CaseFunction:
    rules, codes = topic.rules_of(row), topic.codes_of(row)
    return CaseFunction(
        id=f"{AREA}/{name}",
        title=title,
        rules=rules,
        options={"": Reject(codes) if codes else ACCEPT},
        body=body,
        arguments=(topic, row),
        importance=IMPORTANCE.get(rules[0], "medium") if codes else "medium",
        steps=KINDS["read"].steps,
        source={"kind": source},
    )


def _once(f: FileBuilder, topic: Topic, row: Row) -> None:
    topic.make(row, f)


def _twice(f: FileBuilder, topic: Topic, row: Row) -> None:
    topic.make({**row, "names": "plain", "metadata": "bare"}, f)
    topic.make({**row, "names": "utf8", "metadata": "bare"}, f)


_ROWS = rows()
for _topic, _model in topics().items():
    for _row in _ROWS[_topic]:
        register(case_of(_model, _topic, _row))
for _name, _fault in FAULTS.items():
    if not _name.startswith(ONCE):
        _usual = {key: levels[0] for key, levels in TENSORS.levels(_name).items()}
        _title = f"Two tensors have the same fault: {_fault.about}."
        register(_case(f"twice-{_name}", _title, _fault, _usual, _twice, "hand"))
