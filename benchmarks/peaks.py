"""``python -m benchmarks peaks``: the peak memory of loads that copy tensors, and of scattering by ranks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

SHARDS = 8
TENSOR = 1 << 20
ROUND = 1 << 20


@click.command()
def peaks() -> None:
    """Print peaks of device memory as ratios. The simulated accelerator needs a C++ compiler."""
    import torch

    from safetensors_reference.device import load_files
    from tests.reference.device.ranks.launcher import Launcher
    from tests.reference.device.support import file_of
    from tests.simulated_device import DEVICES, NoCompilerError, build, register

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        paths = [folder / f"{number}.safetensors" for number in range(SHARDS)]
        for number, path in enumerate(paths):
            path.write_bytes(file_of([(f"t{number}", "BF16", [TENSOR])]))
        try:
            device = register(build(folder))
        except NoCompilerError as err:
            raise click.ClickException(str(err)) from err
        for name, options in (("dtype=", {"dtype": torch.float16}), ("clone=", {"clone": True}), ("", {})):
            before = device.live
            device.peak()
            tensors = load_files(paths, device=DEVICES[0], **options)
            ratio = (device.peak() - before) / (SHARDS * TENSOR * 2)
            click.echo(f"{ratio:.3f}  peak / result of load_files({name}) for {SHARDS} shards of equal size")
            del tensors
        tall = folder / "tall.safetensors"
        tall.write_bytes(file_of([(f"t{n}", "U8", [512, 512]) for n in range(32)]))
        launcher = Launcher()
        try:
            answers = launcher.run("scattering", 2, folder, str(tall), ROUND)
        finally:
            launcher.close()
        for rank, answer in enumerate(answers):
            text = f"memory of rank {rank} beside the result / size of a round, when tensors are scattered"
            click.echo(f"{answer['beside'] / ROUND:.3f}  {text}")
