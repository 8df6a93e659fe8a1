"""Which rule a wrong answer is charged with: that of the feature or fault which brings it about, or none.

What a reader says of a file is never asked: a message can name the wrong thing. Features are taken out of the
file one at a time, and the answers tell.
"""

from __future__ import annotations

from collections.abc import Callable

from safetensors_reference import explain
from safetensors_reference.rules import ProfileName

from .cause import QUESTIONS, Cause, Search, SpentError, unknown
from .features.table import FILES, longer
from .grammar.draft import Draft, written
from .grammar.entries import numbers
from .grammar.model import File, Obj, Value
from .oracle import Opinion, Wrong

RULE_OF_DIFFERENCE = {
    "dtype": "DTY-14",
    "shape": "SHP-11",
    "nbytes": "DAT-06",
    "other bytes": "DAT-06",
    "metadata": "MET-04",
    "missing": "ENT-01",
    "reported": "ENT-01",
    "twice": "ENT-01",
}
"""What differs (``oracle.difference_class``) -> the rule that says how it must be."""


def cause_of(
    what: Opinion, mistake: Wrong, accepts: Callable[[bytes], bool], profile: ProfileName | None
) -> Cause:
    """Return what a wrong answer is charged with.

    Args:
        what: the input.
        mistake: the wrong answer to it.
        accepts: asks again, and says whether a file is accepted.
        profile: whose options are demanded.
    """
    if mistake.verdict == "wrong-accept":
        return Cause(what.rules)
    if mistake.verdict == "wrong-content":
        rule = RULE_OF_DIFFERENCE.get(mistake.kind)
        return Cause((rule,)) if rule else unknown("nothing tells what in the content differs")
    if mistake.verdict == "harness-error":
        return unknown("the adapter failed, not the implementation")
    if what.faults:
        if len(what.rules) == 1:
            return Cause(what.rules)
        return unknown("the file breaks several rules, and which of them led to this was not looked into")
    if mistake.kind.split()[:1] in (["hang"], ["exhausted"]):
        return unknown("the file has no fault, and asking for others like it would use up the limits")
    return cause_of_refusal(what.data, accepts, profile)


def cause_of_refusal(
    data: bytes,
    accepts: Callable[[bytes], bool],
    profile: ProfileName | None = None,
    *,
    questions: int = QUESTIONS,
) -> Cause:
    """Find the features for which a valid file is not accepted; ``Search.cause`` says how.

    Args:
        data: a file without a fault under the profile that is not accepted.
        accepts: asks, and says whether a file is accepted.
        profile: under which the file is valid; None for ``hardened``.
        questions: most calls of ``accepts``.
    """
    search = Search(FILES, accepts, questions=questions, control=longer)
    try:
        if Draft.of(data) is not None:
            return search.cause(data)
        return _tolerated(search, data, profile or "hardened")
    except SpentError:
        return unknown(f"{questions} questions did not tell")


def _tolerated(search: Search[bytes, Draft], data: bytes, profile: ProfileName) -> Cause:
    """Return the cause of a refusal of a file with faults that the profile tolerates. Raises SpentError."""
    rules = tuple(dict.fromkeys(fault.rule for fault in explain(data, profile).tolerated))
    twin = strict_twin(data, profile)
    if twin is None or not rules:
        return unknown("the file cannot be written without what only some readers accept")
    if not search.right(twin):
        return search.cause(twin)
    if not search.stays((twin, True), (data, False)):
        return unknown("the answers vary")
    if len(rules) > 1:
        return unknown("the file has several things that only some readers accept")
    return Cause(rules, "accepted without what the profile tolerates here")


def strict_twin(data: bytes, profile: ProfileName) -> bytes | None:
    """Return a file with the same content and no fault, written plainly; None where that cannot be."""
    header = explain(data, profile).header
    if header is None:
        return None
    rows: list[list[Value]] = []
    if header.metadata is not None:
        pairs: list[list[Value]] = [[written(k), written(v)] for k, v in header.metadata.items()]
        rows.append([written("__metadata__"), Obj(pairs)])
    content = data[header.data_start :]
    for tensor in header.tensors.values():
        fields: list[list[Value]] = [
            [written("dtype"), written(tensor.dtype)],
            [written("shape"), numbers(*tensor.shape)],
            [written("data_offsets"), numbers(tensor.begin, tensor.end)],
        ]
        rows.append([written(tensor.name), Obj(fields)])
    file = File(Obj(rows), content)
    file.padding = b" " * ((header.data_start - 8 - len(file.header())) % 8)
    made = file.render()
    return made if Draft.of(made) is not None else None
