"""Convert documents to ``msgspec.Struct`` models, with readable errors and JSON Schemas.

The docstrings of the models are the descriptions in the schemas: the text above ``Attributes:`` describes the
object, and the lines below it describe the fields.
"""

from __future__ import annotations

import datetime as dt
import difflib
import inspect
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from safetensors_reference.source import read_whole
from safetensors_reference.text import shorten

Model = TypeVar("Model")
Count = Annotated[int, msgspec.Meta(ge=0)]
ADDRESS = "https://safetensors-conformance.example/schema/"
"""Prefix of the ids of published schemas."""
_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "date": "a date like 2027-06-01",
    "datetime": "a date with a time",
}
MAX_DOTS = 50_000_000
"""Maximum for a TOML file of its number of dots times the dots of its fullest line.

A parser spends time on a dotted key for each pair of its parts, so this bounds its work to seconds.
"""
_LONE = re.compile("[\ud800-\udfff]")


def read_toml(path: str | os.PathLike[str], most: int) -> dict[str, Any]:
    """Read a TOML file of at most ``most`` bytes. Raises ValueError and UnreadableError."""
    text = read_whole(path, most).decode()
    dots = [line.count(".") for line in text.split("\n")]
    if max(dots) * sum(dots) > MAX_DOTS:
        number = dots.index(max(dots)) + 1
        raise ValueError(
            f"line {number:,} has {max(dots):,} dots; keys with so many parts take too long to parse"
        )
    try:
        return tomllib.loads(text)
    except RecursionError as err:
        raise ValueError("nested too deeply") from err


class MisfitError(ValueError):
    """A value does not fit its model. The message is one line of ASCII.

    ``where`` is the position of the value, such as ``entry[0].name``, and is empty for the whole document.
    ``why`` is a predicate about the value, such as "must be a string".
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where, self.why = where, why

    def __reduce__(self) -> tuple[type[MisfitError], tuple[str, str]]:
        return type(self), (self.where, self.why)


def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, as an ``object_pairs_hook``. Raises ValueError if a key appears twice."""
    out = dict(pairs)
    if len(out) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {shown(twice)} appears twice in one object")
    return out


def typed(value: object, model: type[Model]) -> Model:
    """Convert dicts, lists, strings, numbers and dates to a model. Raises MisfitError.

    The parser must reject infinite numbers, deep nesting and repeated keys, because this function does not.
    """
    try:
        try:
            return msgspec.convert(value, model, builtin_types=(dt.date, dt.datetime))
        except UnicodeEncodeError:  # a lone surrogate in a key or an enum value
            value = _without_surrogates(value)
            return msgspec.convert(value, model, builtin_types=(dt.date, dt.datetime))
    except msgspec.ValidationError as err:
        said, _, place = str(err).rpartition(" - at ") if " - at " in str(err) else (str(err), "", "")
        where = re.sub(r"\$\.?", "", place.replace("`", "").replace("key in", "a key of"))
        raise MisfitError(where, _sentence(said, value, model, where)) from err
    except RecursionError as err:
        raise MisfitError("", "nested too deeply") from err


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return [_without_surrogates(v) for v in value] if isinstance(value, list) else value


def _sentence(said: str, value: object, model: Any, where: str) -> str:
    if found := re.fullmatch(r"Object missing required field `(.*)`", said):
        return f"has no {found[1]!r}"
    forms = _forms(model, where)
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL):
        names = sorted(name for form in forms for name in form.get("properties", ()))
        near = difflib.get_close_matches(found[1], names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        return f"unknown key {shown(found[1])}; {hint}"
    got = re.search(r", got `(.*)`$", said)
    there = _at(value, where) or (_KINDS.get(got[1], got[1]) if got else "")
    but = f", not {there}" if there else ""
    allowed = [str(word) for form in forms for word in form.get("enum", ())]
    if allowed and not got:
        return f"must be {' or '.join(allowed)}{but}"
    if found := re.fullmatch(r"Expected `(.*)`, got `.*`", said):
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in found[1].split(" | "))
        return f"must be {wanted}{but}"
    if found := re.fullmatch(r"Expected `(\w+)` (?:of (length) )?([<>]=?) (\d+)", said):
        kind = f"{_KINDS.get(found[1], found[1])}{' of length' if found[2] else ''}"
        return f"must be {kind} {found[3]} {int(found[4]):,}{but}"
    if found := re.fullmatch(r"Expected `str` matching regex '(.*)'", said):
        return f"must be a string of the form {found[1]}{but}"
    return shorten(said[:1].lower() + said[1:], 300)


def _at(value: Any, where: str) -> str:
    """Return the scalar at a position. For other values and unknown positions, return an empty string."""
    for name, number in re.findall(r"([A-Za-z_]\w*)|\[([\d.]+)\]", where):
        if name not in value if name else number == "...":
            return ""
        value = value[name] if name else value[int(number)]
    return "" if isinstance(value, (dict, list, dt.date)) else shown(value)


def shown(value: object) -> str:
    """Format a JSON scalar as one shortened line of ASCII."""
    if isinstance(value, str):
        return ascii(shorten(value, 120))
    if type(value) is int and abs(value) >= 10**64:
        return "a whole number with many digits"
    return json.dumps(value, default=str)  # the value may be a TOML time


def _forms(model: Any, where: str) -> list[dict[str, Any]]:
    forms, parts = msgspec.json.schema_components([model], ref_template="{name}")

    def opened(form: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield form
        for inner in (*form.get("anyOf", ()), *([parts[form["$ref"]]] if "$ref" in form else ())):
            yield from opened(inner)

    at_place = list(opened(forms[0]))
    for step in re.findall(r"[A-Za-z_]\w*|\[", where):
        keys = ("items", "additionalProperties")
        inside = (
            [f.get(k) for f in at_place for k in keys]
            if step == "["
            else [f.get("properties", {}).get(step) for f in at_place]
        )
        at_place = [form for inner in inside if isinstance(inner, dict) for form in opened(inner)]
    return at_place


def one_of(*models: Any) -> msgspec.Meta:
    """Return the schema of a value that has one of several forms. None permits null."""
    forms = [{"$ref": f"#/$defs/{m.__name__}"} if m is not None else {"type": "null"} for m in models]
    return msgspec.Meta(extra_json_schema={"oneOf": forms})


def words(*allowed: str) -> msgspec.Meta:
    """Return the schema of a string that the program checks later."""
    return msgspec.Meta(extra_json_schema={"enum": list(allowed)})


def json_schema(
    name: str, title: str, model: Any, about: str = "", *, forms: Sequence[Any] = (), closed: bool = False
) -> dict[str, Any]:
    """Return the JSON Schema of a struct or a union of structs, published as ``<name>.schema.json``.

    Args:
        name: name of the schema in its id.
        title: its title.
        model: the struct or union.
        about: description; by default, the docstring of the struct.
        forms: models that ``one_of`` names.
        closed: True to forbid unknown keys.
    """
    (root, *_), parts = msgspec.json.schema_components([model, *forms], ref_template="#/$defs/{name}")
    parts = {key: _described(part) for key, part in sorted(parts.items())}
    for part in parts.values():
        if closed and "properties" in part:
            part["additionalProperties"] = False
    if "$ref" in root:
        root = parts.pop(root["$ref"].rpartition("/")[2])
    root.pop("discriminator", None)  # an OpenAPI keyword
    about = about or root.pop("description", "")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{ADDRESS}{name}.schema.json"}
    defs = {"$defs": {_lower(key): part for key, part in parts.items()}} if parts else {}
    text = json.dumps({**head, "title": title, "description": about, **root, **defs})
    text = text.replace(r"\\A", "^").replace(r"\\Z", "$")  # JSON Schema has the expressions of ECMAScript
    made: dict[str, Any] = json.loads(re.sub(r"(?<=#/\$defs/)\w+", lambda found: _lower(found[0]), text))
    return made


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


def _described(part: dict[str, Any]) -> dict[str, Any]:
    about, _, fields = inspect.cleandoc(part.pop("description", "")).partition("\n\nAttributes:\n")
    for name, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", fields, re.MULTILINE):
        part["properties"][name] = {"description": _one_line(text), **part["properties"][name]}
    for form in part.get("properties", {}).values():
        if not form.get("default", True):
            form.pop("default")  # an empty default has the same meaning as an omitted field
    said = {"description": _one_line(about)} if about else {}
    return said | {
        key: value for key, value in part.items() if key != "title" and (key, value) != ("required", [])
    }


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
