"""Header: its encoding, its first byte, its padding, and the whitespace between its tokens."""

from __future__ import annotations

from base64 import b64encode

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import ENTRY, LONE_CODES, header_text, named_with_escapes

NOT_OBJECT = "HDR_NOT_OBJECT HDR_BAD_START HDR_NOT_JSON"
PADDING = "HDR_BAD_PADDING HDR_NOT_JSON"
START = "HDR_BAD_START HDR_NOT_JSON HDR_NOT_OBJECT"
NOT_UTF8 = "HDR_NOT_UTF8 HDR_NOT_JSON"
EDGES = "\x7f\x80\u07ff\u0800\ud7ff\ue000\ufffd\U00010000\U0010ffff"
"""First and last characters of each UTF-8 length, and the characters next to the surrogates."""
NAME_BYTES = {
    "ff": b"\xff",
    "sequence-cut": b"\xe2\x82",
    "overlong-slash": b"\xc0\xaf",
    "overlong-nul": b"\xc0\x80",
    "surrogate": b"\xed\xa0\x80",
    "surrogate-pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "above-10ffff": b"\xf4\x90\x80\x80",
}


@rejects("HDR-01", NOT_UTF8, over=NAME_BYTES)
def name_bytes(f: FileBuilder, value: bytes) -> None:
    """A tensor name contains bytes that are not UTF-8 ($slug).

    A decoder that drops or replaces such bytes changes the name, and two names may become equal.
    """
    header_text(f, b'{"' + value + b'":ENTRY}')


@rejects("HDR-01", "HDR_NOT_UTF8 ENT_UNKNOWN_FIELD HDR_NOT_JSON")
def ignored_field_bytes(f: FileBuilder) -> None:
    """An unknown field contains bytes that are not UTF-8."""
    header_text(f, ENTRY.join(('{"w":', "}")).encode().replace(b"}}", b',"x":"\xff"}}'))


@rejects("HDR-01", "HDR_NOT_UTF8 HDR_BAD_PADDING HDR_NOT_JSON")
def sequence_cut_at_end(f: FileBuilder) -> None:
    """The last header byte starts a UTF-8 sequence that would continue in the data."""
    f.tensor("w", "F32", [2])
    f.padding = b" \xc3"


@rejects(
    "HDR-01 HDR-05",
    f"HDR_NOT_UTF8 {START}",
    over={"byte-order-mark-little-endian": b"\xff\xfe", "byte-order-mark-big-endian": b"\xfe\xff"},
)
@rejects("HDR-07 HDR-01", "HDR_NOT_JSON HDR_NOT_UTF8", over={"little-endian": b""})
@rejects("HDR-02 HDR-01", f"{START} HDR_NOT_UTF8", over={"big-endian": b"\0"})
def utf16(f: FileBuilder, value: bytes) -> None:
    """The header text is UTF-16 ($slug).

    JSON libraries that detect the encoding accept this text.
    """
    big = value in (b"\0", b"\xfe\xff")
    text = f'{{"w":{ENTRY}}}'.encode("utf-16-be" if big else "utf-16-le")
    header_text(f, value + text if len(value) == 2 else text)


BYTES_IN_NAME = {
    "continuation-alone": b"\x80",
    "two-bytes-cut": b"\xc3",
    "three-bytes-cut-to-one": b"\xe2",
    "four-bytes-cut-to-three": b"\xf0\x9f\xa4",
    "four-bytes-interrupted": b"\xf0\x9f\xa4a\x97",
    "overlong-three-bytes": b"\xe0\x80\xaf",
    "overlong-quote": b"\xc0\xa2",
    "windows-1252-quotes": b"\x93\x94",
    "latin-1-letter": b"\xe9a",
}


@rejects("HDR-01", NOT_UTF8, over=BYTES_IN_NAME)
def bytes_in_name(f: FileBuilder, value: bytes) -> None:
    """A tensor name contains bytes that are not UTF-8: $slug.

    Decoders may replace, skip or guess such bytes, and each way produces a different name.
    """
    header_text(f, b'{"w' + value + b'":ENTRY}')


@rejects(
    "HDR-01",
    f"{NOT_UTF8} ENT_MISSING_FIELD ENT_UNKNOWN_FIELD DTY_UNKNOWN",
    over={
        "dtype": ENTRY.encode().replace(b"F32", b"F32\xff"),
        "field-name": ENTRY.encode().replace(b"shape", b"shap\xe9"),
        "between-tokens": ENTRY.encode().replace(b":[2]", b":\xa0[2]"),
        "digit-overlong": ENTRY.encode().replace(b"[2]", b"[\xc0\xb2]"),
        "escape": ENTRY.encode().replace(b"F32", b"\\u00\xe53"),
    },
)
def bytes_in_entry(f: FileBuilder, value: bytes) -> None:
    """A tensor entry contains bytes that are not UTF-8: $slug."""
    header_text(f, b'{"w":' + value + b"}")


@rejects("HDR-01", f"{NOT_UTF8} HDR_BAD_PADDING", over={"ff": b"\xff", "no-break-space": b"\xa0"})
def bytes_in_padding(f: FileBuilder, value: bytes) -> None:
    """The padding contains a byte that is not UTF-8: $slug."""
    f.padding = b"  " + value
    f.tensor("w", "F32", [2])


@rejects("HDR-07 HDR-01", "HDR_NOT_JSON HDR_NOT_UTF8", over={"little-endian": "utf-32-le"})
@rejects("HDR-02 HDR-01", f"{START} HDR_NOT_UTF8", over={"big-endian": "utf-32-be"})
@rejects("HDR-01 HDR-05", f"HDR_NOT_UTF8 {START}", over={"with-mark": "utf-32-le-mark"})
def utf32(f: FileBuilder, value: str) -> None:
    """The header text is UTF-32: $slug."""
    raw = f'{{"w":{ENTRY}}}'.encode(value.removesuffix("-mark"))
    header_text(f, (b"\xff\xfe\0\0" if value.endswith("-mark") else b"") + raw)


@rejects("HDR-02", f"{START} HDR_NOT_UTF8")
def utf7(f: FileBuilder) -> None:
    """The header text is UTF-7, which encodes the braces as letters."""
    letters = b64encode(f'{{"w":{ENTRY}}}'.encode("utf-16-be")).rstrip(b"=")
    header_text(f, b"+" + letters + b"-")


@rejects("HDR-01 HDR-02", f"HDR_NOT_UTF8 {START}")
def ebcdic(f: FileBuilder) -> None:
    """The header text is EBCDIC."""
    header_text(f, f'{{"w":{ENTRY}}}'.encode("cp037"))


@rejects("HDR-14 HDR-01", "HDR_NOT_JSON HDR_NOT_UTF8", over={"little": "le", "big": "be"})
def utf16_in_name(f: FileBuilder, value: str) -> None:
    """One tensor name is $slug-endian UTF-16, and the rest of the header is UTF-8.

    The bytes are also valid UTF-8, but every second byte is an unescaped NUL.
    """
    header_text(f, b'{"' + "weight".encode(f"utf-16-{value}") + b'":ENTRY}')


@accepts("HDR-01 ENT-08")
def edges_of_utf8_in_name(f: FileBuilder) -> None:
    """A tensor name contains the first and last characters of each UTF-8 length.

    These characters reveal wrong limits in a hand-written decoder.
    """
    f.tensor(EDGES, "F32", [2])


@accepts("HDR-01 MET-04")
def edges_of_utf8_in_metadata(f: FileBuilder) -> None:
    """A metadata key and value contain the first and last characters of each UTF-8 length."""
    f.metadata({EDGES: EDGES[::-1]})
    f.tensor("w", "F32", [2])


@accepts("HDR-19 HDR-01", over={"utf-7": "+AHc-", "mojibake": "\xc3\xa9"})
def name_like_decoding_fault(f: FileBuilder, value: str) -> None:
    """A tensor name looks as if it had been decoded with the wrong encoding: $slug.

    The name is valid text. A reader that repairs it renames the tensor.
    """
    f.tensor(value, "F32", [2])


@accepts(
    "HDR-15 HDR-19",
    over={
        "upper-dc00": ("\U0001f400", r"\uD83D\uDC00"),
        "upper-dfff": ("\U0010ffff", r"\uDBFF\uDFFF"),
        "upper-deaa": ("\U0001f6aa", r"\uD83D\uDEAA"),
        "lower-deaa": ("\U0001f6aa", r"\ud83d\udeaa"),
        "upper-ddff": ("\U0001f5ff", r"\uD83D\uDDFF"),
        "lower-de99": ("\U0001f699", r"\ud83d\ude99"),
    },
)
def digits_of_pair(f: FileBuilder, name: str, spelled: str) -> None:
    """A tensor name is one surrogate pair, written with these hexadecimal digits: $slug.

    A reader with a gap in its table of hexadecimal digits rejects the valid name or returns a different name.
    """
    f.tensor(name, "F32", [2], key=f'"{spelled}"')


@accepts("HDR-15 HDR-19", over={"last-before": ("\ud7ff", r"\ud7ff"), "first-behind": ("\ue000", r"\ue000")})
def escape_beside_surrogates(f: FileBuilder, name: str, spelled: str) -> None:
    """A tensor name is the escaped character just before or after the range of surrogates ($slug).

    A range check that is off by one rejects a valid name.
    """
    f.tensor(name, "F32", [2], key=f'"{spelled}"')


LOW_SURROGATE_WITHOUT_HIGH = {
    "two-low": r"\udc00\udc00",
    "last-before-surrogates": r"\ud7ff\udc00",
    "escaped-letter": r"\u0041\udc00",
}


@chooses("lone-surrogates", codes=LONE_CODES, over=LOW_SURROGATE_WITHOUT_HIGH)
def low_surrogate_without_high(f: FileBuilder, value: str) -> None:
    """The escape of a low surrogate follows an escape that is not a high surrogate ($slug).

    A decoder that combines any two escapes computes a character that the file does not contain.
    """
    named_with_escapes(f, "", value)


@rejects("HDR-14", "HDR_NOT_JSON")
def six_raw_tabs_in_name(f: FileBuilder) -> None:
    r"""A tensor name contains six unescaped tabs, which have as many bytes as a \u escape."""
    header_text(f, '{"a\t\t\t\t\t\tb":ENTRY}')


@rejects("HDR-02 HDR-06", START, smoke=True)
def plain_text(f: FileBuilder) -> None:
    """The header is an ordinary sentence instead of JSON."""
    header_text(f, "Weights of a small model, two floats, little-endian.")


@chooses(
    "leading-whitespace",
    codes="HDR_BAD_START HDR_NOT_JSON",
    over={"space": b" ", "tab": b"\t", "line-feed": b"\n", "carriage-return": b"\r", "mixed": b"\r\n\t "},
    issue="safetensors/safetensors#686",
    bugs="FB-07",
)
def leading_whitespace(f: FileBuilder, value: bytes) -> None:
    """Whitespace precedes the opening brace ($slug).

    A scanner that identifies files by the brace and a loader that skips whitespace disagree about the file.
    """
    f.before = value
    f.tensor("w", "F32", [2])


@rejects("HDR-02", START, over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0"})
@rejects("HDR-05 HDR-02", START, over={"byte-order-mark": "\ufeff"})
def leading_character(f: FileBuilder, value: str) -> None:
    """A character that is not JSON whitespace precedes the opening brace ($slug).

    Unicode-aware trimming, or a decoder that drops a byte-order mark, hides the character.
    """
    f.before = value.encode()
    f.tensor("w", "F32", [2])


@accepts("HDR-03 HDR-04", over=(0, 1, 63, 4096))
def padding_spaces(f: FileBuilder, value: int) -> None:
    """The header is padded with $value spaces after the closing brace."""
    f.padding = b" " * value
    f.tensor("weights", "U8", [8])


@chooses(
    "trailing-whitespace",
    codes=PADDING,
    over={"tab": b"\t", "line-feed": b"\n", "carriage-return": b"\r", "mixed": b"  \r\n\t "},
    issue=dict.fromkeys(("tab", "line-feed"), "ohdearquant/lattice#1468"),
    bugs=dict.fromkeys(("tab", "line-feed"), "FB-82"),
)
def trailing_whitespace(f: FileBuilder, value: bytes) -> None:
    """Whitespace other than plain spaces follows the closing brace ($slug)."""
    f.tensor("w", "F32", [2])
    f.padding = b""
    missing = -int.from_bytes(f.render()[:8], "little") % 8
    while missing < len(value):
        missing += 8
    f.padding = (value * 8)[:missing]


@rejects("HDR-05 HDR-03", PADDING, over={"byte-order-mark": b"\xef\xbb\xbf"})
@rejects("HDR-06 HDR-03", PADDING, importance="high", over={"object": b"{}", "object-line": b"\n{}"})
@rejects(
    "HDR-03",
    PADDING,
    issue={"nul": "ruvnet/RuView#1522"},
    over={
        "nul": b"\0" * 6,
        "spaces-nul": b"     \0",
        "form-feed": b"\f",
        "no-break-space": b"\xc2\xa0",
        "letters": b" padding",
        "comma": b",",
    },
)
def trailing_character(f: FileBuilder, value: bytes) -> None:
    """Something that is not padding follows the closing brace ($slug).

    A parser that stops at the end of the first value, or at a NUL, never sees what follows, so text can be
    hidden there. Parsers of concatenated values or of JSON lines may even return a second object instead of
    the first.
    """
    f.padding = value
    f.tensor("w", "F32", [2])


@rejects("HDR-06", PADDING, issue="safetensors/safetensors#466")
def metadata_behind_object(f: FileBuilder) -> None:
    """A comma and the metadata follow an empty object, as in files without tensors from one old writer."""
    f.padding = b',"__metadata__":{"key":"value"}}'


@rejects("OFF-08 HDR-04", "OFF_TRAILING OFF_HOLE", bugs="FB-03")
def padding_uncounted(f: FileBuilder) -> None:
    """Spaces pad the header to a multiple of 8, but the length prefix does not include them.

    The spaces become the first data bytes, so every offset points to the wrong position.
    """
    f.padding = b""
    f.gap(6, 0x20)
    f.tensor("w", "F32", [2], begin=0, end=8)


@rejects(
    "HDR-06 HDR-02",
    NOT_OBJECT,
    over={"minus": "-1", "true": "true", "false": "false", **{f"digit-{d}": f"{d}0" for d in range(1, 10)}},
)
def value_for_object(f: FileBuilder, value: str) -> None:
    """The header is the JSON value `$value` instead of an object.

    Software that uses the brace to tell a header from other JSON must know every way a JSON value can begin.
    """
    f.header = value.encode()


@rejects("HDR-01 HDR-02", "HDR_NOT_UTF8 HDR_BAD_START HDR_NOT_JSON")
def first_byte_outside_utf8(f: FileBuilder) -> None:
    """The byte 0xFF, which never occurs in UTF-8, precedes the opening brace."""
    header_text(f, b'\xff{"w":ENTRY}')


SPACE_OF_ANOTHER_KIND = {
    "vertical-tab": "\v",
    "file-separator": "\x1c",
    "zero-width-space": "\u200b",
    "word-joiner": "\u2060",
    "ideographic-space": "\u3000",
    "backslash-line-feed": "\\\n",
}


@rejects("HDR-07 HDR-08", "HDR_NOT_JSON", over=SPACE_OF_ANOTHER_KIND)
def space_of_another_kind(f: FileBuilder, value: str) -> None:
    """A colon is followed by a character that JSON does not count as whitespace: $slug.

    Functions that trim or split text treat several of these characters as spaces.
    """
    header_text(f, f'{{"w":{value}ENTRY}}')


@rejects("HDR-07 HDR-08", "HDR_NOT_JSON SHP_BAD_TYPE", over={"form-feed": "\f", "no-break-space": "\xa0"})
def space_of_another_kind_in_empty_shape(f: FileBuilder, value: str) -> None:
    """An empty shape contains a character that is not JSON whitespace: $slug."""
    f.tensor("w", "F32", [], fields={"shape": f"[{value}]"})


@accepts("HDR-08", over={"space": " ", "line-feed": "\n", "carriage-return": "\r"})
def one_space_between_tokens(f: FileBuilder, value: str) -> None:
    """The same whitespace character separates all tokens: $slug."""
    tokens = '{ "w" : { "dtype" : "F32" , "shape" : [ 2 ] , "data_offsets" : [ 0 , 8 ] } }'
    header_text(f, tokens.replace(" ", value))


@accepts("HDR-08")
def long_space_between_tokens(f: FileBuilder) -> None:
    """Ten thousand line feeds, tabs and spaces separate two tokens."""
    header_text(f, '{"w":' + "\n\t " * 10_000 + "ENTRY}")


@accepts("HDR-08 MET-03 SHP-03 SHP-01")
def space_in_empty_containers(f: FileBuilder) -> None:
    """An empty metadata map and an empty shape have whitespace between their brackets."""
    f.metadata({}, raw="{ \t\r\n}")
    f.tensor("w", "F32", [], fields={"shape": "[ \t\r\n]"})


@accepts("HDR-08 MET-01")
def space_around_metadata(f: FileBuilder) -> None:
    """Whitespace separates all tokens of the metadata."""
    f.metadata({"a": "b", "c": "d"}, raw=' \n{\t"a" \r: "b"\n,\t"c" :\r"d" } ')
    f.tensor("w", "F32", [2])


@accepts("HDR-19 ENT-08")
def space_inside_strings_only(f: FileBuilder) -> None:
    """Names consist of spaces or no-break spaces, or have spaces at both ends, and must stay unchanged."""
    f.tensors((" ", "  ", "\xa0", " a ", "\u3000", "\\n"), "U8", [4])


@rejects("HDR-07 HDR-08", "HDR_NOT_JSON SHP_BAD_TYPE")
def space_inside_a_word(f: FileBuilder) -> None:
    """A line break splits a number in two.

    Whitespace separates tokens, so the two halves are two numbers without a comma between them.
    """
    f.tensor("w", "U8", [10], fields={"shape": "[1\n0]"})


@rejects("HDR-14", "HDR_NOT_JSON ENT_MISSING_FIELD ENT_UNKNOWN_FIELD")
def line_break_in_field_name(f: FileBuilder) -> None:
    """A field name contains a line break."""
    header_text(f, '{"w":' + ENTRY.replace("data_", "data_\n") + "}")
