"""Texts of a run freed of what differs from run to run: folders, addresses, measured values."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from ..text import visible

_RULES = (
    # Addresses before paths: neither holds the other, and both are told by their first characters.
    (re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"), "0x…"),
    (re.compile(r"(?<![\w.])/(?:[^\s/'\",:;()\[\]]+/)+([^\s/'\",:;()\[\]]*)"), r"…/\1"),
    # What time is allowed depends on the machine as well.
    (re.compile(r"\bprocessor time [\d.,e+]+ s of [\d.,e+]+ s"), "processor time"),
    (re.compile(r"\b[\d,]+ bytes (of memory|read) of ([\d,]+)"), r"more than \2 bytes \1"),
    (re.compile(r"\b(after|in|took) [\d.,]+ ?(ms|s|seconds)\b"), r"\1 …"),
    # Bytes that nobody initialised are other ones every time.
    (re.compile(r" \(sha256 [0-9a-f]+…?, not [0-9a-f]+…?\)"), ""),
    (re.compile(r"\btmp[a-z0-9_]{8}\b"), "…"),
    (re.compile(r"\b(pid|process|thread) \d+"), r"\1 …"),
)


def stable(text: str, limit: int = 200) -> str:
    """Return a text on one visible line with volatile parts replaced by ``…``."""
    for pattern, new in _RULES:
        text = pattern.sub(new, text)
    return visible(text, limit)


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value in one canonical spelling."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def slug(text: str) -> str:
    """Return a text as lower-case words with hyphens; what is lost by that is not told apart."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
