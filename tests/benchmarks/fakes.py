"""Loaders that do something wrong, each in its own way; run in processes of their own."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from safetensors_reference.torch import load_file


def right(path: str, device: str) -> dict[str, Any]:
    # What a loader prints must not get into the answers.
    sys.stdout.write("loading\n")
    os.write(1, b"still loading\n")
    return dict(load_file(path))


def tells_environment(path: str, device: str) -> dict[str, Any]:
    raise RuntimeError(f"{os.environ.get('STC_FAKE_A')} {os.environ.get('STC_FAKE_B')}")


def flipped(path: str, device: str) -> dict[str, Any]:
    tensors = right(path, device)
    last = tensors[max(tensors)]
    last.view(-1).view(dtype=_torch().uint8)[-1] ^= 1
    return tensors


def swapped(path: str, device: str) -> dict[str, Any]:
    """Exchange two pages, which no sum over the tensor would notice."""
    tensors = right(path, device)
    pages = tensors[max(tensors)].view(-1).view(dtype=_torch().uint8)[: 2 * 4096].view(2, 4096)
    pages.copy_(pages.flip(0).clone())
    return tensors


def forgetful(path: str, device: str) -> dict[str, Any]:
    tensors = right(path, device)
    del tensors[min(tensors)]
    return tensors


def refusing(path: str, device: str) -> dict[str, Any]:
    raise ValueError(f"cannot load {path}\nand more lines")


def dying(path: str, device: str) -> dict[str, Any]:
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os._exit(3)


def hanging(path: str, device: str) -> dict[str, Any]:
    time.sleep(600)
    return {}


def _torch() -> Any:
    import torch

    return torch
