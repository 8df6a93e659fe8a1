"""The held-out set: readers with one planted bug each that shows only under a condition.

The set measures the fuzzer and the corpus. Authors of the grammar, the mutations or the cases must not read
this folder or its tests. An engine or a case that is written with knowledge of these bugs finds them, but
that says nothing about bugs in real readers. Benchmarks report only numbers.

If a bug is found in a real reader, the condition under which it shows is added here.
"""

from __future__ import annotations

from proof.planted import Planted

from . import entries, header, layout, second, text, values

HELD_OUT: tuple[Planted, ...] = (
    *header.PLANTED,
    *text.PLANTED,
    *entries.PLANTED,
    *layout.PLANTED,
    *values.PLANTED,
    *second.PLANTED,
)
TWO_CONDITIONS = second.TWO_CONDITIONS
"""Names of the readers whose bug shows only if two independent conditions are met."""
