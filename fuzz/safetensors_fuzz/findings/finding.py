"""A finding: one input on which an implementation gives a wrong answer or ends abnormally.

Engines produce findings, ``folder`` writes them, and ``replay`` runs them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENTRY = "input.safetensors"
"""Name of the input where it is a single file."""
REPLAYS = 3
"""How often a finding is confirmed, each time in a fresh process."""
ANY_ANSWER = "any orderly answer"
"""Expectation where the format leaves the answer open."""
AGREEMENT = "the same content from all that accept it"
"""Expectation where acceptance is open but the content is not."""
ADAPTER_ERROR = "adapter-error"
"""Token of an adapter's failure in a signature; other missing answers have none."""

NOT_KNOWN = "not known"
"""Placeholder for an unknown rule."""


def bare(signature: str) -> str:
    """Return a signature as ``stc diff`` writes it, without the part in brackets."""
    return signature.partition(" [")[0]


@dataclass(frozen=True)
class Finding:
    """One input, the expectation and the answers.

    Attributes:
        step: open, read, slice, write or index; or ``prove`` and ``check``, which only the reference has.
        verdict: a failing key of ``safetensors_corpus.judging.verdicts.VERDICTS``.
        signature: subject and outcomes as ``stc diff`` writes them; it identifies duplicates.
        rules: ids of the rules that the input or the answer breaks, the main one first. Empty where the rule
            is unknown.
        codes: fault codes of the input, sorted; empty for a valid one.
        expected: one line.
        got: selector -> one line.
        versions: selector -> version.
        files: path inside the input's folder -> bytes; one file unless the step is ``index``; none for a
            step ``write``, whose input is its ``action``.
        entry: path of the file to open.
        action: what to do beyond reading, as in the manifest of the corpus, or None.
        expectation: in the form of the manifest (``outcome``, ``content``, ``codes``); with the outcome
            ``open`` any orderly answer is right, and ``agree`` requires that all of ``got`` that accept the
            input report the same content.
        where: the byte range of ``entry`` that breaks the first rule, if known.
        engine: engine that found it.
        seed: seed of the run.
        execs: inputs that the run had tried when it found this one.
        size_found: bytes of the input before shrinking.
        replays: how many of three fresh processes gave the same answer.
        cause: why these rules, or why none, in one line; empty where codes or expectation make it obvious.
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
        """Whether two accept the input with different content, so that neither is wrong by itself."""
        return self.expectation.get("agree") is True

    @property
    def digest(self) -> str:
        """SHA-256 over all files and the action, in hexadecimal."""
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

        The digest covers input and signature, to keep apart two implementations that fail on the same input.
        """
        subject = self.codes[0] if self.codes else self.rules[0] if self.rules else "valid"
        both = hashlib.sha256(f"{self.digest} {self.signature}".encode(errors="surrogatepass"))
        return f"{subject.lower().replace('_', '-')}-{both.hexdigest()[:8]}"
