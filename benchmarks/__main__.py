"""``python -m benchmarks``: measures times, memory and the number of bugs that the fuzzer finds."""

from __future__ import annotations

import click

from .audit import audit
from .corpus import corpus
from .counts import counts
from .device.command import device
from .formats.command import formats
from .fuzzer.command import fuzzer
from .fuzzer.speed import fuzz_speed
from .harness import harness
from .loading import header, load
from .memory import memory
from .peaks import peaks
from .performance import performance
from .promises import promises


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def benchmarks() -> None:
    """Run a benchmark. Times are medians of interleaved rounds. Results of the fuzzer are counts."""


for command in (
    header,
    load,
    memory,
    harness,
    audit,
    corpus,
    counts,
    device,
    formats,
    fuzzer,
    fuzz_speed,
    peaks,
    performance,
    promises,
):
    benchmarks.add_command(command)

if __name__ == "__main__":
    benchmarks(prog_name="python -m benchmarks")
