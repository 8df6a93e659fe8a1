"""The valid twin of a file that readers may refuse: only the disputed part is written in another way.

Order, blanks, escapes, names, bytes and the length of the header stay, so that a subject that reads the twin
correctly does not misread the original for something that both have.
"""

from __future__ import annotations

import json
import re
from math import prod

from safetensors_reference import explain
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..grammar.draft import decode_string
from ..grammar.entries import integers, numbers
from ..grammar.model import Arr, File, Obj, Value, parse, text
from ..grammar.vocabulary import FIELDS, RESERVED

MAX_RANK = 8
"""Rank that every reader must accept (SHP-10)."""
BESIDE_ZERO = 7
"""First of the small dimensions that replace large ones of an empty tensor; distinct ones stay distinct."""
_NAMES = frozenset(map(decode_string, FIELDS))
_HALF = re.compile(r"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\[^u])|\\u[dD][89a-fA-F]..")
"""A pair of surrogate escapes or a short escape, which stay, or half a pair."""
_LETTER = r"\u0061"


def valid_twin(data: bytes) -> bytes | None:
    """Return the nearest valid file to one that readers may refuse, None where there is none."""
    file = parse(data)
    root = file.root
    if type(root) is not Obj:
        return None
    length = len(file.header())
    root.head = root.head.strip()
    try:
        _choose(file, root)
    except ValueError:  # a text that is not a JSON string
        return None
    file.padding = b" " * max(length - len(text(root)), 0)
    made = file.render()
    return made if explain(made, "hardened").valid else None


def _choose(file: File, root: Obj) -> None:
    for member in root.members:
        member[0] = _whole(member[0])
        value = member[1]
        if decode_string(member[0]) == decode_string(RESERVED):
            member[1] = _metadata(value)
        elif type(value) is Obj:
            value.members[:] = [field for field in value.members if decode_string(field[0]) in _NAMES]
            _entry(file, {decode_string(field[0]): field for field in value.members})


def _metadata(value: Value) -> Value:
    """Return metadata that cannot be mistaken for an entry; ``null`` becomes an empty map (MET-02)."""
    if type(value) is not Obj:
        return Obj([]) if text(value).strip() == b"null" else value
    for pair in value.members:
        pair[:] = map(_whole, pair)
        key = decode_string(pair[0])
        if key in _NAMES:
            pair[0] = text(pair[0]).replace(json.dumps(key).encode(), json.dumps(f"{key[:-1]}_").encode())
    return value


def _whole(value: Value) -> Value:
    if type(value) is not bytes or b"\\u" not in value:
        return value
    return _HALF.sub(lambda found: found[1] or _LETTER, value.decode()).encode()


def _entry(file: File, fields: dict[str, list[Value]]) -> None:
    """Write a shape that every reader must accept, and bytes of BOOL that are 0 and 1 (DAT-05)."""
    if fields.keys() != _NAMES:
        return
    shape, offsets = (integers(_bare(fields[name][1])) for name in ("shape", "data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2:
        return
    begin, end = offsets
    dtype = decode_string(fields["dtype"][1])
    fit = _shape(shape, (end - begin) * 8, DTYPE_BITS.get(dtype, 8))
    if fit != shape:
        fields["shape"][1] = numbers(*fit)
    if dtype == "BOOL":
        file.data = file.data[:begin] + bytes(byte & 1 for byte in file.data[begin:end]) + file.data[end:]


def _shape(shape: list[int], size: int, width: int) -> list[int]:
    """Return a shape of few dimensions (SHP-10), with small ones beside a zero (SHP-06, SHP-08).

    With a zero beside an overflow the size is undecided: if the range is not empty, its size in bits decides.
    """
    if 0 in shape and size > 0:
        return [size // width]
    surplus = max(len(shape) - MAX_RANK, 0)
    few = [prod(shape[: surplus + 1]), *shape[surplus + 1 :]] if surplus else shape
    large = sorted({dim for dim in few if dim >= BESIDE_ZERO}) if 0 in few else []
    return [BESIDE_ZERO + large.index(dim) if dim in large else dim for dim in few]


def _bare(value: Value) -> Value:
    if type(value) is not Arr:
        return value
    return Arr([item.strip() if type(item) is bytes else item for item in value.items])
