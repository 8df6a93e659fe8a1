"""Header: values of unknown fields that are invalid, unusual or long.

Readers that skip unknown values, or that keep only the text of long values, process them in a separate code
path. That path must be as strict as the usual path. In some cases, the mistake comes after a thousand
correct bytes.
"""

from __future__ import annotations

from safetensors_corpus.author.case import ACCEPT, accepts, chooses, reject, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import ENTRY, RARE, header_text

IGNORED = "HDR_NOT_JSON ENT_UNKNOWN_FIELD"
"""Codes for a fault inside an unknown field. Some readers reject every unknown field."""
DEEP = f"HDR_TOO_DEEP {IGNORED}"
NUMBERS = ["12345678"] * 600
ITEM = '[1,{"a":[true,-0.5e3],"b":{}},"text",[]]'
ITEMS = ",\n".join([ITEM] * 40)
MEMBERS = ",".join(f'"member {n}" : {ITEM}' for n in range(30))
PLAIN = '[1,{"a":[true,25],"b":{}},"text",[]]'
"""A value that does not use any feature that readers may treat differently, such as exponents."""
PLAINS = ",".join([PLAIN] * 40)
PLAIN_MEMBERS = ",".join(f'"member{n}":{PLAIN}' for n in range(30))


@rejects(
    "HDR-07",
    IGNORED,
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
    IGNORED,
    over={
        "leading-zero": "01",
        "plus": "+1",
        "point-first": ".5",
        "point-last": "1.",
        "exponent-empty": "1e",
        "hexadecimal": "0x10",
    },
)
@rejects("HDR-14", IGNORED, over={"raw-line-feed": '"a\nb"'})
@rejects("HDR-15", IGNORED, over={"lone-surrogate": r'"\ud800\u41"', "hex-escape": r'"\x41"'})
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
@chooses("number-range", codes=IGNORED, over={"1e999": "1e999", "401-digits": "1" + "0" * 400})
def ignored_number(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains an unusual number that is valid JSON ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})


def _arrays(levels: int) -> str:
    """Return arrays inside the header object and an entry, which are the two outer levels."""
    return "[" * (levels - 2) + "]" * (levels - 2)


def _objects(levels: int) -> str:
    return '{"a":' * (levels - 3) + "{}" + "}" * (levels - 3)


@chooses(
    "rare-ignored-values",
    "HDR-16",
    options={"reject": reject("ENT_UNKNOWN_FIELD HDR_TOO_DEEP"), "ignore": ACCEPT},
    over={"100-arrays": _arrays(100), "127-arrays": _arrays(127), "127-objects": _objects(127)},
)
@chooses(
    "deep-nesting",
    codes=DEEP,
    over={f"{n}-arrays": _arrays(n) for n in (128, 1000, 20_000)} | {"128-objects": _objects(128)},
    importance="high",
    bugs={"1000-arrays": "FB-121 FB-202", "20000-arrays": "FB-121 FB-202"},
)
def nesting(f: FileBuilder, value: str) -> None:
    """Nested arrays or objects in an unknown field reach this nesting depth in the header: $slug.

    A parser or destructor that recurses once per level can overflow the stack.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects("HDR-07 HDR-16", DEEP, importance="high", bugs="FB-121 FB-202")
def open_arrays_in_ignored_field(f: FileBuilder) -> None:
    """An unknown field opens thirty thousand arrays, and then the header ends."""
    header_text(f, f'{{"w":{ENTRY[:-1]},"x":{"[" * 30_000}')


IGNORED_WORD = {
    "true-capitalised": "True",
    "undefined": "undefined",
    "quote-alone": '"',
    "star": "*",
    "nul": "\0",
    "string-and-word": '"a"b',
    "array-of-array-without-comma": "[3[4]]",
}


@rejects("HDR-07", IGNORED, over=IGNORED_WORD)
def ignored_word(f: FileBuilder, value: str) -> None:
    """The value of an unknown field in an entry is not a JSON value: $slug.

    The grammar also applies to values that the reader ignores.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


IGNORED_DIGITS = {
    "minus-alone": "-",
    "minus-leading-zero": "-01",
    "point-before-exponent": "2.e3",
    "exponent-sign-alone": "1e+",
    "underscore": "1_000",
    "wide-digit": "\uff11",
}


@rejects("HDR-07 HDR-18", IGNORED, over=IGNORED_DIGITS)
def ignored_digits(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains an invalid JSON number: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "long-number",
    "HDR-18 API-14",
    codes=IGNORED,
    over={"5000-digits": "9" * 5000, "minus-5000-digits": "-" + "9" * 5000},
)
def ignored_integer(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains an integer with many digits: $slug.

    Python refuses to convert more than 4,300 digits and raises its own error.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "rare-ignored-values",
    "HDR-18",
    options=RARE,
    over={
        "zero-to-a-power": "0e+1",
        "underflow": "123.456e-789",
        "eighty-decimals": "0." + "0" * 79 + "1",
        "exponent-with-zeros": "1E0000000002",
        "minus-2p63-less-1": str(-(2**63) - 1),
    },
    importance="low",
)
@chooses(
    "number-range",
    codes=IGNORED,
    over={"minus-1e9999": "-1e+9999", "fraction-to-a-high-power": "0.4e006699999999999999"},
    importance="low",
)
def ignored_number_form(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains a number in a rare but valid form: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


IGNORED_VALUE = {
    "every-kind": '[null,true,false,0,-1.5e3,"",{},[],{"":[{"a":[]}]}]',
    "every-escape": r'"\"\\\/\b\f\n\r\t\u0000\uD83D\uDE00"',
    "every-space": "[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n]",
}


@chooses("rare-ignored-values", "HDR-07 HDR-15", options=RARE, over=IGNORED_VALUE, importance="low")
def ignored_value(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains valid JSON with many kinds of tokens: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


@chooses(
    "rare-ignored-values",
    "HDR-08",
    options=RARE,
    importance="low",
    over={"compact": ",", "spaced": ", ", "lines": "\n,\t"},
)
def ignored_long_array(f: FileBuilder, value: str) -> None:
    """An unknown field of an entry contains an array of 600 numbers ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": f"[{value.join(NUMBERS)}]"})


IGNORED_LONG_ARRAY_TEXT = {
    "no-commas": f"[{' '.join(NUMBERS)}]",
    "comma-missing-at-end": f"[{','.join(NUMBERS)} 1]",
    "comma-at-end": f"[{','.join(NUMBERS)},]",
    "two-commas-at-end": f"[{','.join(NUMBERS)},,1]",
    "leading-zero-at-end": f"[{','.join(NUMBERS)},01]",
    "word-at-end": f"[{','.join(NUMBERS)},NaN]",
    "closed-by-brace": f"[{','.join(NUMBERS)}}}",
}


@rejects("HDR-07 HDR-18", IGNORED, over=IGNORED_LONG_ARRAY_TEXT)
def ignored_long_array_text(f: FileBuilder, value: str) -> None:
    """A long array in an unknown field breaks the JSON grammar ($slug).

    The mistake is several thousand bytes past the part that a reader might sample.
    """
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects("HDR-07 SHP-01", "HDR_NOT_JSON SHP_BAD_TYPE")
def long_shape_without_commas(f: FileBuilder) -> None:
    """A shape contains 2,500 ones that are separated by spaces instead of commas."""
    header_text(f, f'{{"w":{ENTRY.replace("[2]", "[" + "1 " * 2500 + "2]")}}}')


@chooses(
    "number-range",
    codes=IGNORED,
    importance="low",
    over={
        "in-array": "[1e999]",
        "in-object": '{"a":1e999}',
        "nested": '[[],{"a":[0,{"b":1e999}]}]',
        "at-end-of-long-array": f"[{','.join(NUMBERS)},1e999]",
    },
)
def ignored_number_out_of_range(f: FileBuilder, value: str) -> None:
    """An unknown field contains a nested number outside the range of a double ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})


IGNORED_SIGNS = {
    "two-minus-signs": "--1",
    "two-exponent-signs": "1e+-5",
    "two-exponents": "1e5e5",
    "two-fractions": "1.2.3",
}


@rejects("HDR-07 HDR-18", IGNORED, over=IGNORED_SIGNS)
def ignored_signs(f: FileBuilder, value: str) -> None:
    """An unknown field contains an invalid number in which one part is repeated ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})


@accepts("MET-04")
def numbers_as_metadata_text(f: FileBuilder) -> None:
    """A metadata value is the text of a long array of numbers and must stay a string."""
    f.metadata({"numbers": f"[{','.join(NUMBERS)}]"})
    f.tensor("w", "F32", [2])


def _array(last: str, items: str = ITEMS) -> str:
    return f"[{items},{last}]"


def _object(last: str, members: str = MEMBERS) -> str:
    return f"{{{members},{last}}}"


@chooses(
    "rare-ignored-values",
    "HDR-07 HDR-18",
    options=RARE,
    over={
        "array": _array('"end"'),
        "object": _object('"end":null'),
        "spaced-array": f'[ {ITEMS} ,\t[ 1 , 2 ]\r\n, {{ }} , [ ] , {{ "a" : 1 , "b" : [ ] }} ]',
        "spaced-object": f'{{ {MEMBERS} , "x"\t:\r\n[ {{ }} , 1 ] , "y" : {{ }} }}',
        "escapes-at-end": _array(r'"\"]}1e999[{","\\","\u0041"'),
        "escaped-keys-at-end": _object(r'"\"1e999":{"\\":1},"]":"}"'),
        "text-of-large-numbers": _object('"1e999":["1e999",{"-1E+0999":"' + "9" * 400 + '"}]'),
        "many-small-numbers": _array("0." + "0" * 400 + "1,0e999,-0E+999,1e-999,1E308,1e0000000000308"),
        "long-word-text": _array('"' + "word " * 300 + '"'),
        "nested-to-127": _array("[" * 124 + "]" * 124 + "," + '{"a":' * 124 + "0" + "}" * 124),
        "wide-at-127": "[" * 121 + _array("1") + "]" * 121,
    },
    importance="low",
)
@chooses(
    "number-range",
    codes=IGNORED,
    over={
        "large-last-in-array": _array("1e400", PLAINS),
        "large-first-in-array": f"[1e400,{PLAINS}]",
        "large-in-object": _object('"x":1e400,"y":0', PLAIN_MEMBERS),
        "large-deep-in-array": f'[{PLAINS},[[],{{"a":[0,{{"":[-1e400,"x"]}},{{}}],"b":[1]}},2],{PLAIN}]',
        "large-deep-in-object": _object('"x":{"y":[{},[],{"z":{"":1E+400}}],"w":1},"v":[[1]]', PLAIN_MEMBERS),
        "large-with-zeros": _array("0,1e+0000400,1", PLAINS),
        "large-fraction": _array("0.4e401,1", PLAINS),
        "four-hundred-nines": _array("9" * 400, PLAINS),
        "one-and-four-hundred-zeros": _array("1" + "0" * 400, PLAINS),
        "hundred-fifty-nines-e199": _array("9" * 150 + "e199", PLAINS),
        "large-behind-text-of-numbers": _object(
            '"1e400":"1e400","x":["1e400",{"1e400":1e400}]', PLAIN_MEMBERS
        ),
        "large-between-spaces": f"[{PLAINS} , [ 1 ,\t1e400\r\n, 2 ] ]",
        "two-large": f'{{{PLAIN_MEMBERS},"x":[1e400,{{"y":1e400}}]}}',
    },
    importance="low",
)
@chooses(
    "deep-nesting",
    codes=DEEP,
    over={
        "arrays-to-128": _array("[" * 125 + "]" * 125, PLAINS),
        "objects-to-128": _object('"x":' + '{"a":' * 124 + "{}" + "}" * 124, PLAIN_MEMBERS),
        "deeper-behind-many": "[" * 124 + "1," * 300 + "[[1]]" + "]" * 124,
        "wide-at-128": "[" * 122 + _array("1", PLAINS) + "]" * 122,
    },
    importance="low",
)
def ignored_long_value(f: FileBuilder, value: str) -> None:
    """An unknown field contains hundreds of bytes of valid JSON: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects(
    "HDR-07",
    IGNORED,
    over={
        "leading-zero": _array("[1,01]"),
        "point-without-digits": _array('{"a":[1.]}'),
        "word-that-goes-on": _array("[true,nulll]"),
        "number-that-goes-on": _object('"x":[1,2x]'),
        "plus-sign": _array("+1"),
        "word": _object('"x":{"y":Infinity}'),
        "comma-missing-in-array": _array('[1,"a" "b"]'),
        "comma-missing-in-object": _array('{"a":1 "b":2}'),
        "comma-missing-behind-array": _array("[] []"),
        "colon-missing": _array('{"a" 1}'),
        "comma-for-colon": _array('{"a",1}'),
        "colon-for-comma": _array('["a":1]'),
        "comma-at-end-of-array": _array("[1,]"),
        "comma-at-end-of-object": _object('"x":{"a":1,}'),
        "comma-at-start": _array("[,1]"),
        "comma-alone": _object('"x":{,}'),
        "value-missing": _object('"x":{"a":}'),
        "number-as-key": _array("{1:2}"),
        "array-as-key": _object("[]:1"),
        "array-closed-by-brace": _array("[1}"),
        "object-closed-by-bracket": _object('"x":{"a":1]'),
        "open-string": _array('["a]'),
        "single-quotes": _array("['a']"),
        "form-feed-as-space": _array("[1,\f2]"),
        "no-break-space": _object('"x":[1,\u00a02]'),
        "comment": _array("[1/**/,2]"),
    },
)
@rejects(
    "HDR-15",
    IGNORED,
    over={"unknown-escape": _array(r'["a\x"]'), "unknown-escape-in-key": _object(r'"x":{"\u00g0":1}')},
)
@rejects(
    "HDR-14",
    IGNORED,
    over={"control-character": _array('["a\nb"]'), "control-character-in-key": _object('"x":{"\x00":1}')},
)
def ignored_long_text(f: FileBuilder, value: str) -> None:
    """A long value of an unknown field breaks the JSON grammar near its end ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})
