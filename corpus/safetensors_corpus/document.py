"""``corpus.json`` as a document that may come from anybody: what it says is checked before anything is done.

A corpus names files, and says how large files are made. So every path has to stay below the folder of the
corpus and to be the name of a file that nothing runs, every size has to be one that a case can need, and
every value has to be of the type that the programs which read it rely on. ``faults`` says it case by case;
``corpus.schema.json``, which ``stc corpus verify`` holds a manifest against as well, says the rest.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from safetensors_reference.rules.faults import shorten
from safetensors_reference.source import read_whole

from . import recipe
from .steps import KINDS

SCHEMA_VERSION = 2
READABLE = (1, 2)
"""Schema versions that are read. In version 1 no field of a case is left out."""
MANIFEST = "corpus.json"
FILES, RECIPES = "files", "recipes"
"""Folders of the stored inputs, and of those made of recipes in a copy that has them."""
LARGEST_MANIFEST = 64 << 20
"""Largest ``corpus.json`` in bytes that is read."""
LONGEST_NUMBER = 64
"""Most digits of a number in a manifest; the longest that a case needs has 31."""
DEEPEST = 64
"""Deepest nesting of a value that is handed on as it stands."""
MOST_TEXT = 64 << 20
"""Most bytes that all texts spelled in parts make together in the expectations of one case."""


def defaults() -> dict[str, Any]:
    """Return the fields that a case has where ``corpus.json`` leaves them out."""
    return {
        "features": [],
        "heavy": False,
        "smoke": False,
        "source": {"kind": "hand"},
        "affects": [],
        "status": "active",
    }


class ManifestError(Exception):
    """The corpus cannot be used: missing, unreadable, of another schema version, or a file differs."""


@dataclass(frozen=True)
class Document:
    """A manifest as JSON, of the right schema version and not checked further.

    Attributes:
        path: the file.
        raw: what it holds.
        text: its bytes.
    """

    path: Path
    raw: dict[str, Any]
    text: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes, in hexadecimal."""
        return hashlib.sha256(self.text).hexdigest()


@dataclass(frozen=True)
class Fault:
    """What is wrong with a manifest, as a sentence about it or about the case of an id or a number."""

    case: str
    why: str

    def __str__(self) -> str:
        return f"case {self.case} {self.why}" if self.case else f"it {self.why}"


def read_document(path: Path) -> Document:
    """Read a manifest, or the one in a folder. Raises ManifestError when it is none of this version."""
    path = path / MANIFEST if path.is_dir() else path
    try:
        text = read_whole(path, LARGEST_MANIFEST)
    except OSError as err:
        raise ManifestError(f"corpus {err}; build it with: stc corpus build") from err
    return Document(path, parsed(path, text), text)


def parsed(path: Path, text: bytes) -> dict[str, Any]:
    """Return the JSON of a manifest that was read from ``path``. Raises ManifestError."""
    try:
        raw = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_constant)
        version = raw["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise unusable(path, f"{type(err).__name__}: {shorten(str(err), 200)}") from err
    if not isinstance(raw, dict) or type(version) is not int or version not in READABLE:
        shown = shorten(str(version), 20)
        raise ManifestError(f"corpus {path}: schema version {shown}, this program reads {SCHEMA_VERSION}")
    if isinstance(cases := raw.get("cases"), list):
        raw["cases"] = [{**defaults(), **row} if isinstance(row, dict) else row for row in cases]
    return raw


def rendered(raw: Mapping[str, Any]) -> bytes:
    """Return the text of a manifest: one case, rule, choice or bug a line, without what goes by default."""
    parts = []
    for name, value in raw.items():
        rows = [_without_defaults(row) for row in value] if name == "cases" else value
        if isinstance(rows, list) and rows:
            text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows) + "\n]"
        else:
            text = json.dumps(rows, indent=1, ensure_ascii=True)
        parts.append(f"{json.dumps(name)}: {text}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def _without_defaults(row: Mapping[str, Any]) -> dict[str, Any]:
    usual = defaults()
    return {k: v for k, v in row.items() if k not in usual or v != usual[k]}


def checked(document: Document) -> Document:
    """Return a document in which nothing is wrong. Raises ManifestError for its first fault."""
    fault = next(faults(document.raw, document.path.parent), None)
    if fault is not None:
        raise unusable(document.path, str(fault))
    return document


def unusable(path: Path, why: str) -> ManifestError:
    """Return the error for a manifest that cannot be used."""
    return ManifestError(f"corpus {path}: not a usable manifest ({why}); run: stc corpus build")


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text):,} digits")
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {shorten(text, 40)} is too large")
    return number


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# What a value must be: a type, a list of one form, or a map from keys to forms, where a key with a question
# mark may be missing. A pattern stands for a text that it matches whole, a tuple for a value among several.

ANY: Any = object()
"""A value of any type that is handed on as it stands, nested ``DEEPEST`` deep at most."""
TEXT: Any = object()
"""A text as ``recipe.spelled`` writes it."""
SIZE = range(recipe.LARGEST_FILE + 1)
"""A range stands for a whole number in it."""
COUNT = range(10**LONGEST_NUMBER)
SHA256 = re.compile("[0-9a-f]{64}")
CASE_ID = re.compile("[a-z0-9]+/[a-z0-9]+(-[a-z0-9]+)*")
_PARTS = [dict]
_STORED = {"sha256": SHA256, "size": SIZE}
_CONTENT = {
    "tensors": [{"name": TEXT, "dtype": str, "shape": [COUNT], "nbytes": COUNT, "sha256": SHA256}],
    "metadata": ANY,
}
_ACTIONS: Mapping[str, Any] = {
    "slice": {"do": str, "tensor": str, "index": [ANY]},
    "write": {
        "do": str,
        "storages": dict,
        "tensors": [
            {
                "name": ANY,
                "dtype": str,
                "shape": [COUNT],
                "storage": str,
                "offset": SIZE,
                "strides": ANY,
                "byteorder": ("little", "big"),
                "nbytes?": COUNT,
            }
        ],
        "metadata": ANY,
        "target": ("new", "input", "file", "missing-folder", "link"),
        "file_size_limit?": SIZE,
    },
    "lifecycle": {
        "do": str,
        "script": [{"step": str, "tensor?": str, "size?": SIZE, "bytes?": _PARTS, "at?": SIZE}],
    },
}
_NEEDS = {
    "open": (),
    "close": (),
    "unlink": (),
    "tensor": ("tensor",),
    "truncate": ("size",),
    "rewrite": ("bytes", "at"),
    "replace": ("bytes",),
    "append": ("bytes",),
}
_CASE = {
    "id": CASE_ID,
    "kind?": tuple(KINDS),
    "title": str,
    "description": str,
    "rules": [str],
    "level": str,
    "importance": str,
    "features": [str],
    "steps": [str],
    "heavy?": bool,
    "smoke": bool,
    "source": {"kind?": str, "issue?": str},
    "input": ANY,
    "expect": ANY,
    "affects": [{"bug": str, "project": str, "reference": str, "versions": str}],
    "status": ("active", "withdrawn", "superseded"),
}
_TABLES = {
    "corpus_version": re.compile(r"[0-9]{4}\.[0-9]{2}(\.[0-9]+)?"),
    "spec": dict,
    "rules": [{"id": str, "level": str, "title": str, "statement": str}],
    "choices": [{"id": str, "title": str, "rule": str, "options": dict, "positions": dict, "required": ANY}],
    "codes": dict,
    "field_bugs": [{"id": str, "project": str, "trigger": str}],
    "cases": list,
}


def faults(raw: Mapping[str, Any], root: Path | None) -> Iterator[Fault]:
    """Yield what is wrong with a manifest.

    Args:
        raw: the manifest as JSON.
        root: folder of the corpus, whose links are looked at; None for a manifest without its files.
    """
    yield from (Fault("", why) for why in misfits(raw, _TABLES))
    if not isinstance(raw.get("cases"), list):
        return
    seen: set[str] = set()
    places = None if root is None else _Places(root)
    for number, row in enumerate(raw["cases"]):
        name = row.get("id") if isinstance(row, dict) else None
        case = name if isinstance(name, str) and CASE_ID.fullmatch(name) else f"number {number}"
        if case in seen:
            yield Fault(case, "stands twice")
        seen.add(case)
        found = list(_case(row))
        if not found and places is not None:
            found = [why for name, _, _ in stored_files(row) if (why := places.fault(name))]
        yield from (Fault(case, why) for why in found)


def misfits(value: Any, form: Any, where: str = "") -> Iterator[str]:
    """Yield a sentence without its subject for everything in which a value is not of a form."""
    if not where.endswith("]") and _is_of(value, form):
        return  # as nearly always; the words below cost four times as much
    if isinstance(form, dict) and isinstance(value, dict):
        for key, inner in form.items():
            name = key.removesuffix("?")
            if name not in value:
                if name == key:
                    yield f"has no {where}.{name}" if where else f"has no {name}"
            elif isinstance(inner, (dict, list)) or not _fits(value[name], inner):
                yield from misfits(value[name], inner, f"{where}.{name}" if where else name)
    elif isinstance(form, list) and isinstance(value, list):
        for number, item in enumerate(value):
            yield from misfits(item, form[0], f"{where}[{number}]")
    elif not _fits(value, form):
        yield f"has {where} {_shown(value)}, not {_wanted(form)}" if where else f"is not {_wanted(form)}"


def _is_of(value: Any, form: Any) -> bool:
    """Return whether ``misfits`` has nothing to say."""
    if type(form) is dict:
        if type(value) is not dict:
            return False
        for key, inner in form.items():
            name = key[:-1] if key[-1] == "?" else key
            if name in value:
                if not _is_of(value[name], inner):
                    return False
            elif name is key:
                return False
        return True
    if type(form) is list:
        return type(value) is list and all(_is_of(item, form[0]) for item in value)
    return type(value) is form if type(form) is type else _fits(value, form)


def _fits(value: Any, form: Any) -> bool:
    if form is ANY:
        return not deep(value)
    if form is TEXT:
        return isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("parts"), list))
    if isinstance(form, re.Pattern):
        return isinstance(value, str) and len(value) <= 200 and form.fullmatch(value) is not None
    if isinstance(form, range):
        return type(value) is int and value in form
    if isinstance(form, tuple):
        return isinstance(value, str) and value in form
    return isinstance(form, type) and type(value) is form


def deep(value: Any) -> bool:
    """True for a value nested more than ``DEEPEST`` deep."""
    if not isinstance(value, (dict, list)):
        return False
    level = [value]
    for _ in range(DEEPEST):
        inner = [list(x.values()) if isinstance(x, dict) else x for x in level if isinstance(x, (dict, list))]
        level = [item for items in inner for item in items]
        if not level:
            return False
    return True


def _wanted(form: Any) -> str:
    if form is ANY:
        return f"nested {DEEPEST} deep at most"
    if form is TEXT:
        return "a text"
    if isinstance(form, re.Pattern):
        return f"a text of the form {form.pattern}"
    if isinstance(form, range):
        return f"a whole number from {form.start} to {form.stop - 1:,}"
    if isinstance(form, tuple):
        return f"one of {', '.join(form)}"
    if isinstance(form, (dict, list)):
        return "an object" if isinstance(form, dict) else "a list"
    return {str: "a text", bool: "true or false", dict: "an object", list: "a list"}[form]


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """Return a text in quotes, everything unprintable escaped."""
    return repr(shorten(text, 120))


def _case(row: Any) -> Iterator[str]:
    """Yield everything that is wrong with one case."""
    broken = list(misfits(row, _CASE))
    yield from broken
    if broken:
        return
    yield from _input(row["input"])
    yield from _expect(row["expect"])
    yield from action_faults(row.get("kind", "read"), row.get("action"))
    budget = row.get("budget") or {}
    if not isinstance(budget, dict) or any(type(x) not in (int, float) or x < 0 for x in budget.values()):
        yield "has a budget that is not an object of numbers"


def _input(given: Any) -> Iterator[str]:
    if given is None:
        return
    form: dict[str, Any] = {"file": str, **_STORED}
    if isinstance(given, dict) and "recipe" in given:
        form = {"recipe": _PARTS, **_STORED}
    elif isinstance(given, dict) and "directory" in given:
        form = {"directory": str, "files": [{"path": str, **_STORED, "template?": bool}], "open": str}
    broken = list(misfits(given, form, "input"))
    yield from broken
    if broken:
        return
    if "recipe" in given:
        yield from _recipe(given["recipe"], "input.recipe")
        return
    found = [path_fault(name, FILES) for name, _, _ in stored_files({"input": given})]
    names = [row["path"] for row in given.get("files", ())]
    # As they are copied into a folder of their own, they have other folders above them.
    found += map(path_fault, names)
    yield from dict.fromkeys(f"{why} (input)" for why in found if why)
    if len(set(names)) != len(names):
        yield "has input.files with one path twice"
    if names and given["open"] not in names:
        yield f"has input.open {_quoted(given['open'])}, which is not among its files"


def _recipe(parts: Any, field: str) -> Iterator[str]:
    """Yield what is wrong with the parts of a file."""
    try:
        recipe.bounded_size(parts)
    except (ValueError, TypeError) as err:
        yield f"has {field} that cannot be made: {shorten(str(err), 300)}"


def _expect(given: Any) -> Iterator[str]:
    options: dict[str, Any] = {"expect": given}
    if isinstance(given, dict) and "options" in given:
        broken = list(misfits(given, {"choice": str, "options": dict}, "expect"))
        yield from broken
        options = (
            {f"expect.options.{_quoted(k)}": v for k, v in given["options"].items()} if not broken else {}
        )
        if not broken and not options:
            yield "has no option in expect.options"
    texts: list[Any] = []
    for where, option in options.items():
        yield from _expectation(option, where, texts)
    made = 0
    for text in texts:
        try:
            made += 0 if isinstance(text, str) else recipe.bounded_size(text["parts"])
        except (ValueError, TypeError, KeyError) as err:
            yield f"has a text in expect that cannot be made: {shorten(str(err), 300)}"
    if made > MOST_TEXT:
        yield f"has texts of {made:,} bytes in expect, more than {MOST_TEXT:,}"


def _expectation(given: Any, where: str, texts: list[Any]) -> Iterator[str]:
    """Yield what is wrong with an expectation; add the texts in its content to ``texts``."""
    form: dict[str, Any] = {"outcome": ("accept", "reject"), "codes?": [str], "properties?": [str]}
    content = given.get("content") if isinstance(given, dict) else None
    if isinstance(given, dict) and given.get("outcome") == "accept":
        counted = isinstance(content, dict) and "tensor_count" in content
        form["content"] = {"tensor_count": COUNT} if counted else _CONTENT
    elif isinstance(given, dict):
        form["codes"] = form.pop("codes?")
    broken = list(misfits(given, form, where))
    yield from broken
    if broken:
        return
    if given["outcome"] == "reject" and (not given["codes"] or content is not None):
        yield f"has {where} that refuses without a code, or with content"
    if content is None or "tensors" not in content:
        return
    texts += [row["name"] for row in content["tensors"]]
    metadata = content["metadata"]
    if metadata is not None and not isinstance(metadata, dict):
        yield f"has {where}.content.metadata {_shown(metadata)}, not an object"
        return
    pairs = _items(metadata or {})
    if any(misfits_of for pair in pairs for misfits_of in misfits(pair, [TEXT])) or any(
        len(pair) != 2 for pair in pairs
    ):
        yield f"has {where}.content.metadata of something else than texts"
        return
    texts += [text for pair in pairs for text in pair]


def _items(metadata: Mapping[str, Any]) -> list[Any]:
    """Return the pairs of metadata, as ``recipe.map_of`` takes them."""
    items = metadata.get("items")
    return items if isinstance(items, list) else [list(pair) for pair in metadata.items()]


def action_faults(kind: str, given: Any) -> Iterator[str]:
    """Yield what is wrong with what a case of a kind does beyond opening and reading its input."""
    wanted = kind if kind in KINDS and KINDS[kind].acts else None
    if given is None:
        if wanted:
            yield "has no action"
        return
    if not isinstance(given, dict) or given.get("do") != (wanted or "slice"):
        yield f"has an action that is not {wanted or 'slice'}, which a case of kind {kind} does"
        return
    broken = list(misfits(given, _ACTIONS[given["do"]], "action"))
    yield from broken
    if broken:
        return
    for number, step in enumerate(given.get("script", ())):
        needs = _NEEDS.get(step["step"])
        if needs is None:
            yield f"has action.script[{number}].step {_quoted(step['step'])}, which is none"
        else:
            yield from (f"has no action.script[{number}].{key}" for key in needs if key not in step)
        yield from _recipe(step.get("bytes", []), f"action.script[{number}].bytes")
    storages = given.get("storages", {})
    for name, parts in storages.items():
        yield from _recipe(parts, f"action.storages.{_quoted(name)}")
    for number, tensor in enumerate(given.get("tensors", ())):
        if tensor["storage"] not in storages:
            yield f"has action.tensors[{number}].storage {_quoted(tensor['storage'])}, which is not there"


def stored_files(case: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Give path relative to the manifest, SHA-256 and size of every stored file of a case."""
    given = case["input"]
    if given is None or "recipe" in given:
        return
    if "directory" not in given:
        yield given["file"], given["sha256"], given["size"]
        return
    for file in given["files"]:
        yield f"{given['directory']}/{file['path']}", file["sha256"], file["size"]


SUFFIXES = (".safetensors", ".json", ".bin", ".pt")
"""How names of a corpus's files end. Nothing that is run by itself, or read as settings, ends so."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def path_fault(name: str, *folders: str) -> str | None:
    """Say why a path of a manifest must not be used, None when it may: it stays below its folder everywhere.

    Args:
        name: the path, relative, with forward slashes.
        folders: one of these it must lie in; none for any.
    """
    parts = name.split("/")
    if (
        "" in parts
        or any(part in (".", "..") or "\\" in part or ":" in part for part in parts)
        or (folders and (parts[0] not in folders or len(parts) < 2))
    ):
        return f"names a file outside of the folder: {_quoted(name)}"
    for part in parts:
        if not part.isprintable() or not part.isascii() or len(part) > 200 or part[-1] in ". ":
            return f"names a file as not every system can: {_quoted(name)}"
        if part[0] in ".- " or _RESERVED.fullmatch(part) or set(part) & set('*?"<>|'):
            return f"names a file that means something to a system: {_quoted(name)}"
    if not name.endswith(SUFFIXES):
        return f"names a file that ends in none of {', '.join(SUFFIXES)}: {_quoted(name)}"
    return None


class _Places:
    """What lies at the paths of a corpus on this disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._real = os.path.realpath(root)
        self._folders: dict[str, bool] = {}

    def fault(self, name: str) -> str | None:
        """Say what is wrong with what a path leads to. A file that is missing is noticed when it is read."""
        path = os.path.join(self._root, name)  # noqa: PTH118 - thousands at a time
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = self._inside(folder)
        try:
            if not self._folders[folder] or (stat.S_ISLNK(os.lstat(path).st_mode) and not self._inside(path)):
                return f"names a file that a link leads out of the folder for: {_quoted(name)}"
            if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
                return f"names what is not a regular file: {_quoted(name)}"
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            return f"names a file that cannot be looked at: {_quoted(name)}: {err.strerror or err}"
        return None

    def _inside(self, path: str) -> bool:
        return (os.path.realpath(path) + "/").startswith(self._real.rstrip("/") + "/")
