"""Loads files onto a device with torch. Each file gets one buffer, which several threads fill.

Importing this package imports torch. ``device.ranks.model`` loads a model onto the ranks of a process group.
"""

from __future__ import annotations

from .engine import DeviceError
from .load import load_file, load_files
from .transfer import configure, free_staging

__all__ = ["DeviceError", "configure", "free_staging", "load_file", "load_files"]
