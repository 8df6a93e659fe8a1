"""The models of the actions in ``corpus.json``: what to do in addition to opening and reading the input.

The names of the files of a checkpoint, and the memory of the tensors to save, follow from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .placing import PLACES
from .recipe import LARGEST_FILE, Recipe, Size
from .server import BEHAVIOURS, Behaviour
from .typed import Count, shown, words

MODEL = "model/"
"""Folder of the checkpoint within the directory."""
INDEX_NAME = "model.safetensors.index.json"
MOST_READERS, MOST_ROUNDS, MOST_TAKEN = 64, 1000, 10_000
"""Maximum number of simultaneous readers, of rounds, and of tensors per reader and round."""
Taken = Annotated[list[str], Meta(max_length=MOST_TAKEN)]
SCRIPT_STEPS: Mapping[str, tuple[str, ...]] = {
    "open": (),
    "tensor": ("tensor",),
    "close": (),
    "truncate": ("size",),
    "rewrite": ("bytes", "at"),
    "replace": ("bytes",),
    "unlink": (),
    "append": ("bytes",),
    "try": (),
}
"""Maps each step of a script to its required keys."""


class IndexRange(Struct):
    """A range of a slice. A bound or step that is neither an integer nor null makes the index invalid."""

    start: int | float | str | None
    stop: int | float | str | None
    step: int | float | str | None


class SliceAction(Struct, tag_field="do", tag="slice"):
    """Read a part of one tensor without reading the others; without index items, read the whole tensor.

    Attributes:
        index: Items of a slice: an integer, a range, an ellipsis ("..."), or an invalid index.
    """

    tensor: str
    index: list[
        Annotated[
            Any,
            Meta(
                extra_json_schema={
                    "oneOf": [
                        {"type": ["integer", "boolean", "null", "number", "array", "string"]},
                        {"$ref": "#/$defs/IndexRange"},
                    ]
                }
            ),
        ]
    ]


class GivenTensor(Struct):
    """A tensor that a program saves.

    Attributes:
        name: Usually a string; the writer must reject other types. An object whose only member is parts
            represents a string that is too long or has a lone surrogate. The parts contain its bytes in
            UTF-8, with lone surrogates encoded like other characters.
        dtype: Dtype code of the format, or another element type, which the writer must reject.
        offset: Position of the first element in the storage, in bytes.
        strides: Distance in bytes between neighbours along each dimension, possibly negative or zero; null
            for contiguous row-major order.
        byteorder: Byte order of the elements in the storage.
        nbytes: Number of bytes passed from offset, if dtype and shape imply a different number. A writer that
            cannot receive such a tensor does not support the case.
    """

    name: Any
    dtype: str
    shape: list[Count]
    storage: str
    offset: Size
    strides: list[int] | None
    byteorder: Literal["little", "big"]
    nbytes: Count = 0


class _Save(Struct):
    """What every save receives."""

    storages: dict[str, Recipe]
    tensors: list[GivenTensor]
    metadata: Any


class WriteAction(_Save, tag_field="do", tag="write"):
    """Write a file.

    The tensors are views into named storages: element (i, j, ...) of a tensor starts at byte
    offset + i * strides[0] + j * strides[1] + ...

    Attributes:
        metadata: Map to write, or null for none; the writer must reject other types. Values can be given in
            parts, like names. A map with such keys, or with keys that are not strings, is an object whose
            only member is items, a list of pairs.
        target: new: a path that does not exist. input: over the input file, which is loaded first and whose
            tensors are written. file: over the input file, with the tensors of the action. missing-folder: in
            a folder that does not exist. link: through a symbolic link to the input file.
        file_size_limit: Maximum size in bytes of a file that the system allows the process to write.
    """

    target: Literal["new", "input", "file", "missing-folder", "link"]
    file_size_limit: Size = 0


class ShardedAction(_Save, tag_field="do", tag="sharded"):
    """Save a model in shards with an index into the folder model of the directory.

    The folder may already contain files. The file names begin with model: model-00001-of-00002.safetensors
    and model.safetensors.index.json, or only model.safetensors.

    Attributes:
        metadata: Map of strings to save with the model, or null for none. The case does not check where the
            program stores it.
        max_shard_size: Maximum number of tensor bytes in a shard; a larger tensor gets its own shard.
        file_size_limit: Maximum size in bytes of a file that the system allows the process to write.
    """

    max_shard_size: Annotated[int, Meta(ge=1, le=LARGEST_FILE)]
    file_size_limit: Size = 0


class ExportAction(Struct, tag_field="do", tag="export"):
    """Write the tensors of the input to files in the folder one/two/three/export of an empty directory.

    The input is a file in that directory. In the names of its tensors, replace @ROOT@ with the absolute path
    of the directory, and adapt the length of the header. The directory also contains the file outside/kept.

    Attributes:
        contents: Bytes of each tensor in hex. If a file in the folder contains the bytes of one tensor, the
            files must contain the bytes of every tensor.
        links: Symbolic links in the folder: name in the folder -> path in the directory.
    """

    contents: list[Annotated[str, Meta(pattern=r"\A([0-9a-f]{2})+\Z")]]
    links: dict[
        Annotated[str, Meta(pattern=r"\A[a-z]+(\.[a-z]+)?\Z")],
        Annotated[str, Meta(pattern=r"\A(outside(/[a-z]+(\.[a-z]+)?)?)?\Z")],
    ]


class ScriptStep(Struct):
    """A step of a script.

    Attributes:
        step: try: the implementation opens the file, which it may reject, and closes it. truncate: reduce the
            file to size bytes. rewrite: overwrite bytes of the same file. replace: rename another file over
            it. append: add bytes at the end.
        bytes: Content that rewrite, replace or append writes.
        at: For rewrite: position of the first byte; the file size does not change.
    """

    step: Annotated[str, words(*SCRIPT_STEPS)]
    tensor: str = ""
    size: Size = 0
    bytes: Recipe = []
    at: Size = 0


class LifecycleAction(Struct, tag_field="do", tag="lifecycle"):
    """Script in which the implementation reads a file while another program changes it.

    The expected content is the tensor that the last tensor step reads.
    """

    script: Annotated[list[ScriptStep], Meta(extra_json_schema={"minItems": 2})]


class RemoteAction(Struct, tag_field="do", tag="remote"):
    """Serve the input over HTTP, and pass its URL to the reader.

    Attributes:
        after: Number of GET requests that the server first answers with the requested range.
        bytes: For changed: the content of the other file.
    """

    server: Annotated[
        Behaviour, Meta(description=" ".join(f"{name}: {text}." for name, text in BEHAVIOURS.items()))
    ]
    after: Count = 0
    bytes: Recipe = []


class ConcurrentReader(Struct):
    """A reader of a concurrent action.

    Attributes:
        tensors: Names read in each round, in this order.
        unknown: True if the file has no such tensors; rejecting them is then allowed.
    """

    tensors: Taken
    unknown: bool


class ConcurrentAction(Struct, tag_field="do", tag="concurrent"):
    """Several simultaneous readers of one file.

    All readers start a round together. In a round, each reader reads its tensors one by one, and evaluates
    them when all readers have read theirs. The expected content is the set of all tensors read; any other
    content is wrong.

    Attributes:
        by: threads: threads of one process. processes: processes forked from one process.
        opened: once: the file is opened before the readers start or are forked, and they share the handle.
            each: every reader opens the file itself, and all have it open at the same time.
        before: Tensors that the opener of the file reads before the readers start or are forked. If each
            reader opens the file, the opener has an additional handle.
        times: Number of rounds.
        closed: Number of the round at whose start the opener closes the file, or 0 if the file stays open.
            From then on, threads may find the file closed, and the reader may refuse to close it while they
            read; both are allowed. A process has its own handle, which stays open.
        after: Tensors that the opener of the file reads after all readers have finished.
    """

    by: Literal["threads", "processes"]
    opened: Literal["once", "each"]
    before: Taken
    readers: Annotated[list[ConcurrentReader], Meta(min_length=2, max_length=MOST_READERS)]
    times: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]
    closed: Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
    after: Taken


class ContendedAction(_Save, tag_field="do", tag="contended"):
    """Save to one target from several processes at the same time.

    Each process saves its own tensors, as in a write action, but all processes save to the same target.

    Attributes:
        savers: Names of the tensors that each process saves.
    """

    target: Literal["new", "file"]
    savers: Annotated[list[Taken], Meta(min_length=2, max_length=MOST_READERS)]


class PlacedAction(Struct, tag_field="do", tag="placed"):
    """Read the input under another path, behind links, or next to other files. The content stays the same.

    Attributes:
        place: Where to put the file, or the folder of the model.
    """

    place: Annotated[
        str,
        Meta(
            description=" ".join(f"{name}: {place.meaning}." for name, place in PLACES.items()),
            extra_json_schema={"enum": list(PLACES)},
        ),
    ]


class RepeatedAction(Struct, tag_field="do", tag="repeated"):
    """Repeat requests for the same file, and compare the resources that the process holds before and after.

    Attributes:
        requests: read: read the file, or reject it. hold: open the file, and drop an earlier handle without
            closing it. tensor: read a tensor from the open file. close: close the open file.
        tensor: Name of the tensor that is read from the open file.
        times: Number of repetitions, including those that warm the process up.
    """

    requests: Annotated[list[Literal["read", "hold", "tensor", "close"]], Meta(min_length=1, max_length=16)]
    times: Annotated[int, Meta(ge=100, le=MOST_ROUNDS)]
    tensor: str = ""


ACTIONS: Mapping[str, type[Struct]] = {
    str(action.__struct_config__.tag): action
    for action in (
        SliceAction,
        WriteAction,
        ShardedAction,
        ExportAction,
        LifecycleAction,
        RemoteAction,
        ConcurrentAction,
        PlacedAction,
        RepeatedAction,
        ContendedAction,
    )
}


def contradiction(action: Mapping[str, Any]) -> str:
    """Return the reason why no program could perform an action, or an empty string."""
    if action["do"] == "placed" and action["place"] not in PLACES:
        return f"names the place {shown(action['place'])}, which does not exist"
    if action["do"] == "repeated":
        is_open = False
        for request in action["requests"]:
            if request in ("tensor", "close") and not is_open:
                return f"requests {request} while the file is not open"
            is_open = request == "hold" or (is_open and request != "close")
    if action["do"] != "concurrent":
        return ""
    if action["opened"] == "each" and (action["closed"] or action["after"]):
        return "closes or continues to read a file that each reader opens for itself"
    if action["closed"] and action["after"]:
        return "continues to read a file that it closed"
    return ""


def numbered(number: int, count: int) -> str:
    return f"model-{number:05d}-of-{count:05d}.safetensors"


def covered(given: Mapping[str, Any], size: int) -> Iterator[int]:
    """Yield the positions of a tensor's bytes in its storage.

    If the element width is unknown, yield all ``size`` positions.
    """
    bits = DTYPE_BITS.get(given["dtype"])
    if bits is None:
        yield from range(size)
    elif given["strides"] is None:
        wanted = (prod(given["shape"]) * bits + 7) // 8 if given.get("nbytes") is None else given["nbytes"]
        yield from range(given["offset"], min(given["offset"] + wanted, size))
    else:
        for start in starts(given, bits // 8):
            yield from range(start, start + bits // 8)


def starts(given: Mapping[str, Any], width: int) -> Iterator[int]:
    """Yield the position of each element in row-major order. Raises ValueError for packed elements."""
    if not width:
        raise ValueError("elements smaller than a byte cannot have strides or a byte order")
    shape: Sequence[int] = given["shape"]
    strides = given["strides"]
    if strides is None:
        strides = [width * prod(shape[i + 1 :]) for i in range(len(shape))]
    for place in itertools.product(*(range(n) for n in shape)):
        yield given["offset"] + sum(i * s for i, s in zip(place, strides, strict=True))
