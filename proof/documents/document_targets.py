"""Fuzz targets for untrusted documents: indexes, slices, manifests, records and answers.

One of our own programs reads each document. The program must accept the document or reject it with its
documented error, and must not change anything outside its folder. ``DocumentTarget.run`` raises an error for
anything else.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from safetensors_conformance.case_verdict import judge, result_row
from safetensors_conformance.outcome import Implementation
from safetensors_conformance.worker import protocol
from safetensors_corpus import Manifest, ManifestError, load_manifest
from safetensors_reference import safe_open
from safetensors_reference.model.read import InvalidIndexError, explain_index, open_index
from safetensors_reference.rules.errors import AccessError
from safetensors_reference.writing.numpy import save_file
from safetensors_reports.audit.build import build_report, report_text
from safetensors_reports.record.file import RecordError, RecordWriter, read_record

LARGEST = 1 << 20
"""Largest input in bytes of a case that is set up; the ``LIM`` cases of the corpus test larger inputs."""
_REPORTED = 32
_SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SEQ = 7
"""Number of the request to which an answer belongs."""
_CASES = (
    "framing/one-tensor",
    "header/escape-text-high-surrogate",
    "slice/beside-f4",
    "writer/alignment-all",
    "index/broken-file-beside-shards",
    "lifecycle/appended-a-byte",
    "resource/element-count-beyond-32-bits",
)
"""Cases of every kind and every form of input, with and without a choice."""


class EscapeError(Exception):
    """The program created or changed a file outside its folder."""


class DocumentTarget(ABC):
    """A kind of document and the program that reads it, which may use only ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def seeds(self) -> Iterator[bytes]:
        """Yield valid documents."""

    @abstractmethod
    def run(self, data: bytes) -> bool:
        """Read a document and return whether it was accepted. Raises any undocumented error."""


class ManifestTarget(DocumentTarget):
    """A file ``corpus.json``. The target loads it and sets up its cases."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._corpus, self._work = folder / "corpus", folder / "work"
        self._corpus.mkdir()
        whole = load_manifest()
        for case in map(whole.by_id.__getitem__, _CASES):
            for path in [case.input.file, *(f.source for f in case.input.files)]:
                if path is not None:
                    target = self._corpus / path.relative_to(whole.root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
        short = {key: value[:2] if isinstance(value, list) else value for key, value in whole.raw.items()}
        self._raw = {**short, "cases": [c for c in whole.raw["cases"] if c["id"] in _CASES]}
        self._stored = _listing(self._corpus)

    def seeds(self) -> Iterator[bytes]:
        yield json.dumps(self._raw).encode()
        for case in self._raw["cases"]:
            yield json.dumps({**self._raw, "cases": [case]}).encode()

    def run(self, data: bytes) -> bool:
        manifest = self._corpus / "corpus.json"
        manifest.write_bytes(data)
        try:
            loaded = load_manifest(self._corpus)
        except ManifestError:
            return False
        for case in loaded.cases:
            if case.size <= LARGEST and sum(f.size for f in case.input.files) <= LARGEST:
                shutil.rmtree(self._work, ignore_errors=True)
                self._work.mkdir()
                try:
                    case.set_up(self._work)
                except (ManifestError, OSError):
                    continue
        manifest.unlink()
        if _listing(self._corpus) != self._stored or {p.name for p in self.folder.iterdir()} > {
            "corpus",
            "work",
        }:
            raise EscapeError("a case of this manifest changed a file outside its folder")
        return True


class RecordTarget(DocumentTarget):
    """The lines of a run record. The target reads and reports them as ``stc report`` does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        whole = load_manifest()
        cases = tuple(map(whole.by_id.__getitem__, _CASES))
        self._cases = Manifest(whole.version, whole.root, cases, whole.document)

    def seeds(self) -> Iterator[bytes]:
        for outcome in ("accept", "reject", "crash"):
            path = self.folder / "seed.jsonl"
            with RecordWriter(path) as writer:
                writer.write("header", _header(self._cases))
                for case in self._cases.reading:
                    answer = {"seq": SEQ, "outcome": outcome, "message": "words", "tensors": _TENSORS}
                    result = protocol.parse_run(answer, SEQ)
                    row = result_row(judge(case, {"read": result}, READER, None), "read", False)
                    writer.write("result", row)
                writer.write("problem", {"message": "one"})
                writer.write("footer", _FOOTER)
            yield path.read_bytes()

    def run(self, data: bytes) -> bool:
        path = self.folder / "record.jsonl"
        path.write_bytes(data)
        try:
            record = read_record(path)
        except RecordError:
            return False
        if crc32(data) % _REPORTED == 0:
            report_text(build_report([record], self._cases)).encode("ascii")
        return True


class AnswerTarget(DocumentTarget):
    """A line of a tested program. The target judges it and writes a record, which must be readable."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._corpus = load_manifest()
        self._case = self._corpus.by_id[_CASES[0]]

    def seeds(self) -> Iterator[bytes]:
        whole = {
            "message": "words",
            "exception": "ValueError",
            "documented": True,
            "wall_ms": 0.5,
            "cpu_ms": 1,
            "tensors": _TENSORS,
            "metadata": {"a": "b"},
            "metadata_items": [["a", "b"]],
            "checks": [{"name": "alignment", "status": "pass", "message": ""}],
        }
        for outcome in ("accept", "reject", "unsupported"):
            yield json.dumps({"seq": SEQ, "outcome": outcome, **whole}).encode()
        yield json.dumps({"seq": SEQ, "outcome": "accept", "tensor_count": 3}).encode()
        who = {"name": "r", "version": "1", "language": "C", "areas": ["framing"]}
        yield json.dumps(
            {"protocol": 1, "implementation": who, "steps": ["read"], "lacks": ["bf16"]}
        ).encode()

    def run(self, data: bytes) -> bool:
        taken = False
        for line in data.split(b"\n")[:4]:
            for parse in (self._started, self._answered):
                try:
                    message = protocol.parse_line(line)
                    if message is not None:
                        parse(message)
                except protocol.ProtocolError as err:
                    str(err).encode("utf-8")
                else:
                    taken |= message is not None
        return taken

    def _started(self, message: dict[str, Any]) -> None:
        found = protocol.parse_start(message, "r")
        self._recorded({}, found)

    def _answered(self, message: dict[str, Any]) -> None:
        result = protocol.parse_run(message, SEQ, summary="tensor_count" in message)
        row = result_row(judge(self._case, {"read": result}, READER, None), "read", False)
        self._recorded(row, READER)

    def _recorded(self, row: dict[str, Any], who: Implementation) -> None:
        path = self.folder / "answers.jsonl"
        with RecordWriter(path) as writer:
            writer.write("header", _header(self._corpus, who))
            if row:
                writer.write("result", row)
            writer.write("footer", _FOOTER)
        record = read_record(path)
        if record.problems or len(record.results) != bool(row):
            raise EscapeError(f"this answer produces a record that cannot be read: {record.problems!a}")


class IndexTarget(DocumentTarget):
    """The index of a sharded model, with two shards next to it and one shard outside its folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._model = folder / "model"
        self._model.mkdir()
        for number, shard in enumerate((*_SHARDS, "../outside.safetensors")):
            rows = {f"w{number}": np.arange(4, dtype="<f4"), f"b{number}": np.zeros((0, 3), "<i8")}
            save_file(rows, self._model / shard)

    def seeds(self) -> Iterator[bytes]:
        where = {f"{letter}{n}": shard for n, shard in enumerate(_SHARDS) for letter in "wb"}
        yield json.dumps(
            {"metadata": {"total_size": 32, "a": [1, {"b": None}]}, "weight_map": where}
        ).encode()
        yield json.dumps({"weight_map": where}).encode()
        yield json.dumps(
            {"metadata": {"total_size": 16}, "weight_map": {"w0": _SHARDS[0], "b0": _SHARDS[0]}}
        ).encode()

    def run(self, data: bytes) -> bool:
        path = self._model / "model.safetensors.index.json"
        path.write_bytes(data)
        valid = explain_index(path).valid
        try:
            opened = open_index(path)
        except InvalidIndexError:
            if valid:
                raise EscapeError("an index without a fault is rejected") from None
            return False
        if not valid or not set(opened.shards) <= set(_SHARDS):
            raise EscapeError(
                f"an index opens {sorted(opened.shards)!a}, but without a fault it opens {valid}"
            )
        for name, (shard, info) in opened.tensors.items():
            with safe_open(self._model / shard, "raw") as file:
                if len(file.get_tensor(name)) != info.nbytes:
                    raise EscapeError(f"the size of {name!a} differs from its entry")
        return True


class SliceTarget(DocumentTarget):
    """The text in brackets after a tensor name. If it is accepted, NumPy must select the same elements."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shapes = {"a": (3, 4, 5), "b": (7,), "c": (), "d": (2, 0, 3), "e": (1, 2, 1, 3, 2)}
        self._whole = {name: np.arange(prod(s), dtype="<i4").reshape(s) for name, s in shapes.items()}
        save_file(self._whole, folder / "file.safetensors")
        self._file = safe_open(folder / "file.safetensors", "np")

    def seeds(self) -> Iterator[bytes]:
        for name, index in (
            ("a", [1, [0, 3, 2], "..."]),
            ("a", ["...", [None, None, -1]]),
            ("b", [[5, 1, -2]]),
            ("c", []),
            ("d", [[0, 1, 1], [0, 0, 1], -1]),
            ("e", [0, 1, "...", [1, None, None]]),
        ):
            yield json.dumps([name, index]).encode()

    def run(self, data: bytes) -> bool:
        try:
            name, index = json.loads(data)
            whole = self._whole[name]
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        parts = tuple(map(_part, index)) if isinstance(index, list) else _part(index)
        try:
            taken = self._file.get_slice(name)[parts]
        except AccessError:
            return False
        expected = np.asarray(whole[parts])
        if taken.shape != expected.shape or taken.tobytes() != expected.tobytes():
            raise EscapeError(f"{name}[{index!a}] is {taken!a}")
        return True


def _part(part: Any) -> Any:
    if part == "...":
        return ...
    return slice(*part) if isinstance(part, list) and len(part) == 3 else part


TARGETS: dict[str, Callable[[Path], DocumentTarget]] = {
    "index": IndexTarget,
    "slice": SliceTarget,
    "manifest": ManifestTarget,
    "record": RecordTarget,
    "answer": AnswerTarget,
}
READER = Implementation("r", "1", "Python", ("open", "read"))
_TENSORS = [{"name": "w", "dtype": "F32", "shape": [2], "nbytes": 8, "sha256": "0" * 64}]


_FOOTER = {"complete": True, "duration_s": 0.1, "not_run": 0}


def _header(manifest: Manifest, who: Implementation = READER) -> dict[str, Any]:
    return {
        "record": 1,
        "suite": "1",
        "implementation": {
            "selector": "r",
            "name": who.name,
            "version": who.version,
            "language": who.language,
            "steps": list(who.steps),
            "areas": [],
            "lacks": list(who.lacks),
        },
        "corpus": {"version": manifest.version, "digest": manifest.digest, "cases": 1, "left_out": {}},
        "profile": None,
        "limits": {"time_s": 1.0, "memory_bytes": 1},
        "started": "2026-01-01T00:00:00Z",
        "baseline": None,
        "platform": "p",
        "python": "3",
    }


def _listing(folder: Path) -> frozenset[tuple[str, int]]:
    return frozenset(
        (os.path.join(at, name), os.lstat(os.path.join(at, name)).st_size)  # noqa: PTH118 - many of them
        for at, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )


# Mutations


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**32, 2**53 + 1, 2**63, 2**64, 10**63, 10**400, -(10**40), 0.5,
    1e308, float("inf"), float("nan"), "", "\0", "\ud800", "\x1b[2J", "\u202e", "../x", "/etc/passwd",
    "files/../../x", ".git/hooks/x", "conftest.py", "a" * 5000, "pass", "read", [], {}, [[]], {"": None},
    ["x"] * 100,
)  # fmt: skip
"""Unusual JSON values that replace other values."""


def mutated(data: bytes, seed: int, plain: Callable[[bytes], bytes], largest: int) -> bytes:
    """Return a document with one to four changed JSON values, or with bytes changed by ``plain``.

    The result depends only on the data and the seed if that is also true of ``plain``.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        tree = json.loads(lines[at])
    except (ValueError, RecursionError):
        tree = None
    if tree is None or rng.random() < 0.1:
        return plain(data)[:largest]
    if len(lines) > 1 and rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines)), lines[at])  # repeat a line, or replace it with another
        del lines[rng.randrange(len(lines)) :]
    else:
        try:
            for _ in range(rng.choice((1, 1, 2, 4))):
                tree = _changed(tree, rng, plain)
            text = _doubled(json.dumps(tree, ensure_ascii=rng.random() < 0.5), rng)
        except RecursionError:
            return data
        lines[at] = text.encode("utf-8", "surrogatepass")
    made = b"\n".join(lines)
    return made if len(made) <= largest else data


def _changed(tree: Any, rng: random.Random, plain: Callable[[bytes], bytes]) -> Any:
    """Return a tree in which one value has been changed, removed, duplicated or moved."""
    root = [tree]
    holder: Any = root
    key: Any = 0
    while isinstance(holder[key], list | dict) and holder[key] and (holder is root or rng.random() < 0.8):
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    how = rng.randrange(6)
    value = holder[key]
    if how == 0 and holder is not root:
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[rng.choice([str(rng.choice(ODD))[:40], key + "x", _text(key, rng, plain)])] = holder.pop(key)
    elif how == 1 and holder is not root:
        holder.insert(rng.randrange(len(holder) + 1), deepcopy(value))
    elif how == 2 and isinstance(value, str):
        holder[key] = _text(value, rng, plain)
    elif how == 3 and type(value) in (int, float):
        holder[key] = rng.choice([value + 1, value - 1, -value, value * 2**32, str(value), [value]])
    elif how == 4:
        holder[key] = rng.choice([[value], {"a": value}, _nested(value, rng.choice((25, 70, 900)))])
    else:
        holder[key] = deepcopy(rng.choice(ODD))
    return root[0]


def _text(text: str, rng: random.Random, plain: Callable[[bytes], bytes]) -> str:
    if rng.random() < 0.3:
        at = rng.randrange(len(text) + 1)
        return text[:at] + str(rng.choice(ODD))[:200] + text[at:]
    return plain(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def _nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def _doubled(text: str, rng: random.Random) -> str:
    """Return the text, sometimes with a member of its object repeated with another value."""
    if text.startswith("{") and len(text) > 2 and rng.random() < 0.1:
        key = rng.choice(list(json.loads(text)))
        return f"{text[:-1]}, {json.dumps(key)}: {json.dumps(rng.choice(ODD))}}}"
    return text
