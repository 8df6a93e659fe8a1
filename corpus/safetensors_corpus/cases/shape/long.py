"""Shapes of several hundred dimensions: what stands behind the first ones, and how they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, chooses, reject, rejects

if TYPE_CHECKING:
    from ...author.file import FileBuilder

ONES = ",".join(["1"] * 300)
SPACED = " ,\t".join(["1"] * 300)


def _raw(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    shape = [1] * 300 + value[1]
    size = 0 if 0 in shape else 2 if 2 in shape else 1
    f.tensor("w", "U8", shape, bytes(range(size)), fields={"shape": value[0]})


@chooses(
    "high-rank",
    "SHP-10",
    options={"accept": ACCEPT, "reject": reject("LIM_RANK")},
    over={
        "two": (f"[{ONES},2]", [2]),
        "two-between-spaces": (f"[\r\n{SPACED}\n,\t 2 ]", [2]),
        "zero": (f"[{ONES},0]", [0]),
        "one-to-nine": (f"[{ONES},0,1234567890,56789]", [0, 1234567890, 56789]),
    },
)
def many(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    """A shape of 300 ones and then $slug."""
    _raw(f, value)


@rejects(
    "SHP-01",
    codes=("SHP_BAD_TYPE", "ENT_BAD_INTEGER"),
    over={
        "text": f'[{ONES},"1"]',
        "null": f"[{ONES},null]",
        "true": f"[{ONES},true]",
        "array": f"[{ONES},[1]]",
        "object": f"[{ONES},{{}}]",
    },
)
@rejects(
    "SHP-01",
    codes="ENT_BAD_INTEGER",
    over={"minus-one": f"[{ONES},0,-1]", "half": f"[{ONES},0.5]"},
)
@rejects(
    "SHP-02",
    codes="ENT_BAD_INTEGER",
    over={
        "minus-zero": f"[{ONES},-0]",
        "one-point-zero": f"[{ONES},0,1.0]",
        "exponent": f"[{ONES},0,1e1]",
    },
)
@rejects(
    "SHP-07",
    codes=("ENT_BAD_INTEGER", "SHP_OVERFLOW"),
    over={"2p64": f"[{ONES},0,{2**64}]", "21-digits": f"[{ONES},0,1{'0' * 20}]"},
)
@rejects(
    "HDR-07",
    codes=("HDR_NOT_JSON", "ENT_BAD_INTEGER", "SHP_BAD_TYPE"),
    over={
        "leading-zero": f"[{ONES},0,01]",
        "two-zeros": f"[{ONES},00]",
        "no-comma": f"[{ONES},0 1]",
        "no-commas-at-all": f"[{SPACED.replace(',', ' ')} 0]",
        "two-commas": f"[{ONES},,0]",
        "comma-at-end": f"[{ONES},0,]",
        "comma-at-start": f"[,{ONES},0]",
        "colon": f"[{ONES}:0]",
        "letter-behind-digit": f"[{ONES},0,1a]",
        "form-feed": f"[{ONES},\f0]",
        "no-break-space": f"[{ONES},\u00a00]",
        "closed-by-brace": f"[{ONES},0}}",
        "wide-digit": f"[{ONES},\uff10]",
    },
)
def many_and_a_fault(f: FileBuilder, value: str) -> None:
    """A shape of 300 ones, and behind them what is no dimension: $slug."""
    f.tensor("w", "U8", [1] * 300 + [0], b"", fields={"shape": value})
