"""Properties over tens of thousands of inputs, every night. Each input has a seed of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

from safetensors_reference import InvalidFileError, explain, read_header, safe_open
from safetensors_reference import numpy as with_numpy
from safetensors_reference.header.read import prove
from safetensors_reference.rules.book import PROFILES
from safetensors_reference.rules.errors import AccessError

from .naive import BITS
from .strategies import NAMES, SCRAPS, VALUES
from .support import make, raw_bytes
from .writing.samples import content

pytestmark = pytest.mark.nightly
COUNT = 20_000
DEEP = 1000
DTYPES = sorted(BITS)


def each(what: str, hold: Callable[[random.Random], None]) -> None:
    """Call ``hold`` with the seed of each input; a failure tells the number."""
    for number in range(COUNT):
        try:
            hold(random.Random(f"{what} {number}"))
        except BaseException as err:
            err.add_note(f"{what}: input {number}")
            raise


def some_shape(rng: random.Random, most: int = 4) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, 1, 2, 3, 4, 5)) for _ in range(rng.randint(0, most)))


def some_names(rng: random.Random, most: int = 3) -> list[str]:
    text = ["".join(chr(rng.choice((rng.randrange(128), rng.randrange(0xD800)))) for _ in range(3))]
    return rng.sample([*NAMES, *text, "é" * 200], rng.randint(0, most))


def some_part(rng: random.Random, dim: int) -> Any:
    bound = (None, 0, 1, -1, dim, -dim, dim + 1, 2**70, -(2**70), rng.randint(-6, 6))
    way = rng.randrange(6)
    if way < 2:
        index = rng.randint(-dim - 1, dim) if rng.random() < 0.2 else rng.randint(-dim, max(dim - 1, -dim))
        return np.int64(index) if way else index
    return slice(
        rng.choice(bound), rng.choice(bound), rng.choice((None, 1, -1, 2, -3, 2**70, rng.randint(-3, 3)))
    )


def some_index(rng: random.Random, shape: tuple[int, ...]) -> Any:
    dims = shape[: rng.randint(0, len(shape))]
    parts = [some_part(rng, dim) for dim in dims]
    if rng.random() < 0.05:
        parts.append(0)  # perhaps one too many
    if rng.random() < 0.3:
        # What follows an ellipsis counts from the end.
        cut = rng.randint(0, len(parts))
        behind = [some_part(rng, dim) for dim in shape[len(shape) - (len(parts) - cut) :]]
        parts = [*parts[:cut], ..., *behind]
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


def test_slices_are_those_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    rng = random.Random(0)
    types = ("U8", "I16", "F32", "F64", "C64", "BF16", "F8_E5M2")
    arrays = {str(n): content(types[n % len(types)], some_shape(rng), rng) for n in range(400)}
    with_numpy.save_file(arrays, path)
    refused = 0
    with ExitStack() as stack:
        ways = [(framework, mode) for framework in ("np", "pt", "raw") for mode in ("copy", "mmap")]
        files: Any = [(f, stack.enter_context(safe_open(path, f, mode=m))) for f, m in ways]  # type: ignore[call-overload]

        def hold(rng: random.Random) -> None:
            nonlocal refused
            name = rng.choice(list(arrays))
            index = some_index(rng, arrays[name].shape)
            wanted = None
            with suppress(IndexError, ValueError):
                wanted = np.asarray(arrays[name][index])
            refused += wanted is None
            for framework, file in files:
                part = file.get_slice(name)
                if wanted is None:
                    with pytest.raises(AccessError):
                        part[index]
                    continue
                found = part[index]
                assert (bytes(found) if framework == "raw" else raw_bytes(found)) == wanted.tobytes()
                assert framework == "raw" or tuple(found.shape) == wanted.shape

        each("slice", hold)
    assert COUNT / 100 < refused < COUNT / 3


class Plan:
    """A valid file as its parts, which a fault may change before it is written."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.members: dict[str, dict[str, str]] = {}
        self.ranges: list[tuple[int, int]] = []
        at = 0
        for name in [*some_names(rng), "w"]:
            dtype = rng.choice([d for d in DTYPES if BITS[d] >= 8])
            shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
            end = at + prod(shape) * BITS[dtype] // 8
            offsets = f"[{at},{end}]"
            self.members[name] = {"dtype": json.dumps(dtype), "shape": str(shape), "data_offsets": offsets}
            self.ranges.append((at, end))
            at = end
        self.data = rng.randbytes(at)
        self.metadata: str | None = rng.choice((None, "{}", '{"format":"pt"}'))

    @property
    def entry(self) -> dict[str, str]:
        """The entry that a fault is put into, which has the last range."""
        return self.members["w"]

    def header(self) -> str:
        rows = [] if self.metadata is None else [f'"__metadata__":{self.metadata}']
        for name, entry in self.members.items():
            fields = list(entry.items())
            self.rng.shuffle(fields)
            body = ",".join(f"{json.dumps(field)}:{value}" for field, value in fields)
            rows.append(f"{json.dumps(name)}:{{{body}}}")
        self.rng.shuffle(rows)
        return "{" + ",".join(rows) + "}" + " " * self.rng.randrange(9)


def in_field(field: str, *values: str) -> Callable[[Plan], bytes]:
    def write(plan: Plan) -> bytes:
        plan.entry[field] = plan.rng.choice(values)
        return make(plan.header(), plan.data)

    return write


def in_text(change: Callable[[random.Random, str], str | bytes]) -> Callable[[Plan], bytes]:
    return lambda plan: make(change(plan.rng, plan.header()), plan.data)


def in_range(change: Callable[[int, int], tuple[int, int]]) -> Callable[[Plan], bytes]:
    def write(plan: Plan) -> bytes:
        begin, end = change(*plan.ranges[-1])
        plan.entry["data_offsets"] = f"[{begin},{end}]"
        return make(plan.header(), plan.data)

    return write


def in_length(value: Callable[[int, int], int]) -> Callable[[Plan], bytes]:
    def write(plan: Plan) -> bytes:
        header = plan.header()
        return make(header, plan.data, value(len(header.encode()), len(plan.data)))

    return write


def missing(plan: Plan) -> bytes:
    del plan.entry[plan.rng.choice(list(plan.entry))]
    return make(plan.header(), plan.data)


def member(plan: Plan, name: str, value: str) -> bytes:
    """Add a member at the end of the header."""
    return make(f"{plan.header().rstrip()[:-1]},{json.dumps(name)}:{value}}}", plan.data)


def unknown(plan: Plan) -> bytes:
    deep = ("[" * DEEP + "]" * DEEP, '{"":' * DEEP + "0" + "}" * DEEP)
    body = "".join(f'"{field}":{value},' for field, value in plan.members.pop("w").items())
    value = plan.rng.choice(("null", "1", '"x"', "[[0]]", '{"a":{}}', *deep))
    plan.members["v"] = {"dtype": '"U8"', "shape": "[0]", "data_offsets": "[0,0]"}
    return member(plan, "w", f'{{{body}"x":{value}}}')


def again(plan: Plan) -> bytes:
    return member(
        plan, "w", "{" + ",".join(f'"{field}":{value}' for field, value in plan.entry.items()) + "}"
    )


def hole(plan: Plan) -> bytes:
    begin, end = plan.ranges[-1]
    plan.entry["data_offsets"] = f"[{begin + 1},{end + 1}]"
    return make(plan.header(), plan.data + b"!")


def metadata(*values: str) -> Callable[[Plan], bytes]:
    def write(plan: Plan) -> bytes:
        plan.metadata = plan.rng.choice(values)
        return make(plan.header(), plan.data)

    return write


BAD_NAMES = ('"q\x01"', '"\\x"', '"\\ud800"')
NO_OBJECTS = ("null", "1", "true", "[]", "[1,2]", '""')
FAULTS: list[tuple[str, Callable[[Plan], bytes]]] = [
    ("FRM_TOO_SHORT", lambda plan: make(plan.header(), plan.data)[: plan.rng.randrange(8)]),
    ("FRM_HEADER_EMPTY", in_length(lambda header, data: 0)),
    ("FRM_HEADER_OVER_LIMIT", in_length(lambda header, data: 2**63 - header)),
    ("FRM_HEADER_PAST_EOF", in_length(lambda header, data: header + data + 1)),
    ("HDR_NOT_UTF8", in_text(lambda rng, text: text.encode().replace(b'"w"', b'"w\xff"'))),
    ("HDR_BAD_START", in_text(lambda rng, text: rng.choice("\ufeff \n\0}x") + text)),
    ("HDR_NOT_OBJECT", in_text(lambda rng, text: rng.choice(("[]", '"x"', "1", "null", "   ")))),
    ("HDR_BAD_PADDING", in_text(lambda rng, text: text + rng.choice("\n\t\0x}"))),
    ("HDR_NOT_JSON", in_text(lambda rng, text: text.replace('":', '"' + rng.choice((";", "", "=")), 1))),
    ("HDR_NOT_JSON", in_text(lambda rng, text: text.rstrip()[:-1] + rng.choice((",}", "", "]")))),
    ("HDR_NOT_JSON", in_text(lambda rng, text: text.replace('"w"', rng.choice(BAD_NAMES)))),
    ("HDR_DUP_KEY", again),
    ("ENT_NOT_OBJECT", lambda plan: member(plan, "x", plan.rng.choice(NO_OBJECTS))),
    ("ENT_MISSING_FIELD", missing),
    ("ENT_UNKNOWN_FIELD", unknown),
    ("ENT_BAD_INTEGER", in_field("shape", "[-1]", "[1.0]", "[1e0]", "[-0]", f"[{2**64}]", "[0.5]")),
    ("ENT_BAD_INTEGER", in_field("data_offsets", "[-1,0]", "[0,1.5]", "[0,1e1]", '["0",1]', "[0,null]")),
    ("DTY_UNKNOWN", in_field("dtype", '"F33"', '"f32"', '""', '"U8 "', '"\\u0000"')),
    ("DTY_BAD_TYPE", in_field("dtype", "1", "null", "{}", '["U8"]', "true")),
    ("SHP_BAD_TYPE", in_field("shape", "1", "null", "{}", '"[1]"', "[null]", "[[1]]", "[true]")),
    ("SHP_OVERFLOW", in_field("shape", "[4294967296,4294967296]", "[18446744073709551615,2]")),
    ("OFF_BAD_PAIR", in_field("data_offsets", "0", "[]", "[0]", "[0,0,0]", "null", '{"0":0}')),
    ("OFF_REVERSED", in_range(lambda begin, end: (end, begin))),
    ("OFF_OUT_OF_BOUNDS", lambda plan: make(plan.header(), plan.data[:-1])),
    ("OFF_HOLE", hole),
    ("OFF_OVERLAP", lambda plan: member(plan, "x", '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}')),
    ("OFF_TRAILING", lambda plan: make(plan.header(), plan.data + b"!")),
    ("OFF_SIZE_MISMATCH", in_range(lambda begin, end: (begin, end - 1))),
    ("OFF_SIZE_MISMATCH", in_field("shape", "[0]", "[7,11]", "[1000000]")),
    ("MET_NOT_MAP", metadata("null", "1", "[]", '"x"')),
    ("MET_VALUE_NOT_STRING", metadata('{"a":1}', '{"a":null}', '{"a":{}}', '{"a":[]}')),
]  # fmt: skip


def agreed(data: bytes) -> None:
    """Hold explaining, reading and proving against one another under every profile."""
    for profile in PROFILES:
        explanation = explain(data, profile)
        if explanation.header is None:
            with pytest.raises(InvalidFileError) as caught:
                read_header(data, profile)
            assert caught.value.explanation.faults == explanation.faults
        else:
            header = read_header(data, profile)
            assert dict(header.tensors) == dict(explanation.header.tensors)
            assert header.metadata == explanation.header.metadata
        length = int.from_bytes(data[:8], "little")
        if 8 <= 8 + length <= len(data):
            proved = prove(data[8 : 8 + length], len(data) - 8 - length)
            assert proved is None or not (explanation.faults or explanation.tolerated)


def test_a_file_with_one_fault_is_told_so_and_all_paths_agree() -> None:
    seen = set()

    def hold(rng: random.Random) -> None:
        code, write = rng.choice(FAULTS)
        data = write(Plan(rng))
        faults = explain(data).faults
        assert faults, code
        assert faults[0].code == code, data
        seen.add(code)
        agreed(data)
        whole = Plan(rng)
        assert explain(make(whole.header(), whole.data)).valid

    each("fault", hold)
    assert seen == {code for code, _ in FAULTS}


def mutated(rng: random.Random) -> bytes:
    """Return a file after one to three changes of its text, or of the file."""
    plan = Plan(rng)
    text = bytearray(plan.header().encode())
    tokens = [bytes([char]) for char in b"{}[],:"]
    tokens += [b'"dtype"', b'"shape"', b'"data_offsets"', b'"__metadata__"']
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        way = rng.randrange(6)
        if way == 0:
            text[at : at + rng.randint(0, 2)] = rng.choice(SCRAPS)
        elif way == 1:
            # A whole value in the place of another.
            start = text.find(b":", at) + 1
            ends = [end for end in (text.find(mark, start) for mark in (b",", b"}")) if end >= 0]
            text[start : min(ends, default=start)] = rng.choice(VALUES)
        elif way == 2:
            token = rng.choice(tokens)
            found = text.find(token, at)
            if found >= 0:
                text[found : found + len(token)] = rng.choice((rng.choice(tokens), b"", token + token))
        elif way == 3:
            digits = [i for i, char in enumerate(text) if char in b"0123456789"]
            place = rng.choice(digits)
            text[place : place + 1] = rng.choice(
                (b"0", b"1", b"9", b"-0", b"", b"00", b"1e0", b"18446744073709551615")
            )
        elif way == 4:
            begin = rng.randrange(len(text))
            text[begin:begin] = text[begin : begin + rng.randint(1, 40)]
        else:
            text += rng.choice((b" ", b"\n", b"\0", b"}"))
    if rng.random() < 0.2:
        plan.data += rng.randbytes(rng.randint(0, 2))
    file = make(bytes(text), plan.data)
    return file[: rng.randint(0, len(file))] if rng.random() < 0.05 else file


@pytest.mark.skipif(version("safetensors") != "0.8.0", reason="the profile describes safetensors 0.8.0")
def test_the_official_profile_says_what_the_official_library_says() -> None:
    accepted = 0

    def hold(rng: random.Random) -> None:
        nonlocal accepted
        data = mutated(rng)
        header = explain(data, "official").header
        found: list[tuple[str, dict[str, Any]]] | None = None
        with suppress(safetensors.SafetensorError):
            found = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        assert (found is None) == (header is None), data
        if found is not None and header is not None:
            accepted += 1
            assert {
                name: (info["dtype"], tuple(info["shape"]), bytes(info["data"])) for name, info in found
            } == {
                t.name: (t.dtype, t.shape, data[header.data_start + t.begin : header.data_start + t.end])
                for t in header.tensors.values()
            }, data
        agreed(data)

    each("official", hold)
    assert accepted > COUNT / 50
