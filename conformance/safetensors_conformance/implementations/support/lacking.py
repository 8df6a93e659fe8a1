"""Feature names for the dtypes that a library lacks. This module runs in the library's environment."""

from collections.abc import Iterable

CODES = (
    *("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "BF16", "F32", "F64", "C64"),
    *("F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
)


def dtypes(*codes: str) -> tuple[str, ...]:
    return tuple("dtype-" + code.lower().replace("_", "-") for code in codes)


def all_but(known: Iterable[str]) -> tuple[str, ...]:
    known = set(known)
    return dtypes(*(code for code in CODES if code not in known))
