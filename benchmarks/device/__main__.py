"""``python -m safetensors_reference.bench_device``."""

from .command import device

device(prog_name="bench_device")
