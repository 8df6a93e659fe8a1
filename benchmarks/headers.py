"""Headers that need a lot of memory. Each kind repeats a construct that is expensive to parse (rule LIM-03).

A kind is a function that takes the maximum header size in bytes. It returns the header and the number of data
bytes that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, product, repeat
from string import ascii_letters, digits

Filled = tuple[bytes, int]
Kind = Callable[[int], Filled]

_ENTRY = b'"dtype":"U8","shape":[0],"data_offsets":[0,0]'
_SHAPE = b'{"a":{"dtype":"U8","data_offsets":[0,1],"shape":['
_UNKNOWN = b'{"a":{%b,"x":' % _ENTRY


def _names() -> Iterator[bytes]:
    for length in count(1):
        for letters in product(ascii_letters + digits, repeat=length):
            yield "".join(letters).encode()


def _filled(
    head: bytes, items: Iterable[bytes] | Callable[[], Iterable[bytes]], tail: bytes, data_size: int = 0
) -> Kind:
    def fill(size: int) -> Filled:
        out = bytearray(head)
        for item in items() if callable(items) else items:
            if len(out) + len(item) + 1 + len(tail) > size:
                break
            out += item + b","
        out[-1:] = tail
        return bytes(out), data_size

    return fill


def _named(form: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: (form % name for name in _names())


def _long(head: bytes, text: bytes, tail: bytes) -> Kind:
    return lambda size: (head + text * ((size - len(head) - len(tail)) // len(text)) + tail, 0)


def _reversed(size: int) -> Filled:
    tensors = size // 60
    form = b'"%d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    return b"{" + b",".join(form % (i, i, i + 1) for i in reversed(range(tensors))) + b"}", tensors


KINDS: Mapping[str, Kind] = {
    "shape of ones": _filled(_SHAPE, repeat(b"1"), b"]}}", 1),
    "shape of 257": _filled(_SHAPE, repeat(b"257"), b"]}}"),
    "shape of many numbers": _filled(_SHAPE, lambda: (b"%d" % i for i in count(1000)), b"]}}"),
    "shape with a string": _filled(_SHAPE + b'"one",', repeat(b"1"), b"]}}", 1),
    "shape of strings": _filled(_SHAPE, repeat(b'""'), b"]}}", 1),
    "long number in a shape": _long(_SHAPE, b"7", b"]}}"),
    "long fraction in a shape": _long(_SHAPE + b"1.", b"7", b"e7]}}"),
    "many offsets": _filled(b'{"a":{"data_offsets":[', repeat(b"0"), b"]}}"),
    "dtype as a large object": _filled(b'{"a":{"dtype":{', repeat(b'"":0'), b"}}}"),
    "unknown array of objects": _filled(b'{"a":{"x":[', repeat(b"{}"), b"]}}"),
    "unknown array of numbers": _filled(_UNKNOWN + b"[", repeat(b"7"), b"]}}"),
    "unknown array of strings": _filled(_UNKNOWN + b"[", repeat(b'"\\n"'), b"]}}"),
    "unknown array of words": _filled(_UNKNOWN + b"[", repeat(b"nul"), b"]}}"),
    "unknown numbers out of range": _filled(_UNKNOWN + b"[", repeat(b"1e999"), b"]}}"),
    "unknown object of many keys": _filled(_UNKNOWN + b"{", _named(b'"%b":1'), b"}}}"),
    "unknown nesting, 4 levels": _filled(_UNKNOWN + b"[", repeat(b"[[[[]]]]"), b"]}}"),
    "unknown nesting, 120 levels": _filled(_UNKNOWN + b"[", repeat(b"[" * 120 + b"]" * 120), b"]}}"),
    "unknown numbers inside 120 levels": _filled(
        _UNKNOWN + b"[1e9," * 120, repeat(b"1e307"), b"]" * 120 + b"}}"
    ),
    "unknown long number": _long(_UNKNOWN, b"7", b"}}"),
    "unknown fields": _filled(b'{"a":{%b,' % _ENTRY, _named(b'"%b":1'), b"}}"),
    "repeated fields": _filled(b'{"a":{', repeat(b'"dtype":"U8"'), b"}}"),
    "metadata keys": _filled(b'{"__metadata__":{', _named(b'"%b":""'), b"}}"),
    "metadata keys repeated": _filled(b'{"__metadata__":{', repeat(b'"":""'), b"}}"),
    "metadata of numbers": _filled(b'{"__metadata__":{', _named(b'"%b":0'), b"}}"),
    "metadata as an array": _filled(b'{"__metadata__":[', repeat(b"0"), b"]}"),
    "metadata string": _long(b'{"__metadata__":{"k":"', b"x", b'"}}'),
    "metadata string of escapes": _long(b'{"__metadata__":{"k":"', b"\\n", b'"}}'),
    "metadata string of faults": _long(b'{"__metadata__":{"k":"', b"\x01a", b'"}}'),
    "metadata string beyond the BMP": _long('{"__metadata__":{"k":"😀\\n'.encode(), b"x", b'"}}'),
    "metadata string of JSON": _long(b'{"__metadata__":{"k":"', b'{\\"a\\":[1,2]}', b'"}}'),
    "tensors": _filled(b"{", _named(b'"%%b":{%b}' % _ENTRY), b"}"),
    "tensors, last one first": _reversed,
    "tensors and a fault": _filled(b'{"__metadata__":0,', _named(b'"%%b":{%b}' % _ENTRY), b"}"),
    "tensors as arrays": _filled(b"{", _named(b'"%b":["U8",[0],[0,0]]'), b"}"),
    "tensors with an unknown field": _filled(b"{", _named(b'"%%b":{%b,"x":0}' % _ENTRY), b"}"),
    "tensors of one name": _filled(b"{", repeat(b'"a":{%b}' % _ENTRY), b"}"),
    "tensors whose names are not UTF-8": _filled(b"{", _named(b'"\xff%%b":{%b}' % _ENTRY), b"}"),
    "names without a tensor": _filled(b"{", _named(b'"%b":{}'), b"}"),
    "one long name": _long(b'{"', b"x", b'":{%b}}' % _ENTRY),
    "one long name beyond the BMP": _long('{"😀'.encode(), b"x", b'":{%b}}' % _ENTRY),
    "one long name with a fault": _long('{"😀\\ud800'.encode(), b"x", b'":{"dtype":5}}'),
    "a string that does not end": _long(b'{"', b'\\"', b""),
    "an array of arrays": _filled(b"[", repeat(b"[]"), b"]"),
    "spaces after the object": _long(b"{}", b" ", b""),
    "line feeds after the object": _long(b"{}", b"\n", b""),
}


def written(kind: str, size: int) -> bytes:
    """Return a whole file of this kind, with a header of about ``size`` bytes."""
    header, data_size = KINDS[kind](size)
    return len(header).to_bytes(8, "little") + header + bytes(data_size)
