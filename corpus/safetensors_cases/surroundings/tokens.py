"""Model of tokens: one mistake between the tokens of a header, in any container and position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from safetensors_corpus.author.file import FileBuilder

from .model import Ids, Levels, Model, Property, Row, Topic, merged
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
Change = Callable[[list[str], str, str], None]
"""Function that changes the items of a container, given whitespace and the position of the mistake."""


def _write(
    row: Row,
    f: FileBuilder,
    change: Change | None = None,
    close: Callable[[str], str] | None = None,
    behind: bytes = b"",
    last: bytes = b"",
    encoding: str = "utf-8",
    first: bytes = b"",
) -> None:
    """Write a file in which one container has changed items, or is closed by the text from ``close``."""
    count = 1 if row["tensors"] == "onetensor" else 3
    subject = 2 if row["tensors"] == "lasttensor" else 0

    def container(name: str, brackets: str, items: list[str], here: bool = True) -> str:
        opening, closing = brackets[0], brackets[1]
        if here and row["inside"] == name:
            blank = _SPACES[row["space"]]
            if change is not None:
                change(items, blank, row["at"])
            if close is not None:
                closing = blank + close(closing)
        return opening + ",".join(items) + closing

    members = []
    for index in range(count):
        here, begin = index == subject, 8 * index
        shape = container("shape", "[]", ["2", "1"], here)
        offsets = container("range", "[]", [str(begin), str(begin + 8)], here)
        fields = ['"dtype":"F32"', f'"shape":{shape}', f'"data_offsets":{offsets}']
        members.append(f'"{"abc"[index]}":' + container("entry", "{}", fields, here))
        f.gap(8, index + 1)
    metadata = '"__metadata__":' + container("map", "{}", ['"format":"pt"', '"k":"v"'])
    members.insert(0 if row["metadata"] == "mfirst" else count, metadata)
    header = first + container("header", "{}", members).encode(encoding)
    f.header = header + behind + padding(row, len(header)) + last


def _inserted(token: str) -> Change:
    """Insert a token before the items, between the first two, or after the last."""

    def change(items: list[str], blank: str, at: str) -> None:
        if at == "atend":
            items[-1] += blank + token + blank
        else:
            index = int(at == "between")
            items[index] = blank + token + blank + items[index]

    return change


def _comma(token: str) -> Change:
    def change(items: list[str], blank: str, _at: str) -> None:
        items[:2] = [items[0] + blank + token + blank + items[1]]

    return change


def _colon(token: str) -> Change:
    def change(items: list[str], blank: str, at: str) -> None:
        index = -1 if at == "atend" else 0
        items[index] = items[index].replace('":', f'"{blank}{token}{blank}', 1)

    return change


OBJECTS: Levels = {"inside": ("header", "entry", "map")}
BETWEEN: Levels = {"at": ("between",)}
SPACED: Levels = {"space": ("blank", "line", "tabs")}
AT_ENDS: Levels = {"at": ("infront", "atend")}
WHOLE: Levels = {"inside": ("header",), "at": ("atend",), "space": ("nospace",)}
PADDING = "HDR_BAD_PADDING HDR_NOT_JSON"


def _topic(about: str, change: Change, *only: Levels) -> Topic:
    return Topic(about, partial(_write, change=change), "HDR-07", "HDR_NOT_JSON", merged(only))


def _closed(about: str, close: Callable[[str], str], rules: Ids, codes: Ids) -> Topic:
    return Topic(about, partial(_write, close=close), rules, codes, {"at": ("atend",)})


def _behind(about: str, rules: str, text: bytes, last: bytes = b"") -> Topic:
    return Topic(about, partial(_write, behind=text, last=last), rules, PADDING, WHOLE)


def _before(about: str, rules: str, text: bytes, encoding: str = "utf-8") -> Topic:
    codes = "HDR_BAD_START HDR_NOT_JSON HDR_NOT_OBJECT"
    if encoding != "utf-8":
        codes = f"HDR_NOT_UTF8 {codes}"
    return Topic(about, partial(_write, encoding=encoding, first=text), rules, codes, WHOLE)


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
        "not-closed": _closed(
            "a container that is not closed",
            lambda _: "",
            "HDR-07",
            "HDR_NOT_JSON HDR_BAD_PADDING ENT_UNKNOWN_FIELD MET_VALUE_NOT_STRING",
        ),
        "closed-otherwise": _closed(
            "a container that is closed by the wrong bracket",
            {"}": "]", "]": "}"}.__getitem__,
            "HDR-07",
            "HDR_NOT_JSON",
        ),
        "closed-twice": _closed(
            "a container that is closed twice",
            lambda closing: 2 * closing,
            lambda row: "HDR-06 HDR-03" if row["inside"] in OBJECTS["inside"] else "HDR-07",
            lambda row: PADDING if row["inside"] in OBJECTS["inside"] else "HDR_NOT_JSON",
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
            partial(_write, close=lambda closing: f"{closing}]", first=b"["),
            "HDR-06",
            "HDR_NOT_OBJECT HDR_BAD_START HDR_NOT_JSON",
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
