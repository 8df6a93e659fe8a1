"""The held-out set: readers with one planted bug each that shows only under a condition.

The set measures the fuzzer and the corpus. Authors of the grammar, the mutations or the cases must not read
it, neither this folder nor its tests: an engine or a case written with these bugs in view finds these bugs,
and says nothing about those of real readers. Benchmarks report numbers.

A bug that is found in a real reader is added here, as the condition under which it showed.
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
"""Names of the readers whose bug shows only where two independent conditions meet."""
