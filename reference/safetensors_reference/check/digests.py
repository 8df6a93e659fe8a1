"""Computes the SHA-256 of checked files and compares it with a list of digests."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from ..source import PathSource, UnreadableError, read_whole
from ..text import quote, without_name

if TYPE_CHECKING:
    from pathlib import Path

    from ..model.judge import Status

Answer = Literal["as listed", "differs", "missing", "not listed", "unreadable"]
MAX_LIST = 64 << 20
LIST = "the list"
HUB_CACHE = "the Hub cache"
SHA256_DIGITS = 64
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LINE = re.compile(r"(?P<escaped>\\?)(?P<digest>[0-9A-Fa-f]{64}) [ *](?P<name>.+)", re.DOTALL)
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
State = tuple[int, int, int, int]


class DigestListError(ValueError):
    """Raised if a list of digests cannot be used. The message is a single line that names the fault."""


def state_of(file: str | int) -> State | None:
    """Return what identifies a version of a file, given by name or descriptor."""
    try:
        about = os.stat(file)  # noqa: PTH116 - a name stays as it is spelled
    except (OSError, ValueError):
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def digest_of(name: str, state: State | None = None) -> tuple[str | None, str | None]:
    """Return the SHA-256 of a file, or None and why it is unknown, such as a change since ``state``."""
    import hashlib  # imported here because it loads a large library

    try:
        with PathSource(name) as source, open(source.fd, "rb", buffering=0, closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            changed = state is not None and state_of(source.fd) != state
    except UnreadableError as err:
        return None, without_name(str(err), name)
    except OSError as err:
        return None, err.strerror or str(err)
    return (None, "the file changed while it was being checked") if changed else (digest, None)


@dataclass(frozen=True, slots=True)
class DigestResult:
    """Result of comparing a file with a list of digests; ``why`` explains why the file could not be read."""

    name: str
    answer: Answer
    listed: str | None = None
    found: str | None = None
    why: str | None = None
    source: str = LIST

    @property
    def status(self) -> Status:
        if self.answer == "unreadable":
            return "unreadable"
        return "valid" if self.answer == "as listed" else "invalid"

    def to_json(self) -> str:
        row = {"digest": self.name, "kind": "digest", "answer": self.answer}
        return json.dumps({**row, "listed": self.listed, "found": self.found, "message": self.why})

    def __str__(self) -> str:
        if self.answer == "differs":
            kind = "SHA-256" if len(self.found or "") == SHA256_DIGITS else "Git object id"
            has = f"the file has {self.found}, {self.source} has {self.listed}"
            return f"{kind} differs from {self.source}: {has}"
        words = {
            "missing": "is in the list of digests, but does not exist",
            "not listed": f"is not in {'the list of digests' if self.source == LIST else self.source}",
            "unreadable": f"its SHA-256 could not be computed: {self.why}",
        }
        return words.get(self.answer, self.answer)


def read_list(path: Path) -> dict[str, str]:
    """Read the output of ``sha256sum`` as {name: digest}. Raises DigestListError or UnreadableError."""
    text = read_whole(path, MAX_LIST).decode("utf-8", "surrogateescape")
    out: dict[str, str] = {}
    for number, ended in enumerate(text.split("\n"), 1):
        line = ended.removesuffix("\r")
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            text = f"{quote(line, 40)} does not look like sha256sum output (SHA-256, two characters, name)"
            raise DigestListError(f"line {number:,}: {text}")
        name = match["name"]
        if match["escaped"]:
            name = re.sub(r"\\[\\nr]", lambda found: _ESCAPES[found[0]], name)
        digest = match["digest"].lower()
        if out.setdefault(name, digest) != digest:
            raise DigestListError(f"line {number:,}: {quote(name)} appears again with a different SHA-256")
    if not out:
        raise DigestListError("it contains no digests")
    return out


def final_line(answers: Counter[Answer]) -> str:
    return "digests: " + ", ".join(f"{answers[word]:,} {word}" for word in get_args(Answer))


class HubDigests:
    """Compares files in a Hub cache with their digests.

    Each file in a cache is a link to a blob that is named after its digest, which is the SHA-256 or, for
    small files, the Git object id. Files outside a cache have no digest.
    """

    def rest(self) -> Iterable[DigestResult]:
        """Return nothing, because a cache does not list which files must exist."""
        return ()

    def compare(self, name: str, found: str | None, why: str | None) -> DigestResult:
        blob = os.path.basename(os.path.realpath(name))  # noqa: PTH119 - a name stays as it is spelled
        if _BLOB.fullmatch(blob) is None:
            answer: Answer = "not listed"
        else:
            if len(blob) != SHA256_DIGITS and found is not None:
                import hashlib

                try:
                    data = read_whole(name, MAX_LIST)
                    text = b"blob %d\0%b" % (len(data), data)
                    found = hashlib.sha1(text, usedforsecurity=False).hexdigest()
                except UnreadableError as err:
                    found, why = None, without_name(str(err), name)
            answer = "unreadable" if found is None else "as listed" if found == blob else "differs"
        return DigestResult(name, answer, None if answer == "not listed" else blob, found, why, HUB_CACHE)


class DigestList:
    """Compares files with a list of digests.

    Names in the list may be relative to the current folder, to the folder of the list or to one of
    ``folders``. The folder that contains the most listed files is used.
    """

    def __init__(self, path: Path, folders: Iterable[str]) -> None:
        listed = read_list(path)
        bases = [os.curdir, str(path.parent), *folders]
        base = max(bases, key=lambda base: sum(os.path.lexists(os.path.join(base, n)) for n in listed))  # noqa: PTH118
        self._listed = {os.path.abspath(os.path.join(base, n)): (n, d) for n, d in listed.items()}  # noqa: PTH100, PTH118
        self._seen: set[str] = set()

    def compare(self, name: str, found: str | None, why: str | None) -> DigestResult:
        key = os.path.abspath(name)  # noqa: PTH100 - resolve() would follow links
        self._seen.add(key)
        _, listed = self._listed.get(key, (None, None))
        answer: Answer = "as listed" if found == listed else "differs"
        if listed is None:
            answer = "not listed"
        elif found is None:
            answer = "unreadable"
        return DigestResult(name, answer, listed, found, why)

    def rest(self) -> Iterator[DigestResult]:
        """Yield results for listed files that were not checked. Files outside that folder are not opened."""
        for key, (name, listed) in self._listed.items():
            if key in self._seen:
                continue
            if os.path.isabs(name) or os.pardir in name.split("/"):  # noqa: PTH117 - text here
                why = "the name refers to a file outside the folder, which was not opened"
                yield DigestResult(name, "unreadable", listed, why=why)
            elif not os.path.lexists(key):
                yield DigestResult(name, "missing", listed)
            else:
                yield replace(self.compare(key, *digest_of(key)), name=name)
