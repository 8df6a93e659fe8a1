"""Recipes describe files that are too large to store. Programs in any language can expand them.

A recipe is a list of consecutive parts:

``{"hex": "7b7d"}`` or ``{"text": "{}"}``
    these bytes, or the text in UTF-8
``{"repeat": {"text": " "}, "count": N}``
    these bytes repeated N times
``{"each": "t{i}:0", "count": N, "first": F, "separator": ","}``
    the text for i = F .. F+N-1, with ``{i}`` and ``{next}`` (i + 1) as decimal numbers
``{"zeros": N}``
    N zero bytes, which are best left as a hole in the file

The digest of a recipe is the SHA-256 of its bytes without the ``zeros`` parts. Programs can therefore
check even a one-tebibyte file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, BinaryIO

from msgspec import Meta, Struct

from safetensors_reference.text import shorten

from .typed import one_of, typed

Part = Mapping[str, Any]

CHUNK = 1 << 20
"""Chunk size in bytes."""
RUN = 1000
"""Number of items in a run of an ``each`` part. The numbers of these items have the same leading digits."""
RUNS_AT_ONCE = 20
"""Number of runs per chunk."""
LARGEST_FILE = 2 << 40
"""Maximum file size in bytes, including holes. The largest file that a case uses is one tebibyte."""
LARGEST_MADE = 256 << 20
"""Maximum number of bytes outside holes. Cases need at most 109 million."""
LONGEST_ITEM = 1 << 13
"""Maximum combined length of the text and the separator of an ``each`` part."""
LARGEST_FIRST = 1 << 64
SHORTEST_RUN = 64
"""Minimum length of a run of one byte that ``from_bytes`` describes as ``repeat``."""
SHORTEST_LIST = 8
"""Minimum number of members that ``from_bytes`` describes as ``each``."""


class Hex(Struct, forbid_unknown_fields=True):
    """Literal bytes."""

    hex: Annotated[str, Meta(pattern=r"\A([0-9a-f]{2})*\Z")]


class Utf8(Struct, forbid_unknown_fields=True):
    """A literal text.

    Attributes:
        text: Written in UTF-8.
    """

    text: str


class Repeat(Struct, forbid_unknown_fields=True):
    """A literal that is repeated."""

    repeat: Annotated[Any, one_of(Hex, Utf8)]
    count: Annotated[int, Meta(ge=1, le=LARGEST_MADE)]


class Each(Struct, forbid_unknown_fields=True):
    """A text that is repeated with consecutive numbers.

    Attributes:
        each: Text repeated for each i, starting with first; {i} and {next} are replaced by i and i + 1 as
            decimal numbers.
        separator: Text between two items; not added after the last.
    """

    each: str
    count: Annotated[int, Meta(ge=1, le=LARGEST_MADE)]
    first: Annotated[int, Meta(ge=0)] = 0
    separator: str = ""


class Zeros(Struct, forbid_unknown_fields=True):
    """Zero bytes, best left as a hole in the file."""

    zeros: Annotated[int, Meta(ge=1, le=LARGEST_FILE)]


PARTS: Mapping[str, type[Struct]] = {"zeros": Zeros, "repeat": Repeat, "each": Each, "hex": Hex, "text": Utf8}
"""Maps the key that identifies a part to its model."""
Recipe = list[Annotated[Any, one_of(*PARTS.values())]]
Size = Annotated[int, Meta(ge=0, le=LARGEST_FILE)]
"""Size of a file in bytes."""


def literal(part: Part) -> bytes:
    """Return the bytes of a ``hex`` or ``text`` part. Raises ValueError for other parts."""
    for key, value in part.items() if isinstance(part, _OBJECT) else ():
        if len(part) == 1 and key in ("hex", "text"):
            if not isinstance(value, str):
                raise ValueError(f"part of a recipe: {key} is {value!r}, not a string")
            return bytes.fromhex(value) if key == "hex" else value.encode()
    raise ValueError(f"not a literal part of a recipe: {shorten(repr(part), 80)}")


_OBJECT = (dict, Mapping)  # in this order because isinstance is faster for dict, the usual type


def _is_literal(part: Part) -> bool:
    return isinstance(part, _OBJECT) and not ("repeat" in part or "each" in part or "zeros" in part)


def check(part: Part) -> None:
    """Raise ValueError unless ``corpus.schema.json`` permits the part."""
    if _is_literal(part):
        literal(part)
        return
    if not isinstance(part, _OBJECT):
        raise ValueError("part of a recipe is not an object")
    typed(part, next(model for key, model in PARTS.items() if key in part))
    if "repeat" in part:
        literal(part["repeat"])
    elif "each" in part:
        texts = part["each"], part.get("separator", "")
        if sum(map(len, texts)) > LONGEST_ITEM:
            raise ValueError(
                f"part of a recipe: each and separator exceed {LONGEST_ITEM:,} characters in total"
            )
        if part.get("first", 0) > LARGEST_FIRST:
            raise ValueError(f"part of a recipe: the maximum of first is {LARGEST_FIRST:,}")
        "".join(texts).encode()


def chunks(part: Part) -> Iterator[bytes]:
    """Yield the bytes of a part in chunks. A ``zeros`` part yields nothing. Raises ValueError."""
    if _is_literal(part):
        yield literal(part)
        return
    check(part)
    if "repeat" in part:
        unit, count = literal(part["repeat"]), part["count"]
        at_once = max(CHUNK // max(len(unit), 1), 1)
        whole = unit * min(at_once, count)
        for start in range(0, count, at_once):
            left = (count - start) * len(unit)
            yield whole if left >= len(whole) else whole[:left]
    elif "each" in part:
        for text in _each(part):
            yield text.encode()


def _each(part: Part) -> Iterator[str]:
    """Yield the text of an ``each`` part in chunks.

    Formatting nine million numbers individually takes seconds. The numbers in an aligned run of a thousand
    have the same leading digits, so the text of a run is formatted only once, with gaps for these digits.
    """
    template, separator = str(part["each"]), part.get("separator", "")
    i, last = part.get("first", 0), part.get("first", 0) + part["count"] - 1
    while i <= last:
        if i >= RUN and i % RUN == 0 and i + RUN - 1 <= last:
            runs = min(RUNS_AT_ONCE, (last + 1 - i) // RUN)
            leading = range(i // RUN, i // RUN + runs)
            gaps = _run(template, separator)
            text = separator.join(str(n).join(gaps) + _item(template, n * RUN + RUN - 1) for n in leading)
            i += runs * RUN
        else:
            end = min(last + 1, (i // RUN + 1) * RUN)
            text = separator.join(_item(template, n) for n in range(i, end))
            i = end
        yield text + separator if i <= last else text


@lru_cache(maxsize=1)
def _run(template: str, separator: str) -> list[str]:
    """Return the text of the items ...000 to ...998 with separators, split at the leading digits.

    The item ...999 is omitted because its ``{next}`` has different leading digits.
    """
    out = [""]
    pieces = re.split(r"(\{i\}|\{next\})", template)
    for low in range(RUN - 1):
        for piece in pieces:
            if piece in ("{i}", "{next}"):
                out.append(f"{low + (piece == '{next}'):03}")
            else:
                out[-1] += piece
        out[-1] += separator
    return out


def _item(template: str, i: int) -> str:
    return template.replace("{i}", str(i)).replace("{next}", str(i + 1))


def size(parts: Iterable[Part]) -> int:
    """Return the file size in bytes without expanding the recipe. Raises ValueError."""
    return sum(map(_size, parts))


def bounded_size(parts: Iterable[Part]) -> int:
    """Return the file size in bytes. Raises ValueError if the size is larger than any case needs."""
    total = made = 0
    for part in parts:
        number = _size(part)
        total += number
        made += 0 if "zeros" in part else number
    if made > LARGEST_MADE:
        raise ValueError(
            f"a recipe produces {made:,} bytes outside holes, but the maximum is {LARGEST_MADE:,}"
        )
    if total > LARGEST_FILE:
        raise ValueError(f"a recipe produces {total:,} bytes, but the maximum is {LARGEST_FILE:,}")
    return total


def _size(part: Part) -> int:
    if _is_literal(part):
        return len(literal(part))
    check(part)
    if "zeros" in part:
        return int(part["zeros"])
    if "repeat" in part:
        return len(literal(part["repeat"])) * int(part["count"])
    first, count = part.get("first", 0), part["count"]
    text = str(part["each"])
    plain = len(re.sub(r"\{i\}|\{next\}", "", text).encode())
    between = len(part.get("separator", "").encode()) * (count - 1)
    numbers = text.count("{i}") * _digits(first, count) + text.count("{next}") * _digits(first + 1, count)
    return int(plain * count + between + numbers)


def _digits(first: int, count: int) -> int:
    total, start, end = 0, first, first + count
    while start < end:
        width = len(str(start))
        stop = min(end, 10**width)
        total += width * (stop - start)
        start = stop
    return total


def digest(parts: Iterable[Part]) -> str:
    """Return the hexadecimal SHA-256 of the bytes without the ``zeros`` parts."""
    hasher = hashlib.sha256()
    for part in parts:
        for chunk in chunks(part):
            hasher.update(chunk)
    return hasher.hexdigest()


def expand(parts: Iterable[Part]) -> bytes:
    """Return the whole file. Raises ValueError if it is too large for memory."""
    parts = list(parts)
    whole = size(parts)
    if whole > LARGEST_MADE:
        raise ValueError(
            f"a recipe produces {whole:,} bytes, but at most {LARGEST_MADE:,} can be created in memory"
        )
    out = bytearray()
    for part in parts:
        if "zeros" in part:
            out += bytes(part["zeros"])
        for chunk in chunks(part):
            out += chunk
    return bytes(out)


def write(parts: Iterable[Part], file: BinaryIO) -> tuple[int, str]:
    """Write the bytes to an empty file, with sparse holes. Returns their size and digest. Raises OSError."""
    hasher = hashlib.sha256()
    total = 0
    for part in parts:
        for chunk in chunks(part):
            hasher.update(chunk)
            total += file.write(chunk)
        if "zeros" in part:
            total += part["zeros"]
            file.seek(total)
    file.truncate(total)
    return total, hasher.hexdigest()


_RUN = re.compile(rb"(?s)(.)\1{%d,}|(.{2,32}?)\2{31,}" % (SHORTEST_RUN - 1))


_MEMBER = re.compile(rb'"t([0-9]+)":\{[^{}]*\}')


def from_bytes(data: bytes, *, numbered: bool = False) -> list[dict[str, Any]]:
    """Return a recipe for ``data``, with long runs as ``repeat`` parts and the rest as literals.

    If ``numbered`` is set, runs of header members called t0, t1 and so on become ``each`` parts.
    """
    out: list[dict[str, Any]] = []
    position = 0
    for start, part in _numbered(data) if numbered else ():
        out += [*from_bytes(data[position:start]), part]
        position = start + size([part])
    data, position = data[position:], 0
    for run in _RUN.finditer(data):
        out += _literals(data[position : run.start()])
        unit = run[1] or run[2]
        out.append({"repeat": _literal(unit), "count": len(run[0]) // len(unit)})
        position = run.end()
    return out + _literals(data[position:])


def _numbered(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Return the position and the ``each`` part of every run of members with ascending numbers."""
    found: list[tuple[int, dict[str, Any]]] = []
    end = 0
    for match in _MEMBER.finditer(data):
        number, text = int(match[1]), match[0].decode()
        last = found[-1][1] if found and data[end : match.start()] == b"," else None
        end = match.end()
        if last and last["first"] + last["count"] == number and _item(last["each"], number) == text:
            last["count"] += 1
            continue
        each = re.sub(rf"\b{number}\b", "{i}", re.sub(rf"\b{number + 1}\b", "{next}", text))
        each = each.replace(f'"t{number}"', '"t{i}"')
        found.append((match.start(), {"each": each, "count": 1, "first": number, "separator": ","}))
    return [run for run in found if run[1]["count"] >= SHORTEST_LIST]


def _literals(data: bytes) -> list[dict[str, Any]]:
    # A header follows the bytes of its length, which are rarely text.
    return [_literal(part) for part in re.split(rb"([ -~]{32,})", data) if part]


def _literal(data: bytes) -> dict[str, Any]:
    plain = data.isascii() and data.decode().isprintable()
    return {"text": data.decode("ascii")} if plain else {"hex": data.hex()}


def spelled(text: str) -> str | dict[str, Any]:
    """Return a string unchanged, or as ``{"parts": ...}`` if it contains a lone surrogate.

    The parts produce the string in UTF-8, in which lone surrogates are encoded like other characters. This
    form is necessary because many JSON parsers reject a document that contains an escaped lone surrogate.
    """
    raw = text.encode("utf-8", "surrogatepass")
    return text if raw.decode("utf-8", "replace") == text else {"parts": from_bytes(raw)}


def spelled_map(mapping: Mapping[Any, Any], spell: Callable[[Any], Any] = spelled) -> dict[str, Any]:
    """Apply ``spell`` to the keys and values of a map of strings.

    Returns an object with ``items``, a list of pairs, if a key is not a plain string.
    """
    items = [(spell(key), spell(text)) for key, text in mapping.items()]
    plain = {key: text for key, text in items if isinstance(key, str)}
    return plain if len(plain) == len(items) else {"items": [list(item) for item in items]}


def text_of(value: str | Part) -> str:
    """Convert the result of ``spelled`` back to a string. Raises ValueError and KeyError."""
    return value if isinstance(value, str) else expand(value["parts"]).decode("utf-8", "surrogatepass")


def pairs_of(value: Mapping[str, Any]) -> Iterable[Any]:
    items = value.get("items")
    return items if isinstance(items, list) else value.items()


def map_of(value: Mapping[str, Any], read: Callable[[Any], Any] = text_of) -> dict[Any, Any]:
    """Convert the result of ``spelled_map`` back to a map. Raises ValueError and KeyError."""
    return {read(key): read(text) for key, text in pairs_of(value)}


def describe(parts: Sequence[Part]) -> str:
    lines = []
    for part in parts:
        if "zeros" in part:
            lines.append(f"{part['zeros']:,} zero bytes (a hole in the file)")
        elif "repeat" in part:
            lines.append(f"{literal(part['repeat'])[:32]!r} {part['count']:,} times")
        elif "each" in part:
            first = part.get("first", 0)
            lines.append(f"{part['each'][:70]!r} for i = {first:,} .. {first + part['count'] - 1:,}")
        else:
            data = literal(part)
            lines.append(f"{data[:40]!r}" + (f" … ({len(data):,} bytes)" if len(data) > 40 else ""))
    return "\n".join(lines)
