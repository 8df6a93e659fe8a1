"""Loads a model onto the ranks of a process group. Each rank gets whole tensors or its own slices.

Importing this module imports torch. The process group needs the gloo backend for the CPU and nccl for CUDA.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, Self

import torch

from ...arrays.torch import TorchTensor, make_views
from ...files.names import index_stem
from ...header.model import TensorInfo, TensorRow
from ...model.read import open_index
from ...rules.book import ProfileName
from ...rules.errors import AccessError
from ...source import Uncopied
from ...text import plural, quote, shown
from ..engine import identity_of, open_engine, release_frames
from ..load import PathLike, check_request, check_rows, claim, creating_tensors, no_such_tensor, open_valid
from .consensus import RankError, RankSync, name_ranks
from .plan import LoadItem, PlannedFile, Uneven, make_item, make_load_plan, row
from .rounds import LoadRounds, OpenFile

__all__ = ["RankError", "ShardedModel"]

TIMEOUT = 300.0


class ShardedModel(Uncopied):
    """One or more files that are open on all ranks of a process group.

    All ranks must create the object and call ``get_tensor``, ``load`` and ``get_sharded`` in the same order
    with the same arguments. As the only exception, calls to ``get_sharded`` that do not communicate may
    differ. Tensors stay valid after the object is closed. All tensors from one call share a buffer, and any
    of these tensors keeps the buffer alive.

    If a rank fails, that rank raises its own error, and every other rank raises a RankError that identifies
    the failed rank. The process group can still be used, unless a collective failed or a rank has stopped
    responding.
    """

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        *,
        device: str | torch.device,
        group: Any = None,
        uneven: Uneven = "refuse",
        timeout: float = TIMEOUT,
        threads: int | None = None,
        chunk: int | None = None,
        profile: ProfileName = "hardened",
    ) -> None:
        """Open and validate the files on all ranks.

        Args:
            paths: one file, several files, or an index ``*.safetensors.index.json``.
            device: device of this rank: ``"cpu"``, or an accelerator such as ``"cuda:1"``. Two ranks cannot
                use the same accelerator.
            group: a process group of torch.distributed, by default the group of all processes.
            uneven: what to do if a size is not a multiple of the number of ranks. ``refuse`` raises an error;
                ``split`` divides the dimension in the same way as ``torch.chunk``, so the last ranks may get
                smaller or empty slices.
            timeout: seconds to wait for the other ranks in each step. In each step, a rank reads about 256
                MiB, or one tensor if that is larger.
            threads: number of worker threads, as in ``load_file``.
            chunk: maximum number of bytes that are read and copied together, as in ``load_file``.
            profile: profile to use where readers may differ.

        Raises:
            InvalidFileError: a file breaks one or more rules.
            InvalidIndexError: the index or one of its shards breaks rules.
            UnreadableError: a file cannot be read.
            AccessError: an argument cannot be used here, or there is no process group.
            RankError: another rank failed, stopped responding, or has a different file.
        """
        self._stack, self._closed = ExitStack(), False
        self._call = RankSync(group, timeout)
        self._options, self._device = (threads, chunk), device
        self._uneven: Uneven = uneven
        self._identity: str | None = None
        self._files: list[OpenFile] = []
        self._owners: dict[str, int] = {}
        try:
            with self._call.gate as gate:
                error = gate.attempt(self._open, paths, profile)
                fact = json.dumps([[file.digest for file in self._files], self._identity])
                notes = self._call.agree(error, fact)
                digests, devices = zip(*(json.loads(note.fact) for note in notes), strict=True)
                _check_same(self._files, digests)
                _check_distinct(devices)
        except BaseException as err:
            self._stack.close()
            self._dropped(err)
            self._call.leave(err)  # the other ranks do not know about a delayed Ctrl-C yet
            raise

    def _open(self, paths: PathLike | Sequence[PathLike], profile: ProfileName) -> None:
        check_request(threads=self._options[0], chunk=self._options[1])
        if self._uneven not in ("refuse", "split"):
            raise AccessError(f"uneven must be 'refuse' or 'split', not {shown(self._uneven)}")
        device = open_engine(self._device).device
        backends = self._call.backends
        if device.type not in backends:
            only = quote(",".join(f"{kind}:{name}" for kind, name in backends.items()))
            raise AccessError(f"the process group has no backend for {device.type}; it has only {only}")
        if device.type != "cpu" and backends[device.type] == "gloo":
            text = f"gloo cannot scatter tensors on {device.type}; use a group with another backend"
            raise AccessError(text)
        self._identity = identity_of(device)
        self._files = _open_files(paths, profile, self._stack)
        if not self._files:
            raise AccessError("there are no files to load")
        self._owners = {name: n for n, file in enumerate(self._files) for name in file.known.tensors}

    @property
    def rank(self) -> int:
        return int(self._call.rank)

    @property
    def world(self) -> int:
        return int(self._call.world)

    def keys(self) -> list[str]:
        """Return the names of all tensors, file by file in header order."""
        return [name for file in self._files for name in file.known.tensors]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, name: object) -> bool:
        return name in self._owners

    def info(self, name: str) -> TensorInfo:
        """Return the header entry for the whole tensor. Raises NoSuchTensorError."""
        return self._files[self._number(name)].known.tensors[name]

    def get_tensor(self, name: str) -> TorchTensor:
        """Return the whole tensor on every rank.

        One rank reads and broadcasts it. Raises the same errors as ``load``.
        """
        if not isinstance(name, str):
            self._number(name)
        return self.load({name: None})[name]

    def get_sharded(self, name: str, dim: int) -> TorchTensor:
        """Return this rank's slice of a tensor along ``dim``.

        A negative ``dim`` counts from the last dimension.

        The rank reads the slice without communication if the slice is a single range of bytes, as for
        dimension 0, or if it consists of runs of at least 16 KiB. An error then affects only this rank.
        Otherwise, one rank reads the tensor and scatters the slices, as in ``load``. Raises the same errors
        as ``load``.
        """
        handled = sys.exception()
        try:
            self._check_open()
            self._number(name)
            if dim is None:
                text = "get_sharded needs the dimension to cut along; use get_tensor for the whole tensor"
                raise AccessError(text)
            (item,) = self._items({name: dim})
            if item.way == "own":
                return self._finished([item], [name], talk=False)[name]
        except BaseException as err:
            release_frames(err, handled)
            raise
        return self.load({name: dim})[name]

    def load(self, wanted: Mapping[str, int | None]) -> dict[str, TorchTensor]:
        """Load many tensors together. Either all ranks get all tensors, or every rank raises an error.

        The files are divided among the ranks by size. If there are fewer files than ranks, the tensors are
        divided instead. Reads and collectives overlap.

        Args:
            wanted: mapping of each tensor name to the dimension to cut along, or to None for the whole
                tensor.

        Returns:
            A mapping of names to tensors, in the order of ``wanted``.

        Raises:
            NoSuchTensorError: there is no tensor with that name.
            UnsupportedDtypeError: this version of torch has no type for a tensor.
            AccessError: a tensor cannot be cut this way, a file changed, or the model is closed.
            UnreadableError: a file cannot be read, or became shorter during the load.
            DeviceError: the device, its memory or a collective failed.
            RankError: another rank failed, stopped responding, or made a different call.
        """
        handled = sys.exception()
        try:
            self._check_open()
            with self._call.gate as gate:
                items: list[LoadItem] = []
                error = gate.attempt(lambda: items.extend(self._items(wanted)))
                notes = self._call.agree(error, *(("", "") if error else _request(wanted, self._uneven)))
                odd = [rank for rank, note in enumerate(notes) if note.fact != notes[0].fact]
                if odd:
                    requests = f"requested {notes[odd[0]].shown}, but rank 0 requested {notes[0].shown}"
                    text = f"the ranks made different calls: {name_ranks(odd)} {requests}"
                    raise RankError(text, tuple(odd))
                return self._finished(items, wanted, talk=True)
        except BaseException as err:
            # The caller may keep the error, which must not keep the memory alive.
            release_frames(err, handled)
            self._dropped(err)
            raise

    def _dropped(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt) and self._call.gate.second_interrupt:
            self._call.report_interrupt()

    def _check_open(self) -> None:
        if self._closed:
            raise AccessError(f"{self._files[0].source.name}: the files are closed", "API_CLOSED", "API-10")

    def _items(self, wanted: Mapping[str, int | None]) -> list[LoadItem]:
        if not isinstance(wanted, Mapping):
            raise AccessError("load needs a mapping of names to dimensions (or None)")
        items: list[LoadItem] = []
        by_cut: dict[tuple[str, tuple[int, ...], str], LoadItem] = {}
        rows: dict[int, list[TensorRow]] = {}
        for name, dim in wanted.items():
            number = self._number(name)
            known = self._files[number].known
            info = known.tensors[name]
            # A cut has an entry for each rank, and many tensors have the same shape.
            key = (info.dtype, info.shape, repr(dim))
            if key in by_cut:
                items.append(by_cut[key]._replace(info=info, file=number))
            else:
                items.append(make_item(known, number, name, dim, self.world, self._uneven))
                by_cut[key] = items[-1]
            rows.setdefault(number, []).append(row(items[-1], self.rank))
        for number, group in rows.items():
            check_rows(self._files[number].source.name, group)
        return items

    def _number(self, name: str) -> int:
        number = self._owners.get(name) if isinstance(name, str) else None
        if number is None:
            raise no_such_tensor([file.source.name for file in self._files], name)
        return number

    def _finished(self, items: list[LoadItem], order: Iterable[str], talk: bool) -> dict[str, TorchTensor]:
        plan = make_load_plan(items, self.world)
        rounds = LoadRounds(self._files, plan, open_engine(self._device), self._call, *self._options)
        buffer = rounds.together() if talk else rounds.alone()
        with creating_tensors(self._files[0].source.name, buffer):
            return make_views([row(plan.places[name], self.rank) for name in order], buffer)

    def close(self) -> None:
        """Close the files. Ranks that are still waiting for this rank raise RankError."""
        self._leave(None)

    def _leave(self, error: BaseException | None) -> None:
        if not self._closed:
            self._closed = True
            self._stack.close()
            self._call.leave(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._leave(error)


def _request(wanted: Mapping[str, int | None], uneven: Uneven) -> tuple[str, str]:
    """Return a digest of the arguments of ``load``, and their first two names for people."""
    request = sorted((name, str(dim)) for name, dim in wanted.items())
    first = [f"{quote(name)}: {shown(dim, 20)}" for name, dim in islice(wanted.items(), 2)]
    text = f"{{{', '.join(first)}{', …' if len(wanted) > 2 else ''}}}"
    return hashlib.sha256(repr((request, uneven)).encode()).hexdigest(), text


def _open_files(
    paths: PathLike | Sequence[PathLike], profile: ProfileName, stack: ExitStack
) -> list[OpenFile]:
    files: list[OpenFile] = []
    owners: dict[str, str] = {}
    for path in _shards_of(paths, profile):
        source, header = open_valid(path, profile, stack)
        claim(owners, source.name, header.tensors)
        seen = hashlib.sha256(source.read(0, header.data_start))
        seen.update(source.size.to_bytes(8, "little"))
        known = PlannedFile(source.name, header.data_start, header.tensors)
        files.append(OpenFile(source, known, seen.hexdigest()[:32]))
    return files


def _shards_of(paths: PathLike | Sequence[PathLike], profile: ProfileName) -> list[PathLike]:
    try:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    except TypeError as err:
        raise AccessError(f"paths must be a path or a list of paths, not {type(paths).__name__}") from err
    index = os.fspath(given[0]) if len(given) == 1 and isinstance(given[0], (str, os.PathLike)) else ""
    if index_stem(index) is None:
        return given
    folder = os.path.dirname(index)  # noqa: PTH120 - a link to an index does not move its shards
    shards = open_index(index, profile).shards
    return [os.path.join(folder, shard) for shard in shards]  # noqa: PTH118 - keep the spelling of the index


def _check_same(files: Sequence[OpenFile], digests: Sequence[Sequence[str]]) -> None:
    """Compare the number, headers and sizes of the files with those of rank 0. Raises RankError."""
    first = digests[0]
    odd = [rank for rank, theirs in enumerate(digests) if len(theirs) != len(first)]
    if odd:
        counts = f"rank {odd[0]} has {plural(len(digests[odd[0]]), 'file')}, but rank 0 has {len(first):,}"
        raise RankError(f"the ranks have different files: {counts}", tuple(odd))
    for number, digest in enumerate(first):
        odd = [rank for rank, theirs in enumerate(digests) if theirs[number] != digest]
        if odd:
            difference = f"the header or size on {name_ranks(odd)} differs from rank 0"
            text = f"{difference}; give all ranks the same file"
            raise RankError(f"{files[number].source.name}: {text}", tuple(odd))


def _check_distinct(devices: Sequence[str | None]) -> None:
    """Check that no two ranks use the same accelerator, which would make the first nccl collective fail."""
    for rank, device in enumerate(devices):
        first = devices.index(device)
        if device is not None and first != rank:
            text = f"rank {first} and rank {rank} use the same device; pass device=f'cuda:{{local_rank}}'"
            raise RankError(text, (first, rank))
