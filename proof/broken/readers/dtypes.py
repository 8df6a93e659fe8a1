"""Broken readers with a fault in dtype codes and their widths (DTY), generated for every code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from proof.planted import Planted

from ..correct.json import Grammar, Number, Pairs
from ..correct.reader import READER, WIDTHS, SmallReader, Tensor, exact_bits, whole_bytes
from ..variant import Panic, named, reading

TAKEN_FOR = {
    "F4": "F6_E2M3", "F6_E2M3": "F6_E3M2", "F6_E3M2": "F6_E2M3", "BOOL": "U8", "U8": "I8", "I8": "U8",
    "F8_E5M2": "F8_E4M3", "F8_E4M3": "F8_E4M3FNUZ", "F8_E8M0": "U8", "F8_E4M3FNUZ": "F8_E4M3",
    "F8_E5M2FNUZ": "F8_E5M2", "I16": "U16", "U16": "BF16", "F16": "BF16", "BF16": "F16", "I32": "U32",
    "U32": "I32", "F32": "I32", "I64": "U64", "U64": "I64", "F64": "C64", "C64": "F64",
}  # fmt: skip
ALIASES = {
    "float32": "F32", "float16": "F16", "f32": "F32", "f4": "F4", "<f4": "F32", "F128": "F64", "C128": "C64",
    "I128": "I64", "FP8_E4M3": "F8_E4M3", "F8_E4M3FN": "F8_E4M3", "F8": "F8_E4M3", "F6": "F6_E2M3",
    "E8M0": "F8_E8M0", "U4": "F4", "I4": "F4", "F4_E2M1": "F4", "F8_E4M3B11FNUZ": "F8_E4M3FNUZ",
     "bool": "BOOL",
}  # fmt: skip


@dataclass(frozen=True)
class _Renaming(SmallReader):
    """Changes the dtype code before or after it is checked."""

    read_as: Callable[[str], str] = str
    told_as: Callable[[str], str] = str

    def dtype(self, value: object) -> str:
        return super().dtype(self.read_as(value) if type(value) is str else value)

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        found = super().tensor(name, fields)
        return replace(found, dtype=self.told_as(found.dtype))


class DtypeUnknownSkipped(SmallReader, without=("hole", "trailing")):
    """Skips tensors with an unknown dtype."""

    def entry(self, name: str, value: object) -> Tensor | None:
        if (
            isinstance(value, Pairs)
            and type(dtype := dict(value).get("dtype")) is str
            and dtype not in WIDTHS
        ):
            return None
        return super().entry(name, value)


class DtypeFirstKey(SmallReader):
    """Uses the first string inside the dtype."""

    def dtype(self, value: object) -> str:
        while isinstance(value, list) and value:
            value = value[0]
            value = value[0] if isinstance(value, tuple) else value
        return super().dtype(value)


class _ByNumber(SmallReader):
    """Interprets a number as an index into its table of dtypes."""

    def dtype(self, value: object) -> str:
        if isinstance(value, Number | bool):
            return "F32"
        if value is None or isinstance(value, list):
            raise Panic("no string")
        return super().dtype(value)


def rounded_down(width: int, shape: Sequence[int]) -> int:
    return exact_bits(width, shape) // 8


def rounded_up(width: int, shape: Sequence[int]) -> int:
    return (exact_bits(width, shape) + 7) // 8


def _rows_rounded(width: int, shape: Sequence[int]) -> int:
    if not shape:
        return rounded_up(width, shape)
    return rounded_up(width, shape[-1:]) * exact_bits(1, shape[:-1])


def _groups_of_four(width: int, shape: Sequence[int]) -> int:
    count = exact_bits(1, shape)
    return (count + 3) // 4 * 3 if width == 6 else rounded_up(width, shape)


def _even_rows(width: int, shape: Sequence[int]) -> int:
    if width < 8:
        READER.demand("even-rows", bool(shape) and shape[-1] % 2 == 0)
    return whole_bytes(width, shape)


PACKED: tuple[tuple[str, str, Callable[[int, Sequence[int]], int]], ...] = (
    ("rounded-down", "Rounds sizes down to whole bytes.", rounded_down),
    ("rounded-up", "Rounds sizes up to whole bytes.", rounded_up),
    ("rows-rounded-up", "Begins every row of a packed dtype at a byte boundary.", _rows_rounded),
    ("one-per-byte", "Counts one byte for each packed element.",
     lambda width, shape: whole_bytes(max(width, 8), shape)),
    ("pairs-counted", "Interprets the shape of F4 as a number of bytes.",
     lambda width, shape: whole_bytes(8 if width == 4 else width, shape)),
    ("six-as-four", "Uses four bits for the six-bit codes.",
     lambda width, shape: whole_bytes(4 if width == 6 else width, shape)),
    ("six-in-groups", "Rounds the six-bit codes up to groups of four elements.", _groups_of_four),
    ("even-rows", "Rejects packed dtypes whose rows do not fill whole bytes.", _even_rows),
    ("width-in-bytes", "Stores widths in whole bytes, so packed dtypes have a width of zero.",
     lambda width, shape: whole_bytes(width // 8 * 8, shape)),
)  # fmt: skip


def _slug(code: str) -> str:
    return code.lower().replace("_", "-")


def _per_code() -> Iterator[Planted]:
    for code, width in WIDTHS.items():
        others = {other: w for other, w in WIDTHS.items() if other != code}
        yield reading(
            f"dtype-{_slug(code)}-missing", f"Does not know the code {code}.", replace(READER, widths=others)
        )
        yield reading(f"dtype-{_slug(code)}-too-wide", f"Uses twice the width for {code}.",
                      replace(READER, widths=WIDTHS | {code: 2 * width}))  # fmt: skip
        yield reading(f"dtype-{_slug(code)}-unchecked", f"Does not compare range and size for {code}.",
                      _unsized(code))  # fmt: skip
        other = TAKEN_FOR[code]
        yield reading(f"dtype-{_slug(code)}-as-{_slug(other)}", f"Returns {code} as {other}.",
                      _Renaming(told_as=lambda found, a=code,
                       b=other: b if found == a else found))  # type: ignore[misc]  # fmt: skip


def _prefix(code: str) -> str:
    return next((known for known in sorted(WIDTHS, key=len, reverse=True) if code.startswith(known)), code)


READ_AS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("any-case", "Accepts dtypes in any case.", str.upper),
    ("stripped", "Strips dtypes.", str.strip),
    ("until-nul", "Ends dtypes at the first NUL.", lambda code: code.split("\0")[0]),
    ("prefix", "Accepts dtypes that begin with a code.", _prefix),
    ("cut-at-11", "Cuts dtypes at the length of the longest code.", lambda code: code[:11]),
    ("contained", "Searches for a code inside the dtype.",
     lambda code: next((known for known in sorted(WIDTHS, key=len, reverse=True) if known in code), code)),
    ("aliases", "Accepts the dtype names of frameworks.", lambda code: ALIASES.get(code, code)),
    ("compatibility", "Converts full-width letters in dtypes to ASCII.",
     lambda code: "".join(chr(ord(c) - 0xFEE0) if "\uff01" <= c <= "\uff5e" else c for c in code)),
    ("default", "Treats unknown dtypes as F32.", lambda code: code if code in WIDTHS else "F32"),
    ("bytes", "Treats unknown dtypes as U8.", lambda code: code if code in WIDTHS else "U8"),
)  # fmt: skip


def _unsized(code: str) -> SmallReader:
    return READER.changed(
        tensor=lambda right, name, fields: (
            READER.without("range-size").tensor(name, fields)
            if fields["dtype"] == code
            else right(name, fields)
        )
    )


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("dtype-unknown-unchecked", "Does not check the layout of files that contain an unknown dtype.",
            READER.without("dtype-known").changed(check_layout=lambda right, tensors, size: (
                right(tensors, size) if all(tensor.dtype in WIDTHS for tensor in tensors) else None))),
    reading("dtype-object-form", "Accepts a dtype written as an object.",
            READER.changed(dtype=lambda right, value: right(
                value[0][0] if isinstance(value, Pairs) and len(value) == 1 and value[0][1] is None
                else value))),
    reading("dtype-value-in-object", "Uses the value inside a dtype written as an object.",
            READER.changed(dtype=lambda right, value: right(
                value[-1][1] if isinstance(value, Pairs) and value else value))),
    *_per_code(),
    *(reading(f"dtype-{name}", about, _Renaming(read_as=change)) for name, about, change in READ_AS),
    *(reading(f"packed-{name}", about, replace(READER, size=size)) for name, about, size in PACKED),
    reading("dtype-unknown-unsized", "Accepts unknown dtypes without checking the size.",
            READER.without("dtype-known")),
    reading("dtype-coerced", "Treats a dtype that is not a string as F32.",
            READER.changed(dtype=lambda right, value: right(value if type(value) is str else "F32"))),
    reading("dtype-crash", "Treats a dtype that is not a string like a string.",
            _ByNumber(grammar=Grammar(left_out=frozenset(["value"])))),
)  # fmt: skip
