"""Names of shards: bare file names that end in ``.safetensors`` (IDX-04, IDX-05, IDX-07).

Names come from a file of a stranger, and a loader opens what they name. So a name is judged as
text, the same way on every system and before anything of the file system is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
MAX_NAME = 255
"""Characters in the longest file name; no common file system has room for more."""


def shard_name(stem: str, number: int, count: int) -> str:
    """Return the conventional name of shard ``number`` (from 1) out of ``count`` (IDX-15)."""
    return f"{stem}-{number:05d}-of-{count:05d}{SUFFIX}"


def name_faults(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield (code, rule, what is wrong) for everything that forbids ``name`` as the name of a shard.

    Separators are refused in any place, so that ``./x`` and ``sub/x`` are no shard names either. Percent
    escapes are never decoded; a name that would leave the directory if a loader did is refused.
    """
    reason = _not_bare(name)
    if reason is not None:
        yield "IDX_BAD_FILENAME", "IDX-04", reason
        if name in ("", ".", "..") or len(name) > MAX_NAME:
            return
    elif "%" in name:
        reason = _not_bare(_decoded(name))
        if reason is not None:
            yield "IDX_BAD_FILENAME", "IDX-05", f"{reason} once its percent escapes are decoded"
    if not name.endswith(SUFFIX):
        yield "IDX_BAD_EXTENSION", "IDX-07", f"does not end in {SUFFIX}"


def _not_bare(name: str) -> str | None:
    """Say why ``name`` is not the bare name of a file, None when it is one."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is a directory"
    if len(name) > MAX_NAME:
        return f"has {len(name):,} characters, more than a file name can have"
    for char in name:
        if char in "/\\":
            return f"holds the separator {char}"
        # C:x is a drive on Windows, x:y a stream of the file x, and a loader of URLs sees a scheme.
        if char == ":":
            return "holds a colon"
        if char < " " or char == "\x7f":
            return f"holds the control character U+{ord(char):04X}"
        if "\ud800" <= char <= "\udfff":
            return "is not Unicode text"
    return None


def _decoded(name: str) -> str:
    """Decode percent escapes until none is left: each party on the way to a file may decode once."""
    while (plain := unquote(name)) != name:
        name = plain
    return name
