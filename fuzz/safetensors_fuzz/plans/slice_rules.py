"""The expected result of a slice: a rejection, a choice left to the reader, or NumPy's selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from safetensors_corpus.author.case import ACCEPT, Accept, Reject, reject
from safetensors_reference.rules.dtypes import DTYPE_BITS

from .question import PlanError, PlanFault, Ruling, accept_ruling, choice_ruling, reject_ruling

OUT = ("API_SLICE_OUT_OF_RANGE", "API_SLICE_UNSUPPORTED")
NOT_OFFERED = ("API_SLICE_UNSUPPORTED", "API_SLICE_OUT_OF_RANGE")
HUGE = 2**31
"""Smallest bound that does not fit in a signed 32-bit integer."""
HUGE_STEP = 2**63
"""Smallest step that does not fit in a signed 64-bit integer."""
CHOICES = (
    "slice-bool", "slice-new-axis", "slice-list", "slice-negative-step", "slice-huge-bounds", "slice-bounds",
    "slice-negative-beyond", "slice-negative-bounds", "slice-reversed", "slice-empty-at-end",
    "slice-zero-dimension", "slice-step",
)  # fmt: skip
"""Choices in order of precedence. Choices that more profiles reject come first."""

UNEVEN = ("slice-step", "slice-bounds", "slice-negative-beyond", "slice-huge-bounds")
"""Choices that are replaced by ``slice-packed`` for packed elements."""

Part = tuple[list[int], bytes]


@dataclass
class IndexAnalysis:
    """The faults of an index, and the choices that cover it."""

    faults: list[PlanFault] = field(default_factory=list)
    choices: set[str] = field(default_factory=set)


def analyse_index(shape: Sequence[int], items: Sequence[Any]) -> IndexAnalysis:
    """Find the faults and choices of an index, given as Python index items. Raises PlanError."""
    found = IndexAnalysis()
    dots = [at for at, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        found.faults.append(PlanFault(("API-07",), NOT_OFFERED))
    for item in items:
        _check_item(found, item)
    used = [item for item in items if item is not None and item is not Ellipsis]
    if len(used) > len(shape):
        if any(isinstance(item, bool) for item in used):
            raise PlanError("no rule says whether a Boolean consumes a dimension")
        found.faults.append(PlanFault(("API-07",), OUT))
    if found.faults:
        return found
    at = dots[0] if dots else len(items)
    before = [item for item in items[:at] if item is not None]
    after = [item for item in items[at + 1 :] if item is not None]
    covered = shape[len(before) : len(shape) - len(after)]
    if dots and 0 in covered:
        found.choices.add("slice-zero-dimension")
    sizes = [*shape[: len(before)], *shape[len(shape) - len(after) :]]
    for size, item in zip(sizes, [*before, *after], strict=True):
        _along(found, size, item)
    if any(isinstance(item, (bool, list)) for item in items):
        _check_fancy(items, found)
    return found


def _check_item(found: IndexAnalysis, item: Any) -> None:
    if item is None:
        found.choices.add("slice-new-axis")
    elif isinstance(item, (float, str)):
        found.faults.append(PlanFault(("API-07",), NOT_OFFERED))
    elif isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        if any(bound is not None and not isinstance(bound, int) for bound in bounds):
            found.faults.append(PlanFault(("API-07",), NOT_OFFERED))
        elif item.step == 0:
            found.faults.append(PlanFault(("API-07", "API-09"), NOT_OFFERED))


def _along(found: IndexAnalysis, size: int, item: Any) -> None:
    if isinstance(item, bool):
        found.choices.add("slice-bool")
    elif isinstance(item, list):
        found.choices.add("slice-list")
        if not all(-size <= place < size for place in item):
            found.faults.append(PlanFault(("API-07", "API-09"), OUT))
    elif isinstance(item, int):
        if not -size <= item < size:
            found.faults.append(PlanFault(("API-09", "API-05"), OUT))
    else:
        _range(found, size, item)


def _range(found: IndexAnalysis, size: int, item: slice) -> None:
    if size == 0:
        found.choices.add("slice-zero-dimension")
    step = 1 if item.step is None else item.step
    if step < 0:
        found.choices.add("slice-negative-step")
    elif step > 1:
        found.choices.add("slice-step")
    if abs(step) >= HUGE_STEP:
        found.choices.add("slice-huge-bounds")
    given = [bound for bound in (item.start, item.stop) if bound is not None]
    for bound in given:
        if abs(bound) >= HUGE:
            found.choices.add("slice-huge-bounds")
        if bound > size:
            found.choices.add("slice-bounds")
        elif bound < -size:
            found.choices.add("slice-negative-beyond")
        elif bound < 0:
            found.choices.add("slice-negative-bounds")
    if item.start is not None and item.start == size:
        found.choices.add("slice-empty-at-end")
    start, stop, _ = slice(item.start, item.stop).indices(size)
    if step > 0 and start > stop:
        found.choices.add("slice-reversed")


def _check_fancy(items: Sequence[Any], found: IndexAnalysis) -> None:
    """Reject combinations that array libraries interpret differently. Raises PlanError."""
    if any(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise PlanError("lists cannot be combined with integers")
    if "slice-bool" in found.choices and (not isinstance(items[0], bool) or len(found.choices) > 1):
        raise PlanError("a Boolean can be combined only with ranges")


def ruling_on(
    dtype: str, shape: Sequence[int], items: Sequence[Any], data: bytes, broken: Sequence[PlanFault]
) -> tuple[Ruling, dict[str | None, Part]]:
    """Return the ruling and the result for each accepting option. Raises PlanError.

    Without a choice, the only key is None.
    """
    found = analyse_index(shape, items)
    faults = [*broken, *found.faults]
    if faults:
        return reject_ruling(faults), {}
    part = pick(dtype, shape, items, data)
    bits = DTYPE_BITS[dtype]
    rules = ("API-05", "API-08") if bits % 8 else ("API-05",)
    if part is None:
        return reject_ruling([PlanFault(("API-08",), NOT_OFFERED)]), {}
    choice = next((name for name in CHOICES if name in found.choices), None)
    if choice is None:
        special = ("SHP-04",) if 0 in shape else () if shape else ("SHP-03",)
        return accept_ruling(*rules, *special), {None: part}
    if bits % 8 and choice in UNEVEN:
        choice = "slice-packed"
    if choice == "slice-bool":
        return _boolean_ruling(dtype, shape, items, data, part)
    return choice_ruling(choice, reject(*OUT), *rules, beside=found.choices), {None: part}


def _boolean_ruling(
    dtype: str, shape: Sequence[int], items: Sequence[Any], data: bytes, part: Part
) -> tuple[Ruling, dict[str | None, Part]]:
    """Return the ruling for a Boolean, which may be a mask, an integer or an error."""
    plain = [int(item) if isinstance(item, bool) else item for item in items]
    answer = None if analyse_index(shape, plain).faults else pick(dtype, shape, plain, data)
    integer: Accept | Reject = reject(*OUT) if answer is None else ACCEPT
    ruling = choice_ruling("slice-bool", reject(*NOT_OFFERED), instead={"integer": integer})
    return ruling, {"mask": part} if answer is None else {"mask": part, "integer": answer}


def pick(dtype: str, shape: Sequence[int], items: Sequence[Any], data: bytes) -> Part | None:
    """Return what NumPy selects, or None if it begins or ends inside a byte. Raises PlanError."""
    numbers = np.arange(prod(shape)).reshape(shape)
    index = tuple(np.array(item, np.int64) if isinstance(item, list) else item for item in items)
    try:
        part = np.asarray(numbers[index])
    except (IndexError, ValueError, TypeError) as err:
        raise PlanError(f"NumPy rejects the index: {err}") from err
    bits = DTYPE_BITS[dtype]
    emptied = bits % 8 and not part.size and prod(shape) and items
    if emptied and any(prod(shape[dim + 1 :]) * bits % 8 for dim in range(len(shape))):
        raise PlanError("the selection is empty and would begin inside a byte")
    out = bytearray()
    runs: list[tuple[int, int]] = []
    for place in part.reshape(-1).tolist():
        if runs and sum(runs[-1]) == place:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    for first, count in runs:
        if first * bits % 8 or count * bits % 8:
            if any(isinstance(i, list) or (isinstance(i, slice) and (i.step or 1) < 0) for i in items):
                raise PlanError("packed elements cannot be reordered")
            return None
        out += data[first * bits // 8 : (first + count) * bits // 8]
    return list(part.shape), bytes(out)
