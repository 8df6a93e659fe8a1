"""A finding: an input on which an implementation gives a wrong answer or terminates abnormally.

Engines produce findings, ``folder`` stores them, and ``replay`` runs them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENTRY = "input.safetensors"
REPLAYS = 3
"""Number of confirmations of a finding, each in a fresh process."""
ANY_ANSWER = "any orderly answer"
"""Expectation if the format leaves the answer open."""
AGREEMENT = "the same content from all that accept it"
"""Expectation if acceptance is optional but the content is not."""
ADAPTER_ERROR = "adapter-error"
"""Outcome in the signature of an adapter failure; other missing answers have none."""

NOT_KNOWN = "not known"


def bare(signature: str) -> str:
    """Return the part of a signature that ``stc diff`` writes, without brackets."""
    return signature.partition(" [")[0]


@dataclass(frozen=True)
class Finding:
    """An input, its expectation and the answers.

    Attributes:
        verdict: a failing key of ``safetensors_corpus.judging.verdicts.VERDICTS``.
        signature: deduplication key; it begins like a signature of ``stc diff``.
        rules: ids of the rules that the input or the answer breaks, the main one first; empty if unknown.
        got: selector -> answer in one line.
        files: path in the input's folder -> bytes; empty for a write, which has only an ``action``.
        action: in the form of the manifest.
        expectation: in the form of the manifest. With the outcome ``open``, any orderly answer is right;
            ``agree`` requires that all implementations in ``got`` that accept the input report the same
            content.
        where: byte range of ``entry`` that breaks the first rule, if known.
        execs: number of the input in its run.
        size_found: size of the input before shrinking, in bytes.
        replays: number of confirmations out of ``REPLAYS``.
        cause: reason for ``rules``, or for their absence, in one line; empty if obvious.
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
        """Whether two implementations disagree and neither is wrong by itself."""
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
        """Name of the finding's folder: first code or rule, and eight digits of a digest.

        The digest covers the signature too, because several implementations may fail on the same input.
        """
        subject = self.codes[0] if self.codes else self.rules[0] if self.rules else "valid"
        both = hashlib.sha256(f"{self.digest} {self.signature}".encode(errors="surrogatepass"))
        return f"{subject.lower().replace('_', '-')}-{both.hexdigest()[:8]}"
