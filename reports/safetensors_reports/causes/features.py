"""What valid inputs have in common that an implementation refuses: dtypes, empty tensors, an order, ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from safetensors_corpus import Case, ManifestError
from safetensors_reference import InvalidFileError, UnreadableError, read_header
from safetensors_reference.header.model import Header
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..case_evidence import LARGEST

Feature = str
DTYPE = "dtype-"
SHARE = 0.8
"""Share of the inputs with a feature that are refused, from which on the feature tells why."""
ENOUGH = 10
"""Fewest inputs that must have been read before what others have in common tells anything."""


_BREAKS = re.compile(rb"[\t\r\n]")
_SPACES = re.compile(rb"[\t\r\n ][:,\]}]|[\[{][\t\r\n ]")
"""Where the habit of printers puts none; within strings it is found too, which does no harm here."""


def _empty(header: Header, _: bytes) -> bool:
    return any(t.begin == t.end for t in header.tensors.values())


def _unaligned(header: Header, _: bytes) -> bool:
    start = header.data_start
    return any(
        (start + t.begin) % (DTYPE_BITS[t.dtype] // 8)
        for t in header.tensors.values()
        if DTYPE_BITS[t.dtype] > 8 and t.begin < t.end
    )


def _shuffled(header: Header, _: bytes) -> bool:
    begins = [(t.begin, t.end) for t in header.tensors.values()]
    return begins != sorted(begins)


_OF_HEADER: Mapping[Feature, Callable[[Header, bytes], bool]] = {
    "a tensor without bytes": _empty,
    "no tensor at all": lambda header, _: not header.tensors,
    "a tensor that begins at no multiple of its element size": _unaligned,
    "entries in another order than the data": _shuffled,
    "a tensor with an empty name": lambda header, _: "" in header.tensors,
    "names beyond ASCII": lambda header, _: not all(name.isascii() for name in header.tensors),
    "metadata": lambda header, _: header.metadata is not None,
    "metadata beyond ASCII": lambda header, _: not str(header.metadata or {}).isascii(),
    "a scalar": lambda header, _: any(t.shape == () for t in header.tensors.values()),
    "more than 8 dimensions": lambda header, _: any(len(t.shape) > 8 for t in header.tensors.values()),
    "dimensions from 2^31 on": lambda header, _: any(
        d >= 2**31 for t in header.tensors.values() for d in t.shape
    ),
    "escapes in the strings of the header": lambda _, raw: b"\\" in raw,
    "line breaks or tabs between the tokens of the header": lambda _, raw: bool(_BREAKS.search(raw)),
    "spaces in unusual places of the header": lambda _, raw: bool(_SPACES.search(raw)),
    "a header whose length is no multiple of 8": lambda header, _: header.length % 8 != 0,
    "a name of 256 characters and more": lambda header, _: any(
        len(name) >= 256 for name in (*header.tensors, *(header.metadata or {}))
    ),
    "a hundred tensors and more": lambda header, _: len(header.tensors) >= 100,
}
"""What a valid file can have that some reader has trouble with -> how it is told. The first fits best."""


OF_TEXT = frozenset(
    {
        "names beyond ASCII",
        "metadata beyond ASCII",
        "escapes in the strings of the header",
        "line breaks or tabs between the tokens of the header",
        "spaces in unusual places of the header",
    }
)
"""Features that parsers trip over in many places, each with words of its own."""


_KNOWN: dict[str, frozenset[Feature] | None] = {}
"""Digest of a file -> its features: reports of many runs ask for the same ones again and again."""


def features(case: Case) -> frozenset[Feature] | None:
    """Return the features of a case's file, without its dtypes; None for what is no small valid file."""
    if case.kind != "read" or case.input.file is None or case.size > LARGEST:
        return None
    if case.sha256 not in _KNOWN:
        try:
            _KNOWN[case.sha256] = _features(case.read_input())
        except ManifestError:
            return None
    return _KNOWN[case.sha256]


def _features(data: bytes) -> frozenset[Feature] | None:
    try:
        header = read_header(data)
    except (InvalidFileError, UnreadableError):
        return None
    raw = data[8 : 8 + header.length]
    return frozenset(name for name, has in _OF_HEADER.items() if has(header, raw))


def dtypes(case: Case | None) -> frozenset[Feature]:
    """Return the dtypes of a case, as features are named."""
    return frozenset(name for name in case.features if name.startswith(DTYPE)) if case else frozenset()


def telling(
    refused: Mapping[str, frozenset[Feature]], read: Iterable[frozenset[Feature]]
) -> dict[Feature, set[str]]:
    """Return the features that tell why inputs are refused, and of which inputs; the most frequent first.

    Args:
        refused: case -> features of the inputs that are refused in the same words.
        read: features of inputs that are read.
    """
    fine = list(read)
    if len(fine) < ENOUGH:
        return {}  # in a filtered run everything looks telling
    out: dict[Feature, set[str]] = {}
    for name in _OF_HEADER:
        with_it = {case for case, has in refused.items() if name in has}
        others = sum(name in has for has in fine)
        if with_it and len(with_it) >= SHARE * (len(with_it) + others):
            out[name] = with_it
    return dict(sorted(out.items(), key=lambda item: -len(item[1])))
