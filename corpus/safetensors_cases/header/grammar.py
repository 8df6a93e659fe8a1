"""Header: grammar. The header must be a single object in strict JSON.

The cases test the nesting depth, and misplaced commas, colons, braces and quotes at every level.
"""

from __future__ import annotations

from safetensors_corpus.author.case import ACCEPT, accepts, chooses, reject, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import ENTRY, RARE, header_text

NOT_OBJECT = ("HDR_NOT_OBJECT", "HDR_BAD_START", "HDR_NOT_JSON")
IGNORED = ("HDR_NOT_JSON", "ENT_UNKNOWN_FIELD")
"""Codes for a fault inside an unknown field. Some readers reject every unknown field."""
START = ("HDR_BAD_START", "HDR_NOT_JSON", "HDR_NOT_OBJECT")
FIELDS = '"dtype":"F32","shape":[2],"data_offsets":[0,8]'


NOT_OBJECTS = {
    "empty-array": "[]",
    "object-in-array": '[{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}]',
    "string": '"{}"',
    "number": "0",
    "null": "null",
    "spaces": "        ",
    "spaces-64": " " * 64,
    "spaces-4096": " " * 4096,
}


@rejects("HDR-06", codes=NOT_OBJECT, over=NOT_OBJECTS)
def not_object(f: FileBuilder, value: str) -> None:
    """The header is not an object ($slug)."""
    f.header = value.encode()


OBJECT_TEXT = {
    "trailing-comma": '{"w":ENTRY,}',
    "no-comma": '{"__metadata__":{} "w":ENTRY}',
    "no-colon": '{"w" ENTRY}',
    "bare-key": "{w:ENTRY}",
    "single-quotes": "{'w':ENTRY}",
    "block-comment": '{/* one tensor */"w":ENTRY}',
    "line-comment": '{// one tensor\n"w":ENTRY}',
    "no-closing-brace": '{"w":ENTRY',
    "closing-bracket": '{"w":ENTRY]',
    "brace-alone": "{",
}


@rejects("HDR-07", codes="HDR_NOT_JSON", over=OBJECT_TEXT)
def object_text(f: FileBuilder, value: str) -> None:
    """The text of the header object breaks the JSON grammar ($slug).

    Relaxed or hand-written parsers may accept such text, and may disagree about its meaning.
    """
    header_text(f, value)


ENTRY_TEXT = {
    "trailing-comma": '"dtype":"F32","shape":[2],"data_offsets":[0,8],',
    "no-comma": '"dtype":"F32" "shape":[2],"data_offsets":[0,8]',
    "bare-dtype": '"dtype":F32,"shape":[2],"data_offsets":[0,8]',
    "single-quotes": '"dtype":\'F32\',"shape":[2],"data_offsets":[0,8]',
    "shape-trailing-comma": '"dtype":"F32","shape":[2,],"data_offsets":[0,8]',
    "offsets-two-commas": '"dtype":"F32","shape":[2],"data_offsets":[0,,8]',
}


@rejects("HDR-07", codes=("HDR_NOT_JSON", "SHP_BAD_TYPE", "OFF_BAD_PAIR", "DTY_BAD_TYPE"), over=ENTRY_TEXT)
def entry_text(f: FileBuilder, value: str) -> None:
    """The text of a tensor entry breaks the JSON grammar ($slug)."""
    f.tensor("w", "F32", [2], value="{" + value + "}")


@rejects(
    "HDR-07",
    codes=IGNORED,
    over={
        "nan": "NaN",
        "minus-infinity": "-Infinity",
        "word-cut": "nul",
        "single-quotes": "'a'",
        "block-comment": "1/* one */",
        "array-trailing-comma": "[1,]",
        "object-trailing-comma": '{"a":1,}',
        "nothing": "",
    },
)
@rejects(
    "HDR-07 HDR-18",
    codes=IGNORED,
    over={
        "leading-zero": "01",
        "plus": "+1",
        "point-first": ".5",
        "point-last": "1.",
        "exponent-empty": "1e",
        "hexadecimal": "0x10",
    },
)
@rejects("HDR-14", codes=IGNORED, over={"raw-line-feed": '"a\nb"'})
@rejects("HDR-15", codes=IGNORED, over={"lone-surrogate": r'"\ud800\u41"', "hex-escape": r'"\x41"'})
def ignored_text(f: FileBuilder, value: str) -> None:
    """The value of an unknown field in an entry breaks the JSON grammar ($slug).

    A reader that skips values without parsing them accepts text that other readers reject.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "rare-ignored-values",
    "HDR-18",
    options=RARE,
    over={"minus-zero": "-0", "exponent": "-1.5E+03", "2p64": str(2**64)},
    importance="low",
)
@chooses(
    "number-range",
    options={"reject": reject(*IGNORED), "accept": ACCEPT},
    over={"1e999": "1e999", "401-digits": "1" + "0" * 400},
)
def ignored_number(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains an unusual number that is valid JSON ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})


@accepts("HDR-08", over={"tab": "\t", "crlf": "\r\n", "mixed": " \n\t\r"})
def space_between_tokens(f: FileBuilder, value: str) -> None:
    """Whitespace separates all tokens of the header ($slug), as in pretty-printed text."""
    tokens = '{ "w" : { "dtype" : "F32" , "shape" : [ 2 ] , "data_offsets" : [ 0 , 8 ] } }'
    header_text(f, tokens.replace(" ", value))


@rejects(
    "HDR-07 HDR-08",
    codes="HDR_NOT_JSON",
    over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0", "byte-order-mark": "\ufeff"},
)
def character_between_tokens(f: FileBuilder, value: str) -> None:
    """A character that is not JSON whitespace separates two tokens ($slug)."""
    header_text(f, f'{{"w":{value}ENTRY}}')


# Nesting depth. The header object and the entry are the two outer levels.


def _arrays(levels: int) -> str:
    return "[" * (levels - 2) + "]" * (levels - 2)


def _objects(levels: int) -> str:
    return '{"a":' * (levels - 3) + "{}" + "}" * (levels - 3)


@chooses(
    "rare-ignored-values",
    "HDR-16",
    options={"reject": reject("ENT_UNKNOWN_FIELD", "HDR_TOO_DEEP"), "ignore": ACCEPT},
    over={"100-arrays": _arrays(100), "127-arrays": _arrays(127), "127-objects": _objects(127)},
)
@chooses(
    "deep-nesting",
    options={"reject": reject("HDR_TOO_DEEP", *IGNORED), "accept": ACCEPT},
    over={f"{n}-arrays": _arrays(n) for n in (128, 1000, 20_000)} | {"128-objects": _objects(128)},
    importance="high",
    bugs={"1000-arrays": ("FB-121", "FB-202"), "20000-arrays": ("FB-121", "FB-202")},
)
def nesting(f: FileBuilder, value: str) -> None:
    """Nested arrays or objects in an unknown field reach this nesting depth in the header: $slug.

    A parser or destructor that recurses once per level can overflow the stack.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects("HDR-07 HDR-16", codes=("HDR_TOO_DEEP", *IGNORED), importance="high", bugs=("FB-121", "FB-202"))
def open_arrays_in_ignored_field(f: FileBuilder) -> None:
    """An unknown field opens thirty thousand arrays, and then the header ends."""
    header_text(f, f'{{"w":{ENTRY[:-1]},"x":{"[" * 30_000}')


@rejects("HDR-06 HDR-16", codes=(*NOT_OBJECT, "HDR_TOO_DEEP"), importance="high", bugs=("FB-202",))
def open_arrays(f: FileBuilder) -> None:
    """The header consists of thirty thousand opening brackets.

    A reader that checks the first byte rejects the header before its parser can overflow the stack.
    """
    f.header = b"[" * 30_000


STRUCTURE = {
    "two-colons": '{"w"::ENTRY}',
    "comma-for-colon": '{"w",ENTRY}',
    "wide-colon": '{"w"\uff1aENTRY}',
    "semicolon-for-comma": '{"__metadata__":{};"w":ENTRY}',
    "leading-comma": '{,"w":ENTRY}',
    "no-key": "{:ENTRY}",
    "no-value": '{"__metadata__":,"w":ENTRY}',
    "key-alone-at-end": '{"w":ENTRY,"__metadata__"}',
    "null-for-key": "{null:ENTRY}",
    "string-open-at-end": '{"w":ENTRY,"',
    "curly-quotes": "{\u201cw\u201d:ENTRY}",
    "backquotes": "{`w`:ENTRY}",
    "escaped-quotes": '{\\"w\\":ENTRY}',
    "escaped-space-before-key": '{\\u0020"w":ENTRY}',
    "brace-twice": '{{"w":ENTRY}}',
    "number-behind-value": '{"w":ENTRY 123}',
    "comment-unclosed": '{"w":ENTRY/*}',
    "comma-for-closing-brace": '{"w":ENTRY,',
}


@rejects("HDR-07", codes="HDR_NOT_JSON", over=STRUCTURE)
def structure(f: FileBuilder, value: str) -> None:
    """The members of the header object are joined in a way that JSON does not allow: $slug.

    Lenient parsers repair such text in different ways, so one file has several meanings.
    """
    header_text(f, value)


@rejects(
    "HDR-07",
    codes=("HDR_NOT_JSON", "SHP_BAD_TYPE", "OFF_BAD_PAIR", "DTY_BAD_TYPE", "ENT_MISSING_FIELD"),
    over={
        "no-value": FIELDS.replace('"F32"', ""),
        "dtype-unclosed": FIELDS.replace('"F32"', '"F32'),
        "shape-unclosed": FIELDS.replace("[2]", "[2"),
        "shape-closed-by-brace": FIELDS.replace("[2]", "[2}"),
        "shape-in-parentheses": FIELDS.replace("[2]", "(2)"),
        "shape-with-leading-comma": FIELDS.replace("[2]", "[,2]"),
        "offsets-with-dots": FIELDS.replace("[0,8]", "[0..8]"),
    },
)
def entry_structure(f: FileBuilder, value: str) -> None:
    """The fields of a tensor entry are joined in a way that JSON does not allow: $slug."""
    f.tensor("w", "F32", [2], value="{" + value + "}")


BEHIND_OBJECT = {
    "brace": b"}",
    "block-comment": b"/**/",
    "delete": b"\x7f",
    "end-of-file-character": b"\x1a",
    "next-line": b"\xc2\x85",
    "ideographic-space": b"\xe3\x80\x80",
    "nul-and-text": b"\0 hidden text",
}


@rejects("HDR-03", codes=("HDR_BAD_PADDING", "HDR_NOT_JSON"), over=BEHIND_OBJECT)
def behind_object(f: FileBuilder, value: bytes) -> None:
    """The header continues after its closing brace: $slug.

    Only spaces may follow the brace. A parser that stops at the end of the object never sees the rest.
    """
    f.padding = value
    f.tensor("w", "F32", [2])


@rejects(
    "HDR-02",
    codes=START,
    over={
        "next-line": b"\xc2\x85",
        "line-separator": b"\xe2\x80\xa8",
        "zero-width-space": b"\xe2\x80\x8b",
        "block-comment": b"/**/",
        "guard-against-script-inclusion": b")]}'\n",
    },
)
@rejects("HDR-01 HDR-02", codes=("HDR_NOT_UTF8", *START), over={"two-bytes-of-mark": b"\xef\xbb"})
def before_object(f: FileBuilder, value: bytes) -> None:
    """Something that is not JSON whitespace precedes the opening brace: $slug."""
    f.before = value
    f.tensor("w", "F32", [2])


@accepts("HDR-07")
def json_extensions_inside_strings(f: FileBuilder) -> None:
    """Strings contain comments, trailing commas, NaN and single quotes as plain text.

    A program that strips comments or repairs commas before it parses the header changes the names.
    """
    f.metadata({"a/*b*/c": "d//e#f,}", "[1,]": "{'a':NaN,}"})
    f.tensor("/* not a comment */", "F32", [1])
    f.tensor("// 'w',]", "F32", [1])


@accepts("FRM-01 HDR-06")
def object_at_start_of_data(f: FileBuilder) -> None:
    """The data follows the closing brace directly and begins with the text of a second object.

    Only the length prefix defines the end of the header, so a reader must not continue into the data.
    """
    f.padding = b""
    f.tensor("w", "U8", [8], b'{"x":{}}')


@accepts("HDR-08 HDR-02", over={"line-feed": "\n"})
def behind_opening_brace(f: FileBuilder, value: str) -> None:
    """The opening brace is the first byte, and whitespace ($slug) is the second.

    A reader that expects a quote right after the brace rejects the file.
    """
    header_text(f, "{" + value + '"w":ENTRY}')
