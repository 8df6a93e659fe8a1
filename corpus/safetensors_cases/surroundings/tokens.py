"""Model of tokens: one mistake between the tokens of a header, in any container and position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from safetensors_corpus.author.file import FileBuilder

from .model import Levels, Model, Property, Row, Topic, merged
from .scene import padding

PROPERTIES = {
    "inside": Property(
        "kind of container",
        {
            "header": "",
            "entry": "in an entry",
            "map": "in the metadata map",
            "shape": "in a shape",
            "range": "in a pair of offsets",
        },
    ),
    "at": Property(
        "position in the container",
        {"between": "", "infront": "before the first item", "atend": "after the last item"},
    ),
    "space": Property(
        "whitespace around the mistake",
        {"nospace": "", "blank": "next to spaces", "line": "next to line feeds", "tabs": "next to tabs"},
    ),
    "tensors": Property(
        "tensor with the mistake",
        {
            "onetensor": "",
            "firsttensor": "in the first of three tensors",
            "lasttensor": "in the last of three tensors",
        },
    ),
    "metadata": Property("position of the metadata", {"mfirst": "", "mlast": "metadata after the tensors"}),
    "padding": Property(
        "where the header ends",
        {"pad8": "", "tight": "unpadded header", "longpad": "5,000 spaces of padding"},
    ),
}
_SPACES = {"nospace": "", "blank": " ", "line": "\r\n", "tabs": "\t"}
Broken = Callable[[str, Sequence[str], str, Row], str]
"""Function that takes the opening token, the items, the closing token and the row, and returns a container
with the mistake.
"""


def _write(
    row: Row,
    f: FileBuilder,
    broken: Broken,
    behind: bytes = b"",
    last: bytes = b"",
    encoding: str = "utf-8",
    first: bytes = b"",
) -> None:
    count = 1 if row["tensors"] == "onetensor" else 3
    subject = 2 if row["tensors"] == "lasttensor" else 0

    def container(name: str, opening: str, items: Sequence[str], closing: str, here: bool = True) -> str:
        if here and row["inside"] == name:
            return broken(opening, items, closing, row)
        return opening + ",".join(items) + closing

    members = []
    for index in range(count):
        here, begin = index == subject, 8 * index
        shape = container("shape", "[", ["2", "1"], "]", here)
        offsets = container("range", "[", [str(begin), str(begin + 8)], "]", here)
        fields = ['"dtype":"F32"', f'"shape":{shape}', f'"data_offsets":{offsets}']
        members.append(f'"{"abc"[index]}":' + container("entry", "{", fields, "}", here))
        f.gap(8, index + 1)
    metadata = '"__metadata__":' + container("map", "{", ['"format":"pt"', '"k":"v"'], "}")
    members.insert(0 if row["metadata"] == "mfirst" else count, metadata)
    header = first + container("header", "{", members, "}").encode(encoding)
    f.header = header + behind + padding(row, len(header)) + last


def _inserted(token: str) -> Broken:
    """Insert a token before the items, between the first two, or after the last."""

    def broken(opening: str, items: Sequence[str], closing: str, row: Row) -> str:
        blank = _SPACES[row["space"]]
        put = blank + token + blank
        if row["at"] == "infront":
            return opening + put + ",".join(items) + closing
        if row["at"] == "atend":
            return opening + ",".join(items) + put + closing
        return opening + items[0] + "," + put + ",".join(items[1:]) + closing

    return broken


def _comma(token: str) -> Broken:
    def broken(opening: str, items: Sequence[str], closing: str, row: Row) -> str:
        blank = _SPACES[row["space"]]
        return opening + items[0] + blank + token + blank + ",".join(items[1:]) + closing

    return broken


def _colon(token: str) -> Broken:
    def broken(opening: str, items: Sequence[str], closing: str, row: Row) -> str:
        blank, index = _SPACES[row["space"]], len(items) - 1 if row["at"] == "atend" else 0
        changed = [
            item.replace('":', f'"{blank}{token}{blank}', 1) if n == index else item
            for n, item in enumerate(items)
        ]
        return opening + ",".join(changed) + closing

    return broken


def _closed(form: Callable[[str], str]) -> Broken:
    def broken(opening: str, items: Sequence[str], closing: str, row: Row) -> str:
        return opening + ",".join(items) + _SPACES[row["space"]] + form(closing)

    return broken


_OTHER = {"}": "]", "]": "}"}
OBJECTS: Levels = {"inside": ("header", "entry", "map")}
BETWEEN: Levels = {"at": ("between",)}
SPACED: Levels = {"space": ("blank", "line", "tabs")}
AT_ENDS: Levels = {"at": ("infront", "atend")}
AT_END: Levels = {"at": ("atend",)}
WHOLE: Levels = {"inside": ("header",), "at": ("atend",), "space": ("nospace",)}
NOT_JSON = ("HDR_NOT_JSON",)
CLOSED = ("HDR_NOT_JSON", "HDR_BAD_PADDING", "ENT_UNKNOWN_FIELD", "MET_VALUE_NOT_STRING")


def _topic(about: str, broken: Broken, *only: Levels, codes: tuple[str, ...] = NOT_JSON) -> Topic:
    return Topic(about, lambda row, f: _write(row, f, broken), ("HDR-07",), codes, merged(only))


def _behind(about: str, rules: str, text: bytes, last: bytes = b"") -> Topic:
    codes = ("HDR_BAD_PADDING", "HDR_NOT_JSON")
    plain = _closed(lambda closing: closing)
    return Topic(about, lambda row, f: _write(row, f, plain, text, last), tuple(rules.split()), codes, WHOLE)


def _before(about: str, rules: str, text: bytes = b"", encoding: str = "utf-8") -> Topic:
    codes: tuple[str, ...] = ("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT")
    if encoding != "utf-8":
        codes = ("HDR_NOT_UTF8", *codes)
    plain = _closed(lambda closing: closing)
    return Topic(
        about,
        lambda row, f: _write(row, f, plain, encoding=encoding, first=text),
        tuple(rules.split()),
        codes,
        WHOLE,
    )


TOKENS = Model(
    "tokens",
    PROPERTIES,
    (),
    {
        "comma-more": _topic("an extra comma", _inserted(",")),
        "comma-missing": _topic("a missing comma between two items", _comma(""), BETWEEN, SPACED),
        "semicolon": _topic("a semicolon instead of a comma", _comma(";"), BETWEEN),
        "colon-missing": _topic("a missing colon after a key", _colon(""), OBJECTS, AT_ENDS),
        "colon-twice": _topic("two colons after a key", _colon("::"), OBJECTS, AT_ENDS),
        "equals-sign": _topic("an equals sign instead of a colon", _colon("="), OBJECTS, AT_ENDS),
        "not-closed": _topic("a container that is not closed", _closed(lambda _: ""), AT_END, codes=CLOSED),
        "closed-otherwise": _topic(
            "a container that is closed by the wrong bracket", _closed(_OTHER.__getitem__), AT_END
        ),
        "closed-twice": Topic(
            "a container that is closed twice",
            lambda row, f: _write(row, f, _closed(lambda closing: 2 * closing)),
            lambda row: ("HDR-06", "HDR-03") if row["inside"] in OBJECTS["inside"] else ("HDR-07",),
            lambda row: (
                ("HDR_BAD_PADDING", "HDR_NOT_JSON") if row["inside"] in OBJECTS["inside"] else NOT_JSON
            ),
            AT_END,
        ),
        "comment": _topic("a comment", _inserted("/*c*/")),
        "line-comment": _topic("a comment that extends to the end of the line", _inserted("//\n")),
        "bare-word": _topic("a word that JSON does not define", _inserted("x")),
        "nul-between": _topic("a NUL between tokens", _inserted("\0")),
        "form-feed-between": _topic("a form feed between tokens", _inserted("\f")),
        "no-break-space": _topic("a no-break space between tokens", _inserted("\u00a0")),
        "mark-between": _topic("a byte-order mark between tokens", _inserted("\ufeff")),
        "nul-behind": _behind("a NUL after the brace", "HDR-03", b"\0"),
        "nuls-behind": _behind("sixteen NUL bytes after the brace", "HDR-03", bytes(16)),
        "letter-behind": _behind("a letter after the brace", "HDR-03 HDR-06", b"x"),
        "letter-behind-spaces": _behind(
            "a letter after seven spaces of padding", "HDR-03 HDR-06", b"       x"
        ),
        "letter-last": _behind("a letter after the padding", "HDR-03", b"", b"x"),
        "mark-behind": _behind("a byte-order mark after the brace", "HDR-05 HDR-03", b"\xef\xbb\xbf"),
        "comma-behind": _behind("a comma after the brace", "HDR-03", b","),
        "form-feed-behind": _behind("a form feed after the brace", "HDR-03", b"\f"),
        "no-break-space-behind": _behind("a no-break space after the brace", "HDR-03", b"\xc2\xa0"),
        "mark-before": _before("a byte-order mark before the brace", "HDR-05 HDR-02", b"\xef\xbb\xbf"),
        "nul-before": _before("a NUL before the brace", "HDR-02", b"\0"),
        "form-feed-before": _before("a form feed before the brace", "HDR-02", b"\f"),
        "no-break-space-before": _before("a no-break space before the brace", "HDR-02", b"\xc2\xa0"),
        "in-array": Topic(
            "the header object inside an array",
            lambda row, f: _write(row, f, _closed(lambda closing: f"{closing}]"), first=b"["),
            ("HDR-06",),
            ("HDR_NOT_OBJECT", "HDR_BAD_START", "HDR_NOT_JSON"),
            WHOLE,
        ),
        "utf-16-little": _before(
            "a header in little-endian UTF-16", "HDR-01 HDR-05", b"\xff\xfe", "utf-16-le"
        ),
        "utf-16-big": _before("a header in big-endian UTF-16", "HDR-01 HDR-05", b"\xfe\xff", "utf-16-be"),
        "nul-last": _behind("a NUL after the padding", "HDR-03", b"", b"\0"),
        "object-behind": _behind("a second object after the brace", "HDR-06 HDR-03", b"{}"),
        "brace-behind": _behind("a second closing brace after the first", "HDR-06 HDR-03", b"}"),
    },
)
