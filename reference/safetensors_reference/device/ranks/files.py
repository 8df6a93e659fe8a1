"""The files of a sharded load: opened and validated on every rank, and known to be the same on all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from ...header.read import header_of
from ...rules.book import ProfileName
from ...rules.errors import AccessError
from ...rules.faults import quote
from ...sharded.names import INDEX_SUFFIX
from ...sharded.read import open_index
from ...source import PathSource
from .consensus import Note, RankError, name_ranks
from .plan import Known

PathLike = str | os.PathLike[str]


class OpenFile(NamedTuple):
    """A file: where its bytes come from, what its header says, and a digest of header and size."""

    source: PathSource
    known: Known
    digest: str


def open_files(
    paths: PathLike | Sequence[PathLike], profile: ProfileName, stack: ExitStack
) -> list[OpenFile]:
    """Open one file, several, or those of an index, and validate them; ``stack`` closes them.

    Raises InvalidFileError, InvalidIndexError, UnreadableError, or AccessError when two files have a tensor
    of the same name.
    """
    files: list[OpenFile] = []
    owners: dict[str, str] = {}
    for path in _expanded(paths, profile):
        source = PathSource(path)
        stack.callback(source.close)
        header = header_of(source, profile)
        for tensor in header.tensors:
            if tensor in owners:
                raise AccessError(f"{source.name}: tensor {quote(tensor)} is in {owners[tensor]} too")
            owners[tensor] = source.name
        seen = hashlib.sha256(source.read(0, header.data_start))
        seen.update(source.size.to_bytes(8, "little"))
        known = Known(source.name, header.data_start, header.tensors)
        files.append(OpenFile(source, known, seen.hexdigest()[:32]))
    return files


def _expanded(paths: PathLike | Sequence[PathLike], profile: ProfileName) -> list[PathLike]:
    """Return the paths of all files, those of an index in place of it."""
    try:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    except TypeError as err:
        raise AccessError(f"paths must be a path or a list of paths, not {type(paths).__name__}") from err
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise AccessError(f"a device loads from paths, not from {type(path).__name__}")
    if len(given) == 1 and os.fspath(given[0]).endswith(INDEX_SUFFIX):
        folder = os.path.dirname(os.fspath(given[0]))  # noqa: PTH120 - a link to an index does not move its shards
        shards = open_index(given[0], profile).shards
        return [os.path.join(folder, shard) for shard in shards]  # noqa: PTH118 - spelled as in the index
    return given


def fact_of(files: Sequence[OpenFile]) -> str:
    """Return what has to be the same on all ranks."""
    return json.dumps([file.digest for file in files])


def check_same(files: Sequence[OpenFile], notes: Sequence[Note]) -> None:
    """Raise RankError when a rank has other files than rank 0: fewer, more, or of another header or size."""
    first = json.loads(notes[0].fact)
    others = [json.loads(note.fact) for note in notes]
    odd = [rank for rank, seen in enumerate(others) if len(seen) != len(first)]
    if odd:
        counts = f"{len(others[odd[0]]):,} files on rank {odd[0]}, {len(first):,} on rank 0"
        raise RankError(f"the ranks have different files: {counts}", tuple(odd))
    for number, digest in enumerate(first):
        odd = [rank for rank, seen in enumerate(others) if seen[number] != digest]
        if odd:
            text = f"header or size on {name_ranks(odd)} differ from rank 0's; give all ranks the same file"
            raise RankError(f"{files[number].source.name}: {text}", tuple(odd))
