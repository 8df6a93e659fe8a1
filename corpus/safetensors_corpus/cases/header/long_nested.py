"""Header: long values in fields that a reader ignores, of arrays and objects in one another.

A reader that keeps no more than the text of a long value, or skips it with a pattern of its own, has a path
that no short value takes. What is written wrong stands behind a thousand bytes that are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, chooses, reject, rejects
from ...author.parts import RARE

if TYPE_CHECKING:
    from ...author.file import FileBuilder

IGNORED = ("HDR_NOT_JSON", "ENT_UNKNOWN_FIELD")
ITEM = '[1,{"a":[true,-0.5e3],"b":{}},"text",[]]'
ITEMS = ",\n".join([ITEM] * 40)
MEMBERS = ",".join(f'"member {n}" : {ITEM}' for n in range(30))
PLAIN = '[1,{"a":[true,25],"b":{}},"text",[]]'
"""Nothing in it that a reader of a choice may stumble over besides."""
PLAINS = ",".join([PLAIN] * 40)
PLAIN_MEMBERS = ",".join(f'"member{n}":{PLAIN}' for n in range(30))


def _array(last: str) -> str:
    return f"[{ITEMS},{last}]"


def _object(last: str) -> str:
    return f"{{{MEMBERS},{last}}}"


def _plain_array(last: str) -> str:
    return f"[{PLAINS},{last}]"


def _plain_object(last: str) -> str:
    return f"{{{PLAIN_MEMBERS},{last}}}"


@chooses(
    "rare-ignored-values",
    "HDR-07",
    "HDR-18",
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
    options={"reject": reject(*IGNORED), "accept": ACCEPT},
    over={
        "large-last-in-array": _plain_array("1e400"),
        "large-first-in-array": f"[1e400,{PLAINS}]",
        "large-in-object": _plain_object('"x":1e400,"y":0'),
        "large-deep-in-array": f'[{PLAINS},[[],{{"a":[0,{{"":[-1e400,"x"]}},{{}}],"b":[1]}},2],{PLAIN}]',
        "large-deep-in-object": _plain_object('"x":{"y":[{},[],{"z":{"":1E+400}}],"w":1},"v":[[1]]'),
        "large-with-zeros": _plain_array("0,1e+0000400,1"),
        "large-fraction": _plain_array("0.4e401,1"),
        "four-hundred-nines": _plain_array("9" * 400),
        "one-and-four-hundred-zeros": _plain_array("1" + "0" * 400),
        "hundred-fifty-nines-e199": _plain_array("9" * 150 + "e199"),
        "large-behind-text-of-numbers": _plain_object('"1e400":"1e400","x":["1e400",{"1e400":1e400}]'),
        "large-between-spaces": f"[{PLAINS} , [ 1 ,\t1e400\r\n, 2 ] ]",
        "two-large": f'{{{PLAIN_MEMBERS},"x":[1e400,{{"y":1e400}}]}}',
    },
    importance="low",
)
@chooses(
    "deep-nesting",
    options={"reject": reject("HDR_TOO_DEEP", *IGNORED), "accept": ACCEPT},
    over={
        "arrays-to-128": _plain_array("[" * 125 + "]" * 125),
        "objects-to-128": _plain_object('"x":' + '{"a":' * 124 + "{}" + "}" * 124),
        "deeper-behind-many": "[" * 124 + "1," * 300 + "[[1]]" + "]" * 124,
        "wide-at-128": "[" * 122 + _plain_array("1") + "]" * 122,
    },
    importance="low",
)
def ignored_long_value(f: FileBuilder, value: str) -> None:
    """An unknown field holds many hundred bytes of JSON that the grammar allows: $slug."""
    f.tensor("w", "F32", [2], fields={"x": value})


@rejects(
    "HDR-07",
    codes=IGNORED,
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
    codes=IGNORED,
    over={
        "unknown-escape": _array(r'["a\x"]'),
        "unknown-escape-in-key": _object(r'"x":{"\u00g0":1}'),
    },
)
@rejects(
    "HDR-14",
    codes=IGNORED,
    over={
        "control-character": _array('["a\nb"]'),
        "control-character-in-key": _object('"x":{"\x00":1}'),
    },
)
def ignored_long_text(f: FileBuilder, value: str) -> None:
    """A long value of an unknown field ends in a way that JSON does not allow ($slug)."""
    f.tensor("w", "F32", [2], fields={"x": value})
