"""Writes sharded models: plans and saves the shards, and then the index."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from operator import index as as_int
from pathlib import Path
from typing import Self, TypeVar

from ..files.names import INDEX_SUFFIX, shard_name
from ..header.entries import U64_MAX
from ..header.read import read_header
from ..rules.errors import WriteError
from ..text import quote, shorten, shown
from ..writing.atomic import NotSavedError, not_saved, write_file
from ..writing.writer import check_name
from .index import INDEX_CAP, METADATA, TOTAL_SIZE, WEIGHT_MAP, FaultCollector, name_faults, read_index_text

Tensor = TypeVar("Tensor")
Directory = str | os.PathLike[str]


def plan_shards(sizes: Mapping[str, int], max_shard_size: int) -> list[list[str]]:
    """Divide tensors among shards of at most ``max_shard_size`` bytes of data.

    The shards contain the tensors in the order of ``sizes``. A shard ends when the next tensor does not fit.
    A tensor that is larger than the limit gets a shard of its own.

    Args:
        sizes: mapping of tensor names to sizes in bytes.
        max_shard_size: limit in bytes, at least 1.

    Raises:
        ValueError: the limit is below 1 or a size is below 0.
    """
    if max_shard_size < 1:
        raise ValueError(f"max_shard_size is {max_shard_size:,}, but it must be at least 1")
    shards: list[list[str]] = []
    room = -1
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"the size of tensor {quote(name)} must not be negative: {size:,}")
        if size > room:
            shards.append([])
            room = max_shard_size
        shards[-1].append(name)
        # After a tensor above the limit, the remaining space is negative, so not even an empty tensor is
        # added.
        room -= size
    return shards


def write_index(
    directory: Directory,
    weight_map: Mapping[str, str],
    total_size: int,
    metadata: Mapping[str, object] | None = None,
    stem: str = "model",
) -> Path:
    """Write or replace the index ``{stem}.safetensors.index.json``, and return its path.

    Args:
        directory: existing directory that contains the shards.
        weight_map: mapping of tensor names to shard names, written in this order.
        total_size: total number of bytes of all tensors, without duplicates (IDX-03).
        metadata: other members of the metadata object; may also contain ``total_size``.
        stem: first part of the name of the index, which the names of the shards usually share.

    Raises:
        WriteError: a name or the metadata cannot be written. Nothing has been written.
        NotSavedError: the file cannot be written. An existing index is not changed.
    """
    data = _index_text(weight_map, total_size, metadata)
    path = _index_path(directory, stem)
    write_file(path, [data])
    return path


def save_sharded(
    save_file: Callable[[dict[str, Tensor], Path], object],
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
    directory: Directory,
    max_shard_size: int,
    stem: str = "model",
    metadata: Mapping[str, object] | None = None,
) -> Path:
    """Save ``tensors`` in shards with an index, and return the path of the index.

    Shards are written to a temporary directory, read back and then moved to their final names. The index is
    written last. After any error or interrupt, ``directory`` is unchanged. If the process is killed, the
    index may be missing, but an existing index always matches its shards.

    Shards from an earlier save with a different number of shards are not removed. A process that is killed
    may leave behind a directory ``.safetensors-*.tmp`` with new shards, which can be deleted. It may also
    leave a directory ``.safetensors-*.old`` with the files that it was replacing.

    Args:
        save_file: function that writes the tensors of a shard, such as ``safetensors.numpy.save_file``.
        tensors: mapping of tensor names to tensors of any kind that ``save_file`` accepts.
        sizes: mapping of the same names to sizes in bytes; used only to plan the shards.
        directory: existing directory.
        max_shard_size: limit for the data of one shard in bytes; see ``plan_shards``.
        stem: first part of the file names (IDX-15).
        metadata: other metadata for the index.

    Raises:
        WriteError: names, metadata or ``sizes`` do not match, or ``save_file`` stored different tensors.
        NotSavedError: a file cannot be written.
        InvalidFileError: ``save_file`` wrote a file that breaks rules of the format.
    """
    if sizes.keys() != tensors.keys():
        odd = min(sizes.keys() ^ tensors.keys(), key=str)
        text = f"sizes and tensors have different names, for example {quote(str(odd))}"
        raise WriteError(text, "WRT_SIZE_MISMATCH", "WRT-17")
    plan = plan_shards({name: sizes[name] for name in tensors}, max_shard_size)
    shards = {shard_name(stem, number, len(plan)): names for number, names in enumerate(plan, 1)}
    weight_map = {name: shard for shard, names in shards.items() for name in names}
    # Reject invalid input before the first tensor is written.
    index = _index_path(directory, stem)
    _index_text(weight_map, sum(sizes.values()), metadata)
    targets = [index.parent / shard for shard in shards]
    tag = secrets.token_hex(16)
    folder = index.parent / f".safetensors-{tag}.tmp"
    try:
        for target in (index, *targets):
            _check_target(target)
        folder.mkdir()
        total = 0
        for shard, names in shards.items():
            save_file({name: tensors[name] for name in names}, folder / shard)
            total += _sync_shard(folder / shard, names)
        with _FileReplacement(index.parent / f".safetensors-{tag}.old") as replacing:
            # Remove the old index first, because it must not describe a mixture of old and new shards.
            replacing.remove(index)
            for target in targets:
                replacing.move(folder / target.name, target)
            return write_index(directory, weight_map, total, metadata, stem)
    except OSError as err:
        if isinstance(err, NotSavedError):
            raise
        raise not_saved(index, err) from err
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sync_shard(path: Path, names: list[str]) -> int:
    header = read_header(path)
    if header.tensors.keys() != set(names):
        odd = min(header.tensors.keys() ^ set(names))
        text = f"save_file did not store exactly the given tensors, for example {quote(odd)}"
        raise WriteError(text, "IDX_TENSOR_MISSING", "IDX-09")
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return header.data_size


def _index_path(directory: Directory, stem: str) -> Path:
    _check_shard_name(shard_name(stem, 1, 1))
    return Path(directory) / f"{stem}{INDEX_SUFFIX}"


def _check_shard_name(name: str) -> None:
    for code, rule, reason in name_faults(name):
        raise WriteError(f"shard name {quote(name)} {reason}", code, rule)


def _index_text(
    weight_map: Mapping[str, str], total_size: int, metadata: Mapping[str, object] | None
) -> bytes:
    given = total_size
    for name in weight_map:
        check_name(name)
    for shard in dict.fromkeys(weight_map.values()):
        _check_shard_name(shard)
    try:
        total_size = as_int(total_size)  # NumPy integers cannot be written as JSON
    except TypeError:
        total_size = -1
    if not 0 <= total_size <= U64_MAX:
        text = f"total_size is {shown(given)}, not a number of bytes"
        raise WriteError(text, "IDX_SIZE_MISMATCH", "IDX-03")
    more: dict[str, object] = {TOTAL_SIZE: total_size, **(metadata or {})}
    if more[TOTAL_SIZE] != total_size:
        text = f"total_size is {total_size:,}, but {shown(more[TOTAL_SIZE], 40)} in the metadata"
        raise WriteError(text, "WRT_BAD_METADATA", "IDX-03")
    more[TOTAL_SIZE] = total_size  # 1.0 and True would compare equal too, but they are not accepted
    try:
        # Use ASCII escapes, because some loaders open the text in the default encoding of their system.
        text = json.dumps({METADATA: more, WEIGHT_MAP: dict(weight_map)}, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as err:
        text = f"the metadata cannot be written as JSON: {shorten(str(err))}"
        raise WriteError(text, "WRT_BAD_METADATA", "WRT-10") from err
    data = text.encode() + b"\n"
    if len(data) > INDEX_CAP:
        text = f"the index would have {len(data):,} bytes, but readers accept at most {INDEX_CAP:,} bytes"
        raise WriteError(text, "LIM_MEMORY", "LIM-06")
    # The text must pass the strict reader (WRT-01), which rejects lone surrogates and repeated keys.
    findings = FaultCollector()
    read_index_text(data, findings)
    for fault in findings.faults:
        raise WriteError(fault.message, fault.code, fault.rule)
    return data


def _check_target(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except ValueError as err:  # the path contains a null byte
        raise NotSavedError(f"{path}: not saved: {err}") from err
    # A directory would be moved and deleted with all its contents.
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise NotSavedError(f"{path}: not saved because it is not a regular file")


class _FileReplacement:
    """Moves files to their final names, without following links, and restores the old ones after errors."""

    def __init__(self, aside: Path) -> None:
        self._aside = aside
        self._done: list[tuple[Path, bool]] = []

    def __enter__(self) -> Self:
        self._aside.mkdir()
        return self

    def remove(self, path: Path) -> None:
        _check_target(path)
        existed = os.path.lexists(path)
        # Record the name before moving the file, because an interrupt may occur in between.
        self._done.append((path, existed))
        if existed:
            path.replace(self._aside / path.name)

    def move(self, source: Path, path: Path) -> None:
        self.remove(path)
        source.replace(path)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self._aside, ignore_errors=True)
            return
        # Restore the files in reverse order, so the index is restored last.
        for path, existed in reversed(self._done):
            old = self._aside / path.name
            if os.path.lexists(old):
                old.replace(path)
            elif not existed:
                path.unlink(missing_ok=True)
        self._aside.rmdir()
