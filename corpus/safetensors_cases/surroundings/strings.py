"""Model of strings: one string in the header, its content, its position and the other strings."""

from __future__ import annotations

from collections.abc import Mapping

from safetensors_corpus.author.file import FileBuilder, json_text, pattern

from .model import Model, Property, Row, Topic, excludes
from .scene import padding

PIECES: Mapping[str, tuple[bytes, str, str]] = {
    "letter": (b"k", "k", ""),
    "newline": (rb"\n", "\n", "an escaped line feed"),
    "quote": (rb"\"", '"', "an escaped quote"),
    "backslash": (rb"\\", "\\", "an escaped backslash"),
    "slash": (rb"\/", "/", "an escaped solidus"),
    "formfeed": (rb"\f", "\f", "an escaped form feed"),
    "backspace": (rb"\b", "\b", "an escaped backspace"),
    "tab": (rb"\t", "\t", "an escaped tab"),
    "ascii4": (rb"\u0041", "A", "an escaped letter"),
    "lower4": (rb"\u00eb", "ë", "an escape with lower-case digits"),
    "upper4": (rb"\u00EB", "ë", "an escape with upper-case digits"),
    "pair": (rb"\ud83d\uDE00", "😀", "an escaped surrogate pair"),
    "nul": (rb"\u0000", "\0", "an escaped NUL"),
    "del": (b"\x7f", "\x7f", "DEL"),
    "two": ("ß".encode(), "ß", "a character of two bytes"),
    "three": ("重".encode(), "重", "a character of three bytes"),
    "four": ("😀".encode(), "😀", "a character of four bytes"),
    "mark": ("\ufeff".encode(), "\ufeff", "a byte-order mark"),
    "last": ("\uffff".encode(), "\uffff", "U+FFFF"),
    "highest": ("\U0010ffff".encode(), "\U0010ffff", "U+10FFFF"),
    "separator": ("\u2028".encode(), "\u2028", "a line separator"),
    "combining": ("e\u0301".encode(), "e\u0301", "a combining accent"),
    "space": (b" ", " ", "a space"),
    "brace": (b'{\\"a\\":[1]}', '{"a":[1]}', "JSON"),
    "loosebrace": (b'{ \\"b\\" : 1.0 }', '{ "b" : 1.0 }', "JSON with spaces"),
    "reserved": (b"__metadata__", "__metadata__", "the reserved key"),
    "markup": (b"<b>", "<b>", "markup"),
    "shell": (b"$(id)`id`;x", "$(id)`id`;x", "shell syntax"),
    "rightleft": ("\u202e".encode(), "\u202e", "a bidirectional control"),
    "cyrillic": ("\u0430\u0435".encode(), "\u0430\u0435", "Cyrillic letters that look like Latin ones"),
    "seven": (b"007", "007", "a number with leading zeros"),
    "fieldname": (b"dtype", "dtype", "the name of a field"),
}
"""Level -> spelling in the header, decoded text, and phrase for titles."""
CONTROLS = ("newline", "formfeed", "backspace", "tab", "nul", "del")
"""Control characters. Readers may accept or reject them in names."""
AROUND = {
    "letters": (b"ab", "ab"),
    "escapes": (rb"\t\u00e9", "\té"),
    "accents": ("ñö".encode(), "ñö"),
    "quotes": (rb"\"\\", '"\\'),
}
LENGTHS = {"short": 0, "s300": 300, "s5000": 5000, "s40k": 40_000}
EDGES = {"edgeheader": 4096, "edgefile": 4096 - 8}
"""Level -> position in the header that the content crosses: 4,096 bytes of the header or of the file."""
PROPERTIES = {
    "where": Property(
        "kind of string", {"asvalue": "", "askey": "in a metadata key", "asname": "in a tensor name"}
    ),
    "piece": Property(
        "content of the string", {level: about for level, (_, _, about) in PIECES.items()}, ("letter",)
    ),
    "at": Property(
        "position in the string",
        {"inner": "", "alone": "by itself", "head": "at the beginning", "tail": "at the end"},
    ),
    "around": Property(
        "text around the content",
        {
            "letters": "",
            "escapes": "next to escapes",
            "accents": "next to non-ASCII characters",
            "quotes": "next to escaped quotes",
        },
    ),
    "length": Property(
        "length of the string",
        {
            "short": "",
            "s300": "string of 300 characters",
            "s5000": "string of 5,000 characters",
            "s40k": "string of 40,000 characters",
            "edgeheader": "across byte 4,096 of the header",
            "edgefile": "across byte 4,096 of the file",
        },
        ("short", "s300", "s5000"),
    ),
    "others": Property(
        "other strings of the same kind",
        {"sole": "", "ahead": "first of three strings", "behind": "last of three strings"},
    ),
    "metadata": Property("position of the metadata", {"mfirst": "", "mlast": "metadata after the tensors"}),
    "padding": Property("where the header ends", {"pad8": "", "tight": "unpadded header"}),
}
_NAME = "readers may reject control characters in names"
_ALONE = "there is no text around the content"
EXCLUSIONS = (
    excludes(_NAME, where="asname", piece=" ".join(CONTROLS)),
    excludes(_NAME, where="asname", around="escapes"),
    excludes(_ALONE, at="alone", around="escapes accents quotes"),
    excludes(_ALONE, at="alone", length="s300 s5000 s40k edgeheader edgefile"),
    excludes("there is no text before the content", at="head", length="edgeheader edgefile"),
    excludes("the name would have a different meaning", where="asname", piece="reserved space", at="alone"),
)


def _string(row: Row, spelled: bytes, text: str, filling: int) -> tuple[bytes, str]:
    if row["at"] == "alone":
        return spelled, text
    raw, plain = AROUND[row["around"]]
    before = (raw + b"x" * filling, plain + "x" * filling)
    sides = {"head": (b"", ""), "tail": before, "inner": before}[row["at"]]
    behind = {"head": before, "tail": (b"", ""), "inner": (raw, plain)}[row["at"]]
    return sides[0] + spelled + behind[0], sides[1] + text + behind[1]


def _write(row: Row, f: FileBuilder, spelled: bytes, text: str | None) -> None:
    """Write the file of a row whose string contains ``spelled``; ``text`` is None for a broken string."""
    filling = LENGTHS.get(row["length"], 0)
    if row["length"] in EDGES:
        trial = FileBuilder()
        _write({**row, "length": "short"}, trial, spelled, text)
        string = _string(row, spelled, text or "", 0)[0]
        start = trial.render().index(string, 8) - 8 + len(AROUND[row["around"]][0])
        # One byte of the content lies before the edge.
        filling = EDGES[row["length"]] - start - 1
    raw, plain = _string(row, spelled, text or "", filling)
    strings = [(json_text(other).encode(), other) for other in ("y", "z")]
    strings.insert({"ahead": 0, "behind": 2}.get(row["others"], 0), (b'"' + raw + b'"', plain))
    if row["others"] == "sole":
        del strings[1:]
    names = strings if row["where"] == "asname" else [(b'"w"', "w")]
    for key, name in names:
        data, begin = pattern(name, 8), f.position
        try:
            f.tensor(name, "F32", [2], data, key=key.decode())
        except UnicodeDecodeError:  # a header member may consist of any bytes
            f.member(key, f'{{"dtype":"F32","shape":[2],"data_offsets":[{begin},{begin + 8}]}}')
            f.gap(8, 1)
    spelled_map, mapping = [b'"a":"b"'], {"a": "b"}
    if row["where"] == "askey":
        spelled_map = [key + b':"v"' for key, _ in strings]
        mapping = {key: "v" for _, key in strings}
    elif row["where"] == "asvalue":
        spelled_map = [b'"%d":%b' % (n, value) for n, (value, _) in enumerate(strings)]
        mapping = {str(n): value for n, (_, value) in enumerate(strings)}
    place = 0 if row["metadata"] == "mfirst" else None
    f.metadata(mapping, raw=b"{" + b",".join(spelled_map) + b"}", at=place)
    f.padding = padding(row, f.header_size)


_VALID_BY = {
    "mark": "HDR-05",
    "two": "HDR-01",
    "three": "HDR-01",
    "four": "HDR-01",
    "last": "HDR-01",
    "highest": "HDR-01",
    "accents": "HDR-01",
    "combining": "HDR-19",
    "rightleft": "HDR-19",
    "cyrillic": "HDR-19",
    "reserved": "MET-05",
}


def _valid_by(row: Row) -> str:
    kind = "ENT-08" if row["where"] == "asname" else "MET-04"
    main = "HDR-15" if b"\\" in PIECES[row["piece"]][0] else _VALID_BY.get(row["piece"], "MET-04")
    return f"{main} {kind} HDR-19"


def _broken(about: str, rule: str, spelled: bytes) -> Topic:
    codes = "HDR_NOT_UTF8 HDR_NOT_JSON" if rule == "HDR-01" else "HDR_NOT_JSON HDR_NOT_UTF8"
    return Topic(f"{about} in a string", lambda row, f: _write(row, f, spelled, None), rule, codes)


_BROKEN = {
    "HDR-01": {
        "ff": (b"\xff", "the byte FF"),
        "continuation": (b"\x80", "a continuation byte by itself"),
        "overlong-nul": (b"\xc0\x80", "NUL encoded in two bytes"),
        "overlong-solidus": (b"\xe0\x80\xaf", "a solidus encoded in three bytes"),
        "surrogate-bytes": (b"\xed\xa0\x80", "an encoded surrogate"),
        "beyond-unicode": (b"\xf4\x90\x80\x80", "a code point above the Unicode range"),
        "cut-short": (b"\xe9\x87", "the first two of three bytes of a character"),
        "cp1252": (b"\xe9", "an accented letter encoded in Windows-1252"),
    },
    "HDR-14": {
        "raw-nul": (b"\x00", "an unescaped NUL"),
        "raw-tab": (b"\t", "an unescaped tab"),
        "raw-line-feed": (b"\n", "an unescaped line feed"),
        "raw-return": (b"\r", "an unescaped carriage return"),
        "raw-1f": (b"\x1f", "an unescaped U+001F"),
    },
    "HDR-15": {
        "escaped-x": (rb"\x41", "an escape that begins with x"),
        "escaped-apostrophe": (rb"\'", "an escaped apostrophe"),
        "escaped-capital-u": (rb"\U0041", "an escape with a capital U"),
        "escaped-three": (rb"\u041z", "an escape with three digits"),
        "escaped-g": (rb"\u004g", "an escape with the letter g as a digit"),
        "escaped-braces": (rb"\u{41}", "an escape with braces"),
        "escaped-plus": (rb"\u+041", "an escape with a sign among the digits"),
        "escaped-octal": (rb"\101", "an octal escape"),
        "escaped-space": (rb"\ ", "an escaped space"),
    },
}
"""Broken rule -> name of the topic -> spelling and phrase."""
STRINGS = Model(
    "strings",
    PROPERTIES,
    EXCLUSIONS,
    {
        "string": Topic(
            "a valid string", lambda row, f: _write(row, f, *PIECES[row["piece"]][:2]), _valid_by
        ),
        **{
            name: _broken(about, rule, spelled)
            for rule, faults in _BROKEN.items()
            for name, (spelled, about) in faults.items()
        },
    },
    core=("where", "piece", "at"),
)
