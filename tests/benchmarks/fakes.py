"""Loaders that do something wrong, each in its own way; run in processes of their own, some without torch."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def prints() -> None:
    """Print what must not get into the answers."""
    sys.stdout.write("loading\n")
    sys.stdout.flush()
    os.write(1, b"still loading\n")


def quiet(path: str, device: str) -> dict[str, Any]:
    prints()
    return {}


def tells_environment(path: str, device: str) -> dict[str, Any]:
    raise RuntimeError(f"{os.environ.get('STC_FAKE_A')} {os.environ.get('STC_FAKE_B')}")


def refusing(path: str, device: str) -> dict[str, Any]:
    raise ValueError(f"cannot load {path}\nand more lines")


def dying(path: str, device: str) -> dict[str, Any]:
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os._exit(3)


def hanging(path: str, device: str) -> dict[str, Any]:
    time.sleep(600)
    return {}


def right(path: str, device: str) -> dict[str, Any]:
    from safetensors_reference.torch import load_file

    prints()
    return dict(load_file(path))


def flipped(path: str, device: str) -> dict[str, Any]:
    import torch

    tensors = right(path, device)
    tensors[max(tensors)].view(-1).view(dtype=torch.uint8)[-1] ^= 1
    return tensors
