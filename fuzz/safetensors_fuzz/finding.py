"""A finding: an input for which an implementation gives a wrong answer or terminates abnormally."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENTRY = "input.safetensors"
REPLAYS = 3
"""Number of attempts to confirm a finding, each in a fresh process."""
ANY_ANSWER = "any orderly answer"
"""Expected answer if the format leaves it open."""
AGREEMENT = "the same content from all implementations that accept it"
"""Expected answer if readers may reject the file, but those that accept it must agree on the content."""
ADAPTER_ERROR = "adapter-error"
"""Outcome that appears in a signature if the adapter failed. Other missing answers have no outcome."""

NOT_KNOWN = "not known"


def bare(signature: str) -> str:
    """Return the part of a signature that ``stc diff`` also writes, i.e. without the brackets."""
    return signature.partition(" [")[0]


@dataclass(frozen=True)
class Finding:
    """An input, the expected answer, and the answers of the implementations.

    Attributes:
        verdict: the verdict on a wrong answer, a key of ``safetensors_corpus.judging.verdicts.VERDICTS``.
        signature: key for deduplication; it begins like a signature of ``stc diff``.
        rules: ids of the rules that the input or the answer breaks, the main rule first, or empty if unknown.
        files: content of each file by its path in the input's folder; empty for a write.
        expectation: in the format of the manifest. With the outcome ``open``, accepting and rejecting are
            both right, but with ``agree``, all implementations that accept the input must report the same
            content.
        where: byte range of ``entry`` that breaks the first rule, if known.
        replays: number of attempts that confirmed the finding, at most ``REPLAYS``.
        cause: why ``rules`` were chosen, or why they are unknown, in one line; empty if this is obvious.
    """

    step: str
    verdict: str
    signature: str
    rules: tuple[str, ...]
    codes: tuple[str, ...]
    expected: str
    got: Mapping[str, str]
    versions: Mapping[str, str]
    files: Mapping[str, bytes]
    entry: str = ENTRY
    action: Mapping[str, Any] | None = None
    expectation: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[int, int] | None = None
    engine: str = ""
    seed: int = 0
    execs: int = 0
    size_found: int = 0
    replays: int = 0
    cause: str = ""

    @property
    def split(self) -> bool:
        """Whether two implementations disagree, although neither answer is wrong by itself."""
        return self.expectation.get("agree") is True

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256 digest of all files and the action."""
        digest = hashlib.sha256(repr(sorted((self.action or {}).items())).encode())
        for path, data in sorted(self.files.items()):
            digest.update(f"{path}\0{len(data)}\0".encode())
            digest.update(data)
        return digest.hexdigest()

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def slug(self) -> str:
        """Name of the finding's folder: the first code or rule, and a digest of input and signature."""
        subject = self.codes[0] if self.codes else self.rules[0] if self.rules else "valid"
        both = hashlib.sha256(f"{self.digest} {self.signature}".encode(errors="surrogatepass"))
        return f"{subject.lower().replace('_', '-')}-{both.hexdigest()[:8]}"
