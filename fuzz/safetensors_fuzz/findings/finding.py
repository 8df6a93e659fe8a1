"""A finding: one input on which an implementation gives a wrong answer, or ends badly.

What an engine hands over and what is written to disk is this; ``folder`` writes it, ``replay`` asks again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENTRY = "input.safetensors"
"""Name of the file that is handed over, where there is only one."""
REPLAYS = 3
"""How often a finding is asked again, each time in a fresh process."""
ANY_ANSWER = "any orderly answer"
"""What is expected where the format leaves the answer open."""
AGREEMENT = "the same content from all that accept it"
"""What is expected where it is open whether to accept, but not what is in it."""
ADAPTER_ERROR = "adapter-error"
"""Token of an adapter's failure in a signature, which leaves out those of no answer."""

NOT_KNOWN = "not known"
"""Stands in place of a rule where none can be told."""


def bare(signature: str) -> str:
    """Return a signature without the brackets that tell kinds apart, as ``stc diff`` writes it."""
    return signature.partition(" [")[0]


@dataclass(frozen=True)
class Finding:
    """One input, what was expected of it and what came.

    Attributes:
        step: what was asked: open, read, slice, write or index; or ``prove`` and ``check`` for the two
            questions that only the reference is asked.
        verdict: a failing key of ``safetensors_corpus.judging.verdicts.VERDICTS``.
        signature: subject and outcomes as ``stc diff`` writes them; findings of one signature are one.
        rules: ids of the rules broken by the input, or that the answer breaks; the first speaks for it. Empty
            where the rule is not known.
        codes: fault codes of the input, sorted; empty for a valid one.
        expected: one line.
        got: selector -> one line.
        versions: selector -> version.
        files: path inside the input's folder -> bytes; one file unless the step is ``index``; none for a
            step ``write``, whose input is its ``action``.
        entry: the file that is handed over.
        action: what is done with it beyond reading, as in the manifest of the corpus, or None.
        expectation: what is demanded, in the form of the manifest (``outcome``, ``content``, ``codes``); with
            the outcome ``open`` anything orderly is right, and ``agree`` demands that all of ``got`` that
            accept it see the same in it.
        where: the byte range of ``entry`` that breaks the first rule, if it is known.
        engine: which engine found it.
        seed: seed of the run.
        execs: inputs that the run had tried when it found this one.
        size_found: bytes of the input before it was made smaller.
        replays: how often of three times a fresh process gave the same answer.
        cause: why these rules, or why none, in one line; empty where codes or expectation say so.
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
        """True when nobody's answer is wrong by itself: two accept the input and see different things."""
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
        """Name of the finding's folder: first code or rule, and eight digits of input and signature together.

        Two that get one input wrong are two findings, and none of them may take the other's place.
        """
        subject = self.codes[0] if self.codes else self.rules[0] if self.rules else "valid"
        both = hashlib.sha256(f"{self.digest} {self.signature}".encode(errors="surrogatepass"))
        return f"{subject.lower().replace('_', '-')}-{both.hexdigest()[:8]}"
