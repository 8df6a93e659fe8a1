"""Maps each fault code to the weaknesses (CWE) of a reader that accepts such faults.

The mapping is in ``cwe.toml``.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA = tomllib.loads(files(__package__).joinpath("cwe.toml").read_text(encoding="utf-8"))
CWE_NAMES: Mapping[int, str] = MappingProxyType({int(n): name for n, name in _DATA["names"].items()})
CWE_OF_CODE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {code: tuple(numbers) for code, numbers in _DATA["codes"].items()}
)
