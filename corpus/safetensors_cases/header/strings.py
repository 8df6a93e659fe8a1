"""Header: strings that contain control characters, or escapes that are valid or almost valid."""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import ENTRY, LONE_CODES, header_text, named_with_escapes

BAD = "HDR_NOT_JSON HDR_NOT_UTF8"
C0 = "".join(chr(n) for n in range(32))
C0_ESCAPED = "".join(f"\\u{n:04x}" for n in range(32))


@rejects("HDR-14", "HDR_NOT_JSON", over={"nul": "\0", "tab": "\t", "line-feed": "\n", "1f": "\x1f"})
def raw_control_in_name(f: FileBuilder, value: str) -> None:
    """A tensor name contains an unescaped control character ($slug)."""
    header_text(f, f'{{"a{value}b":ENTRY}}')


@accepts("HDR-15 HDR-14", over={"nul": ("\0w", r"\u0000w"), "short": ('"\\/\b\f\n\r\t', r"\"\\\/\b\f\n\r\t")})
@accepts(
    "HDR-15",
    over={
        "code-point": ("w", r"\u0077"),
        "upper-case-hex": ("\xea", r"\u00EA"),
        "pair": ("\U0001f600", r"\uD83D\uDE00"),
        "highest-pair": ("\U0010ffff", r"\udbff\udfff"),
    },
)
def escape_in_name(f: FileBuilder, name: str, spelled: str) -> None:
    """A tensor name is written with JSON escapes ($slug)."""
    f.tensor(name, "F32", [2], key=f'"{spelled}"')


@accepts("HDR-15 HDR-10")
def escape_in_field_names(f: FileBuilder) -> None:
    """The field names of an entry are written with escapes."""
    f.tensor("w", "F32", [2], value=r'{"\u0064type":"F32","sh\u0061pe":[2],"data\u005foffsets":[0,8]}')


@chooses(
    "lone-surrogates",
    codes=LONE_CODES,
    over={"high-surrogate": r"\ud800", "low-surrogate": r"\udc00", "surrogates-reversed": r"\ude00\ud83d"},
)
@rejects(
    "HDR-15",
    "HDR_NOT_JSON HDR_NOT_UTF8",
    over={"hex-byte": r"\x41", "upper-case-u": r"\U0041", "three-digits": r"\u041", "plus-sign": r"\u+041"},
)
@rejects("HDR-07 HDR-15", "HDR_NOT_JSON HDR_NOT_UTF8", over={"quote-missing": "\\"})
def escape_text(f: FileBuilder, value: str) -> None:
    """A tensor name ends in `$value`, which is invalid in JSON or has no defined meaning.

    Readers that replace, drop or keep these characters produce different names.
    """
    named_with_escapes(f, "w", value)


ESCAPE_OF_ANOTHER_KIND = {
    "letter-a": r"\a",
    "digit-zero": r"\0",
    "apostrophe": r"\'",
    "brace": r"\{",
    "emoji": "\\\U0001f300",
    "no-digits": r"\u",
    "braces": r"\u{77}",
    "wide-digits": "\\u\uff10\uff10\uff17\uff17",
}


@rejects("HDR-15", BAD, over=ESCAPE_OF_ANOTHER_KIND)
def escape_of_another_kind(f: FileBuilder, value: str) -> None:
    """A tensor name contains an escape that JSON does not define: $slug.

    Lenient decoders keep the backslash, drop it or guess, so the name depends on the reader.
    """
    header_text(f, f'{{"w{value}x":ENTRY}}')


@chooses(
    "lone-surrogates",
    codes=LONE_CODES,
    over={
        "before-short-escape": r"\ud800\/",
        "before-another": r"\ud800\ud800",
        "before-bmp-escape": r"\ud800\u0041",
        "before-backslash-text": r"\ud800\\udc00",
        "before-raw-character": r"\ud83dx",
    },
)
@rejects("HDR-15", BAD, over={"before-unknown-escape": r"\uD800\uD800\x"})
def high_surrogate(f: FileBuilder, value: str) -> None:
    """A tensor name contains the escape of a high surrogate without its other half: $slug.

    A high surrogate by itself is not a character. Joining it with whatever follows creates a character that
    the file does not contain.
    """
    named_with_escapes(f, "w", value)


@chooses(
    "lone-surrogates",
    codes=LONE_CODES,
    over={"behind-pair": r"\ud83d\ude00\ude00", "behind-letter": r"a\udfff"},
)
def low_surrogate(f: FileBuilder, value: str) -> None:
    """A tensor name contains the escape of a low surrogate that no high surrogate precedes: $slug."""
    named_with_escapes(f, "w", value)


@rejects(
    "HDR-15",
    f"{BAD} ENT_MISSING_FIELD ENT_UNKNOWN_FIELD DTY_UNKNOWN",
    over={
        "dtype": ENTRY.replace("F32", r"\F32"),
        "dtype-name": ENTRY.replace("dtype", r"\dtype"),
        "shape-name": ENTRY.replace("shape", r"\u0073hap\u65"),
        "unknown-field-name": ENTRY.replace("}", r',"\x":0}'),
    },
)
def escape_of_another_kind_in(f: FileBuilder, value: str) -> None:
    """The entry contains an escape that JSON does not define: $slug."""
    header_text(f, f'{{"w":{value}}}')


@rejects("HDR-14", "HDR_NOT_JSON", over={"carriage-return": "\r", "escape": "\x1b"})
def raw_control_at_end_of_name(f: FileBuilder, value: str) -> None:
    """A tensor name ends with an unescaped control character: $slug."""
    header_text(f, f'{{"w{value}":ENTRY}}')


@rejects("HDR-15 HDR-14", "HDR_NOT_JSON", over={"line-feed": "\n", "nul": "\0"})
def backslash_before_raw(f: FileBuilder, value: str) -> None:
    """A tensor name contains a backslash followed by an unescaped control character: $slug.

    Some languages continue a string across lines this way, but JSON does not.
    """
    header_text(f, f'{{"a\\{value}b":ENTRY}}')


@rejects("HDR-14", "HDR_NOT_JSON DTY_UNKNOWN", over={"tab": "\t", "nul": "\0"})
def raw_control_in_dtype(f: FileBuilder, value: str) -> None:
    """A dtype ends with an unescaped control character: $slug.

    A reader that trims the dtype, or treats it as a C string, gets a known code.
    """
    header_text(f, '{"w":' + ENTRY.replace("F32", "F32" + value) + "}")


@accepts(
    "HDR-15",
    over={
        "lengths-in-utf8": ("\x60\u012a\u12ab", r"\u0060\u012a\u12AB"),
        "mixed-case-pair": ("\U0001f600", r"\uD83d\uDE00"),
        "lowest-pair": ("\U00010000", r"\ud800\udc00"),
        "noncharacters": ("\uffff\ufffe\ufdd0\U0010fffe", r"\uffff\ufffe\ufdd0\udbff\udffe"),
        "line-separators": ("\u2028\u2029", r"\u2028\u2029"),
        "backslash-before-u": ("\\u0000", r"\\u0000"),
        "backslash-before-surrogate": ("\\ud800", r"\\ud800"),
        "escape-behind-backslash": ("\\\n", r"\\\n"),
        "digits-behind-escape": ("\x0041", r"\u000041"),
    },
)
@accepts("HDR-15 HDR-14", over={"all-controls": (C0, C0_ESCAPED)})
def escapes(f: FileBuilder, name: str, spelled: str) -> None:
    """A tensor name is written with valid escapes: $slug.

    Decoding the escapes twice, or not at all, produces another name.
    """
    f.tensor(name, "F32", [2], key=f'"{spelled}"')


@accepts("HDR-15 ENT-10")
def five_thousand_escapes(f: FileBuilder) -> None:
    """A tensor name has five thousand escaped characters.

    A buffer sized for the decoded name is too small for the escaped name.
    """
    f.tensor("w" * 5000, "F32", [2], key='"' + r"\u0077" * 5000 + '"')


@accepts("HDR-19 HDR-15 HDR-05")
def mark_escaped_beside_plain_name(f: FileBuilder) -> None:
    """Two names differ by a leading byte-order mark, which is written as an escape.

    Within a string, the byte-order mark is an ordinary character.
    """
    f.tensor("w", "F32", [1])
    f.tensor("\ufeffw", "F32", [1], key=r'"\ufeffw"')


@accepts("DAT-06 HDR-05")
def mark_at_start_of_data(f: FileBuilder) -> None:
    """The data begins with the bytes of a byte-order mark."""
    f.tensor("w", "U8", [8], b"\xef\xbb\xbfmarked"[:8])


RESERVED_WORDS = {
    "python": ("None", "True", "False", "self", "class", "def", "lambda", "__init__", "__class__"),
    "javascript": ("__proto__", "constructor", "this", "undefined", "NaN", "null", "true", "toString"),
    "others": ("nil", "NULL", "void", "int", "end", "fn", "Self", "super", "default", "-Infinity"),
}


@accepts("ENT-09 HDR-19", importance="high", over=RESERVED_WORDS)
def names_of_reserved_words(f: FileBuilder, value: tuple[str, ...]) -> None:
    """Tensors are named like words with a special meaning in programming languages ($slug)."""
    f.tensors(value, "U8", [2])


@accepts("MET-04 HDR-19", over=RESERVED_WORDS)
def metadata_keys_of_reserved_words(f: FileBuilder, value: tuple[str, ...]) -> None:
    """Metadata keys are words with a special meaning in programming languages ($slug)."""
    f.metadata({name: f"{number}" for number, name in enumerate(value)})
    f.tensor("w", "F32", [2])


@accepts("ENT-10", importance="low")
def name_of_65536_bytes(f: FileBuilder) -> None:
    """A tensor name has 65,536 characters, one more than a 16-bit length can count."""
    f.tensor("n" * 65_536, "F32", [2])


@chooses("lone-surrogates", codes=LONE_CODES)
def name_of_reversed_surrogates(f: FileBuilder) -> None:
    """The whole name of a tensor is two surrogates in the wrong order."""
    named_with_escapes(f, "", r"\ude00\ud83d")


@accepts("HDR-01 ENT-08 ENT-10")
def name_across_pages(f: FileBuilder) -> None:
    """A name contains two-byte characters around byte 4,096 of the header and of the file."""
    f.tensor("a" + "é" * 2100, "F32", [2])


@accepts("HDR-01 MET-04 MET-10")
def metadata_across_pages(f: FileBuilder) -> None:
    """A metadata value contains two-byte characters around byte 4,096 of the header and of the file."""
    f.metadata({"a": "a" + "é" * 2100})
    f.tensor("w", "F32", [2])
