"""The held-out set: readers with one planted bug each that shows only under a condition.

The set measures the fuzzer and the corpus. Authors of the grammar, the mutations or the cases must not read
this folder or its tests. An engine or a case that is written with knowledge of these bugs finds them, but
that says nothing about bugs in real readers. Benchmarks report only numbers.

If a bug is found in a real reader, the condition under which it shows is added here.
"""

from __future__ import annotations

from proof.planted import Planted

from . import entries, header, layout, second, text, third, values

PARTS: dict[str, tuple[Planted, ...]] = {
    "first": (
        *header.PLANTED,
        *text.PLANTED,
        *entries.PLANTED,
        *layout.PLANTED,
        *values.PLANTED,
    ),
    "second": second.PLANTED,
    "third": third.PLANTED,
}
"""The parts of the set, which were written one after another, by name."""
HELD_OUT: tuple[Planted, ...] = tuple(planted for part in PARTS.values() for planted in part)
TWO_CONDITIONS = second.TWO_CONDITIONS
"""Names of the readers of the second part whose bug shows only if two independent conditions are met."""
