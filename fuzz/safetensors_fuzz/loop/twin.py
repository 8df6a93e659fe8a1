"""The valid file most similar to a file that readers may reject. Only the disputed part differs."""

from __future__ import annotations

import json
import re
from math import prod

from safetensors_corpus.features.draft import decode_string
from safetensors_corpus.features.entries import integers, numbers
from safetensors_corpus.features.tree import Arr, File, Obj, Value, parse, text
from safetensors_corpus.features.vocabulary import FIELDS, RESERVED
from safetensors_reference import explain
from safetensors_reference.rules.dtypes import DTYPE_BITS

MAX_RANK = 8
"""Highest rank that every reader must support (SHP-10)."""
BESIDE_ZERO = 7
"""Smallest replacement for large dimensions of an empty tensor. Distinct dimensions remain distinct."""
_NAMES = frozenset(map(decode_string, FIELDS))
_HALF = re.compile(r"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\[^u])|\\u[dD][89a-fA-F]..")
"""Matches a surrogate pair or short escape, which stays as it is, or a lone surrogate."""
_LETTER = r"\u0061"


def valid_twin(data: bytes) -> bytes | None:
    """Return the most similar valid file, or None if there is no such file."""
    file = parse(data)
    root = file.root
    if type(root) is not Obj:
        return None
    length = len(file.header())
    root.head = root.head.strip()
    try:
        for member in root.members:
            member[0] = _without_lone_surrogates(member[0])
            value = member[1]
            if decode_string(member[0]) == decode_string(RESERVED):
                member[1] = _metadata(value)
            elif type(value) is Obj:
                value.members[:] = [field for field in value.members if decode_string(field[0]) in _NAMES]
                _entry(file, {decode_string(field[0]): field for field in value.members})
    except ValueError:  # the name is not a JSON string
        return None
    file.padding = b" " * max(length - len(text(root)), 0)
    made = file.render()
    return made if explain(made, "hardened").valid else None


def _metadata(value: Value) -> Value:
    """Rename metadata keys that look like fields of an entry. ``null`` becomes an empty map (MET-02)."""
    if type(value) is not Obj:
        return Obj([]) if text(value).strip() == b"null" else value
    for pair in value.members:
        pair[:] = map(_without_lone_surrogates, pair)
        key = decode_string(pair[0])
        if key in _NAMES:
            pair[0] = text(pair[0]).replace(json.dumps(key).encode(), json.dumps(f"{key[:-1]}_").encode())
    return value


def _without_lone_surrogates(value: Value) -> Value:
    if type(value) is not bytes or b"\\u" not in value:
        return value
    return _HALF.sub(lambda match: match[1] or _LETTER, value.decode()).encode()


def _entry(file: File, fields: dict[str, list[Value]]) -> None:
    """Write a shape that every reader must support, and valid BOOL bytes (DAT-05)."""
    if fields.keys() != _NAMES:
        return
    shape, offsets = (
        integers(Arr([item.strip() if type(item) is bytes else item for item in value.items]))
        if type(value) is Arr
        else None
        for value in (fields["shape"][1], fields["data_offsets"][1])
    )
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
    """Return a shape with few dimensions (SHP-10), all of them small in an empty tensor (SHP-06, SHP-08)."""
    if 0 in shape and size > 0:
        return [size // width]
    surplus = max(len(shape) - MAX_RANK, 0)
    few = [prod(shape[: surplus + 1]), *shape[surplus + 1 :]] if surplus else shape
    large = sorted({dim for dim in few if dim >= BESIDE_ZERO}) if 0 in few else []
    return [BESIDE_ZERO + large.index(dim) if dim in large else dim for dim in few]
