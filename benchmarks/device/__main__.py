"""``python -m benchmarks.device``."""

from .command import device

device(prog_name="bench_device")
