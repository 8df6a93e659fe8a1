"""Read and validate ``corpus.json``, which is untrusted input.

A corpus names files and describes how to create large files. Every path must therefore stay inside the corpus
folder and must not name an executable file. No size may exceed the maximum that cases need, and every value
must have the expected type. ``faults`` checks these conditions; ``stc corpus verify`` also validates the
manifest against ``corpus.schema.json``.
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
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from safetensors_reference.source import read_whole
from safetensors_reference.text import shorten

from . import recipe
from .actions import ACTIONS, SCRIPT_STEPS, contradiction
from .model import (
    CASE_ID,
    AcceptExpectation,
    CaseRow,
    ChoiceExpectation,
    Content,
    DirectoryInput,
    RecipeInput,
    RejectExpectation,
    StoredInput,
    Tables,
    TensorCount,
    Text,
)
from .steps import KINDS
from .typed import MisfitError, members, shown, typed

SCHEMA_VERSION = 2
READABLE = (1, 2)
"""Supported schema versions. In version 1, cases contain all fields."""
MANIFEST = "corpus.json"
CHECKSUM = "corpus.sha256"
"""Name of the file that contains the digest of our own manifest, in the format of ``sha256sum``."""
FILES, RECIPES = "files", "recipes"
"""Folders for stored inputs, and for the inputs that ``stc corpus copy --recipes`` creates."""
LARGEST_MANIFEST = 64 << 20
"""Maximum size of ``corpus.json`` in bytes."""
LONGEST_NUMBER = 64
"""Maximum number of digits in a number in a manifest. Cases need at most 31."""
DEEPEST = 64
"""Maximum nesting depth of an action, which the harness passes to implementations as JSON."""
MOST_TEXT = 64 << 20
"""Maximum total size in bytes of the strings that the expectations of one case specify in parts."""


def defaults() -> dict[str, Any]:
    return {
        "features": [],
        "heavy": False,
        "smoke": False,
        "source": {"kind": "hand"},
        "affects": [],
        "status": "active",
    }


class ManifestError(Exception):
    """The corpus is missing or unreadable, has an unsupported schema version or contains a changed file."""


@dataclass(frozen=True)
class Document:
    """A manifest that was read but not validated."""

    path: Path
    text: bytes

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    @cached_property
    def raw(self) -> dict[str, Any]:
        """The parsed JSON. Only its schema version has been checked. Raises ManifestError."""
        return parsed(self.path, self.text)

    @property
    def as_built(self) -> bool:
        try:
            return read_whole(self.path.with_name(CHECKSUM), 1 << 10) == sha256sum(self.digest)
        except OSError:
            return False


def sha256sum(digest: str) -> bytes:
    return f"{digest}  {MANIFEST}\n".encode()


@dataclass(frozen=True)
class ManifestFault:
    """A fault in the manifest, or in the case with this id or number. ``why`` is a predicate."""

    case: str
    why: str

    def __str__(self) -> str:
        return f"case {self.case} {self.why}" if self.case else f"it {self.why}"


def read_document(path: Path) -> Document:
    """Read a manifest, from its path or the path of its folder. Raises ManifestError."""
    path = path / MANIFEST if path.is_dir() else path
    try:
        return Document(path, read_whole(path, LARGEST_MANIFEST))
    except OSError as err:
        raise ManifestError(f"corpus {err}; build it with: stc corpus build") from err


def parsed(path: Path, text: bytes) -> dict[str, Any]:
    """Parse the JSON of a manifest read from ``path``. Raises ManifestError."""
    try:
        raw = json.loads(
            text, parse_int=_integer, parse_float=_float, parse_constant=_float, object_pairs_hook=members
        )
        version = raw["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise unusable(path, f"{type(err).__name__}: {shorten(str(err), 200)}") from err
    if not isinstance(raw, dict) or type(version) is not int or version not in READABLE:
        shown = shorten(str(version), 20)
        raise ManifestError(
            f"corpus {path}: schema version {shown} is not supported; this program reads {SCHEMA_VERSION}"
        )
    if isinstance(cases := raw.get("cases"), list):
        raw["cases"] = [{**defaults(), **row} if isinstance(row, dict) else row for row in cases]
    return raw


def rendered(raw: Mapping[str, Any]) -> bytes:
    """Return the text of a manifest with one case, rule, choice or bug per line, omitting default values."""
    parts, usual = [], defaults()
    for name, rows in raw.items():
        if name == "cases":
            rows = [{k: v for k, v in row.items() if k not in usual or v != usual[k]} for row in rows]  # noqa: PLW2901
        if isinstance(rows, list) and rows:
            text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows) + "\n]"
        else:
            text = json.dumps(rows, indent=1, ensure_ascii=True)
        parts.append(f"{json.dumps(name)}: {text}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def checked(document: Document) -> Document:
    """Return a valid document unchanged. Raises ManifestError for the first fault."""
    fault = next(faults(document.raw, document.path.parent), None)
    if fault is not None:
        raise unusable(document.path, str(fault))
    return document


def unusable(path: Path, why: str) -> ManifestError:
    return ManifestError(f"corpus {path}: not a usable manifest ({why}); run: stc corpus build")


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(text):,} digits")
    return int(text)


def _float(text: str) -> float:
    number = float(text)  # also receives the constants NaN and Infinity
    if text in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(f"{text} is not a JSON number")
    if not math.isfinite(number):
        raise ValueError(f"the number {shorten(text, 40)} is too large")
    return number


class CaseTable(Struct):
    """The cases of a valid manifest."""

    corpus_version: str
    cases: list[CaseRow]

    @classmethod
    def of(cls, document: Document, *, trusted: bool = False) -> CaseTable:
        """Decode the cases of a document.

        Validates the document first, unless it is ``trusted``. Raises ManifestError.
        """
        if trusted:
            return msgspec.json.decode(document.text, type=cls)
        return typed(checked(document).raw, cls)


def misfit(value: Any, model: Any, where: str = "") -> str:
    """Return the reason why a value does not fit a model, or an empty string if it fits."""
    try:
        typed(value, model)
    except MisfitError as err:
        place = ".".join(filter(None, (where, err.where))).replace(".[", "[")
        if missing := re.fullmatch("has no '(.*)'", err.why):
            return f"has no {place}.{missing[1]}" if place else f"has no {missing[1]}"
        if place and (other := re.fullmatch("must be (.*), not (.*)", err.why)):
            return f"has {place} {other[2]}, not {other[1]}"
        return f"has {place} that {err.why}" if place else err.why
    return ""


def faults(raw: Mapping[str, Any], root: Path | None) -> Iterator[ManifestFault]:
    """Yield the faults in a parsed manifest. ``root`` is the folder in which links are checked, or None."""
    if why := misfit(raw, Tables):
        yield ManifestFault("", why)
    for key, table in raw.items():
        if key != "cases" and hidden(table):
            yield ManifestFault("", f"has unprintable characters in {shown(key)}")
    if not isinstance(raw.get("cases"), list):
        return
    seen: set[str] = set()
    places = None if root is None else _Places(root)
    for number, row in enumerate(raw["cases"]):
        name = row.get("id") if isinstance(row, dict) else None
        case = name if isinstance(name, str) and re.fullmatch(CASE_ID, name) else f"number {number}"
        if case in seen:
            yield ManifestFault(case, "appears twice")
        seen.add(case)
        reasons = list(_case(row))
        if not reasons and places is not None:
            reasons = [found for name, _, _ in stored_files(row) if (found := places.fault(name))]
        yield from (ManifestFault(case, reason) for reason in reasons)


def deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner = (x.values() if isinstance(x, dict) else x for x in level if isinstance(x, (dict, list)))
        level = list(chain.from_iterable(inner))
        if not level:
            return False
    return True


def hidden(value: Any) -> bool:
    """Return whether any string in a value contains control or invisible characters."""
    level = [value]
    while level:
        if not all(x.isprintable() for x in level if isinstance(x, str)):
            return True
        nests = (x for x in level if isinstance(x, (dict, list)))
        level = list(chain.from_iterable((*x, *x.values()) if isinstance(x, dict) else x for x in nests))
    return False


def _case(row: Any) -> Iterator[str]:
    if why := misfit(row, CaseRow):
        yield why
        return
    if row.get("kind", "read") not in KINDS:
        yield f"has kind {shown(row['kind'])}, not one of {', '.join(KINDS)}"
    # Inputs, expectations and actions may contain any text, because programs always escape it before they
    # print it.
    if hidden([value for key, value in row.items() if key not in ("input", "expect", "action")]):
        yield "has unprintable characters in its description"
    yield from _input(row["input"])
    yield from _expect(row["expect"])
    yield from action_faults(row.get("kind", "read"), row.get("action"))


def _input(given: Any) -> Iterator[str]:
    if given is None:
        return
    keys = given if isinstance(given, dict) else ()
    model = RecipeInput if "recipe" in keys else DirectoryInput if "directory" in keys else StoredInput
    if why := misfit(given, model, "input"):
        yield why
        return
    if "recipe" in given:
        yield from _recipe(given["recipe"], "input.recipe")
        return
    reasons = [path_fault(name, FILES) for name, _, _ in stored_files({"input": given})]
    names = [row["path"] for row in given.get("files", ())]
    # Check these paths even without the folder, because the harness copies the files into another folder.
    reasons += map(path_fault, names)
    yield from dict.fromkeys(f"{reason} (input)" for reason in reasons if reason)
    for number, row in enumerate(given.get("files", ())):
        yield from _recipe(row.get("recipe", []), f"input.files[{number}].recipe")
    if len(set(names)) != len(names):
        yield "has the same path twice in input.files"
    if model is DirectoryInput and given["open"] not in names:
        yield f"has input.open {shown(given['open'])}, which is not one of its files"


def _recipe(parts: Any, field: str) -> Iterator[str]:
    try:
        recipe.bounded_size(parts)
    except (ValueError, TypeError) as err:
        yield f"has {field} that cannot be expanded: {shorten(str(err), 300)}"


def _expect(given: Any) -> Iterator[str]:
    options: dict[str, Any] = {"expect": given}
    if isinstance(given, dict) and "options" in given:
        if why := misfit(given, ChoiceExpectation, "expect"):
            yield why
            return
        if hidden(list(given["options"])):
            yield "has unprintable characters in the name of an option"
        options = {f"expect.options.{shown(k)}": v for k, v in given["options"].items()}
    texts: list[Any] = []
    for where, option in options.items():
        yield from _expectation(option, where, texts)
    made = 0
    for text in texts:
        try:
            made += 0 if isinstance(text, str) else recipe.bounded_size(text["parts"])
        except (ValueError, TypeError, KeyError) as err:
            yield f"has a string in expect that cannot be expanded: {shorten(str(err), 300)}"
    if made > MOST_TEXT:
        yield f"has strings of {made:,} bytes in expect, but the maximum is {MOST_TEXT:,}"


def _expectation(given: Any, where: str, texts: list[Any]) -> Iterator[str]:
    why = misfit(given, AcceptExpectation | RejectExpectation, where)
    content = None if why else given.get("content")
    if content is not None:
        why = misfit(content, TensorCount if "tensor_count" in content else Content, f"{where}.content")
    if why:
        yield why
    elif content is not None and "tensors" in content:
        texts += [row["name"] for row in content["tensors"]]
        pairs = list(recipe.pairs_of(content["metadata"] or {}))
        if why := misfit(pairs, list[tuple[Text, Text]], f"{where}.content.metadata"):
            yield why
        else:
            texts += chain.from_iterable(pairs)


def action_faults(kind: str, given: Any) -> Iterator[str]:
    """Yield the faults in the action of a case."""
    wanted = kind if kind in KINDS and KINDS[kind].acts else None
    if given is None:
        if wanted:
            yield "has no action"
        return
    if not isinstance(given, dict) or given.get("do") != (wanted or "slice"):
        yield f"has an action that is not {wanted or 'slice'}, as kind {kind} requires"
        return
    if deep(given):
        yield f"has an action that is nested more than {DEEPEST} levels deep"
        return
    if why := misfit(given, ACTIONS[given["do"]], "action"):
        yield why
        return
    for number, step in enumerate(given.get("script", ())):
        needs = SCRIPT_STEPS.get(step["step"])
        if needs is None:
            yield f"has action.script[{number}].step {shown(step['step'])}, which does not exist"
        else:
            yield from (f"has no action.script[{number}].{key}" for key in needs if key not in step)
        yield from _recipe(step.get("bytes", []), f"action.script[{number}].bytes")
    yield from _recipe(given.get("bytes", []), "action.bytes")
    if why := contradiction(given):
        yield f"has an action that {why}"
    storages = given.get("storages", {})
    for name, parts in storages.items():
        yield from _recipe(parts, f"action.storages.{shown(name)}")
    for number, tensor in enumerate(given.get("tensors", ())):
        if tensor["storage"] not in storages:
            yield f"has action.tensors[{number}].storage {shown(tensor['storage'])}, which does not exist"


def stored_files(case: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield the relative path, the SHA-256 and the size of every stored file of a case."""
    given = case["input"]
    if given is None or "recipe" in given:
        return
    if "directory" not in given:
        yield given["file"], given["sha256"], given["size"]
        return
    for file in given["files"]:
        if not file.get("recipe"):
            yield f"{given['directory']}/{file['path']}", file["sha256"], file["size"]


SUFFIXES = (".safetensors", ".json", ".bin", ".pt")
"""Allowed suffixes. No system executes files with these suffixes or reads them as settings."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def path_fault(name: str, *folders: str) -> str | None:
    """Return the reason a path is unsafe on some system or is outside all of the ``folders``, or None."""
    parts = name.split("/")
    if (
        "" in parts
        or any(part in (".", "..") or "\\" in part or ":" in part for part in parts)
        or (folders and (parts[0] not in folders or len(parts) < 2))
    ):
        return f"names a file outside the folder: {shown(name)}"
    for part in parts:
        if not part.isprintable() or not part.isascii() or len(part) > 200 or part[-1] in ". ":
            return f"names a file that not every system can store: {shown(name)}"
        if part[0] in ".- " or _RESERVED.fullmatch(part) or set(part) & set('*?"<>|'):
            return f"names a file with a special meaning on some system: {shown(name)}"
    if not name.endswith(SUFFIXES):
        return f"names a file that does not end in {', '.join(SUFFIXES)}: {shown(name)}"
    return None


class _Places:
    """Checks the files of a corpus on disk, and caches the results for its folders."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._real = os.path.realpath(root)
        self._folders: dict[str, bool] = {}

    def fault(self, name: str) -> str | None:
        """Return the reason why a path must not be opened, or None.

        A missing file is not treated as a fault.
        """
        path = os.path.join(self._root, name)  # noqa: PTH118 - thousands at a time
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = self._inside(folder)
        try:
            if not self._folders[folder] or (stat.S_ISLNK(os.lstat(path).st_mode) and not self._inside(path)):
                return f"names a file that a link places outside the folder: {shown(name)}"
            if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
                return f"names something other than a regular file: {shown(name)}"
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            return f"names a file that cannot be examined: {shown(name)}: {err.strerror or err}"
        return None

    def _inside(self, path: str) -> bool:
        return (os.path.realpath(path) + "/").startswith(self._real.rstrip("/") + "/")
