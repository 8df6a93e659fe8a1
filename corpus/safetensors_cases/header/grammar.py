"""Header: grammar. The header must be a single object in strict JSON.

The cases test misplaced commas, colons, braces and quotes at every level, and objects with few or no members,
which readers often process in a separate code path.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import header_text

from .encoding import NOT_OBJECT, PADDING, START

FIELDS = '"dtype":"F32","shape":[2],"data_offsets":[0,8]'


def _object(f: FileBuilder, text: str) -> None:
    """Write a header without tensors."""
    f.header = text.encode() + b" " * (-len(text.encode()) % 8)


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


@rejects("HDR-06", NOT_OBJECT, over=NOT_OBJECTS)
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


@rejects("HDR-07", "HDR_NOT_JSON", over=OBJECT_TEXT)
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


@rejects("HDR-07", "HDR_NOT_JSON SHP_BAD_TYPE OFF_BAD_PAIR DTY_BAD_TYPE", over=ENTRY_TEXT)
def entry_text(f: FileBuilder, value: str) -> None:
    """The text of a tensor entry breaks the JSON grammar ($slug)."""
    f.tensor("w", "F32", [2], value="{" + value + "}")


@accepts("HDR-08", over={"tab": "\t", "crlf": "\r\n", "mixed": " \n\t\r"})
def space_between_tokens(f: FileBuilder, value: str) -> None:
    """Whitespace separates all tokens of the header ($slug), as in pretty-printed text."""
    tokens = '{ "w" : { "dtype" : "F32" , "shape" : [ 2 ] , "data_offsets" : [ 0 , 8 ] } }'
    header_text(f, tokens.replace(" ", value))


@rejects(
    "HDR-07 HDR-08",
    "HDR_NOT_JSON",
    over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0", "byte-order-mark": "\ufeff"},
)
def character_between_tokens(f: FileBuilder, value: str) -> None:
    """A character that is not JSON whitespace separates two tokens ($slug)."""
    header_text(f, f'{{"w":{value}ENTRY}}')


@rejects("HDR-06 HDR-16", f"{NOT_OBJECT} HDR_TOO_DEEP", importance="high", bugs="FB-202")
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


@rejects("HDR-07", "HDR_NOT_JSON", over=STRUCTURE)
def structure(f: FileBuilder, value: str) -> None:
    """The members of the header object are joined in a way that JSON does not allow: $slug.

    Lenient parsers repair such text in different ways, so one file has several meanings.
    """
    header_text(f, value)


@rejects(
    "HDR-07",
    "HDR_NOT_JSON SHP_BAD_TYPE OFF_BAD_PAIR DTY_BAD_TYPE ENT_MISSING_FIELD",
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


@rejects("HDR-03", PADDING, over=BEHIND_OBJECT)
def behind_object(f: FileBuilder, value: bytes) -> None:
    """The header continues after its closing brace: $slug.

    Only spaces may follow the brace. A parser that stops at the end of the object never sees the rest.
    """
    f.padding = value
    f.tensor("w", "F32", [2])


@rejects(
    "HDR-02",
    START,
    over={
        "next-line": b"\xc2\x85",
        "line-separator": b"\xe2\x80\xa8",
        "zero-width-space": b"\xe2\x80\x8b",
        "block-comment": b"/**/",
        "guard-against-script-inclusion": b")]}'\n",
    },
)
@rejects("HDR-01 HDR-02", f"HDR_NOT_UTF8 {START}", over={"two-bytes-of-mark": b"\xef\xbb"})
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


@rejects("HDR-02", START, over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0"})
@rejects("HDR-05 HDR-02", START, over={"byte-order-mark": "\ufeff"})
def empty_object_behind_character(f: FileBuilder, value: str) -> None:
    """A character that is not whitespace precedes an object without members ($slug)."""
    _object(f, f"{value}{{}}")


@rejects("HDR-05 HDR-03", PADDING, over={"byte-order-mark": "\ufeff"})
@rejects("HDR-06 HDR-03", PADDING, over={"object": "{}"})
@rejects("HDR-03", PADDING, over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0", "comma": ","})
def empty_object_before_character(f: FileBuilder, value: str) -> None:
    """Something other than spaces follows an object without members ($slug)."""
    _object(f, f"{{}}{value}")


@rejects(
    "HDR-07 HDR-08",
    "HDR_NOT_JSON",
    over={"nul": "\0", "byte-order-mark": "\ufeff", "line-comment": "//\n", "form-feed": "\f"},
)
def empty_object_around_character(f: FileBuilder, value: str) -> None:
    """An object without members contains something other than whitespace ($slug)."""
    _object(f, f"{{{value}}}")


@rejects("HDR-06", NOT_OBJECT)
def empty_object_in_array(f: FileBuilder) -> None:
    """The header is an array that contains an object without members."""
    _object(f, "[{}]")


@rejects("FRM-05 FRM-06", "FRM_HEADER_OVER_LIMIT FRM_HEADER_PAST_EOF", importance="medium")
def empty_object_and_length_bit_63(f: FileBuilder) -> None:
    """The highest bit of the length of a header without members is set."""
    f.length = 8 + (1 << 63)


@rejects("FRM-02", "FRM_HEADER_OVER_LIMIT FRM_HEADER_PAST_EOF", importance="medium")
def empty_object_and_length_big_endian(f: FileBuilder) -> None:
    """The length of a header without members is big-endian."""
    f.length = 8 << 56


@accepts("MET-04 FRM-09", over={"byte-order-mark": "\ufeffa", "noncharacters": "a\uffff\ufdd0"})
def empty_object_but_metadata(f: FileBuilder, value: str) -> None:
    """A file without tensors has unusual characters in its metadata ($slug)."""
    f.metadata({"a": value})


@rejects("HDR-15", "HDR_NOT_JSON HDR_NOT_UTF8")
def empty_object_but_upper_case_u(f: FileBuilder) -> None:
    r"""A file without tensors has the escape \U0041 in its metadata."""
    f.metadata({}, raw=r'{"a":"\U0041"}')


@rejects(
    "OFF-01 OFF-02",
    "ENT_BAD_INTEGER OFF_BAD_PAIR",
    importance="medium",
    over={"booleans": "[false,false]", "minus-zero": "[-0,0]", "nested": "[[0],0]"},
    ahead={"minus-zero": "OFF-02"},
)
def offsets_of_empty_tensor(f: FileBuilder, value: str) -> None:
    """The only tensor has no bytes, and its offsets are not two integers ($slug)."""
    f.tensor("w", "F32", [0], fields={"data_offsets": value})


@rejects("OFF-07 OFF-04", "OFF_HOLE OFF_OUT_OF_BOUNDS", importance="medium")
def offsets_from_file_in_reverse_order(f: FileBuilder) -> None:
    """Two entries in reverse order count their offsets from the start of the file."""
    f.tensor("a", "F32", [2], begin=256, end=264)
    f.tensor("b", "F32", [2], begin=264, end=272, at=0)
    f.padding = b" " * (248 - f.header_size)


@accepts("ENT-07 ENT-08 ENT-09", over={"first": 0, "middle": 1, "last": 2})
def names_of_three(f: FileBuilder, value: int) -> None:
    """One of three tensors has an empty name, and the others look like a word and a command ($slug)."""
    names = ["\u0430\u0435", "$(id);x"]
    names.insert(value, "")
    f.tensors(names, "F32", [2])


@rejects("OFF-01", "OFF_BAD_PAIR ENT_BAD_INTEGER", importance="medium")
def one_offset_of_empty_tensor(f: FileBuilder) -> None:
    """The only tensor has no bytes, and its range consists of one offset."""
    f.tensor("w", "F32", [0], fields={"data_offsets": "[0]"})
