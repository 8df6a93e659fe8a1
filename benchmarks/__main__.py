"""``python -m benchmarks``: measurements that print ratios, interleaved, as medians."""

from __future__ import annotations

import click

from .device.command import device
from .harness import harness
from .loading import header, load
from .memory import memory


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def benchmarks() -> None:
    """Measure; figures are medians of interleaved rounds, quoted as ratios."""


for command in (header, load, memory, harness, device):
    benchmarks.add_command(command)

if __name__ == "__main__":
    benchmarks(prog_name="python -m benchmarks")
