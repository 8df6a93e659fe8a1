"""Groups files into batches for workers. A folder with an index stays in one batch."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..files.names import is_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_MODEL_FOLDER = 10_000
"""Maximum number of files in a folder with an index that is audited as one batch."""


class AuditInput(NamedTuple):
    """One file to audit. A local file has an empty ``path``. If there is no file, ``problem`` says why."""

    address: str
    path: str = ""
    size: int | None = None
    tag: str = ""
    problem: str = ""

    @property
    def is_index(self) -> bool:
        return is_index(self.path or self.address)


class Batch(NamedTuple):
    """Files that one worker audits in one call."""

    store: str | None
    items: tuple[AuditInput, ...]
    known: frozenset[int] = frozenset()  # files that already have a row and are read only for their models
    patient: bool = False  # wait for slow files until they are finished

    def split(self) -> list[Batch]:
        left = [item for number, item in enumerate(self.items) if number not in self.known]
        return (
            [Batch(self.store, (item,), patient=self.patient) for item in left] if len(self.items) > 1 else []
        )


class Folder(NamedTuple):
    """Files of one folder, sorted by name."""

    store: str | None
    items: Iterable[AuditInput]
    has_index: bool


def make_batches(
    folders: Iterable[Folder], size: int, is_done: Callable[[AuditInput], bool]
) -> Iterator[Batch]:
    """Yield batches of about ``size`` files.

    A folder with an index becomes one batch, because its model needs all shards.
    """
    store: str | None = None
    waiting: list[AuditInput] = []
    for folder in folders:
        if waiting and folder.store != store:
            yield Batch(store, tuple(waiting))
            waiting = []
        store = folder.store
        if folder.has_index:
            yield from _folder_batches(folder, size, is_done)
            continue
        items = (item for item in folder.items if not is_done(item))
        while piece := list(islice(items, size - len(waiting))):
            waiting += piece
            if len(waiting) == size:
                yield Batch(store, tuple(waiting))
                waiting = []
    if waiting:
        yield Batch(store, tuple(waiting))


def _folder_batches(folder: Folder, size: int, is_done: Callable[[AuditInput], bool]) -> Iterator[Batch]:
    items = tuple(folder.items)
    known = frozenset(number for number, item in enumerate(items) if is_done(item))
    if len(items) > MAX_MODEL_FOLDER:  # too many to keep in memory, so each index reads its shards again
        left = [item for number, item in enumerate(items) if number not in known]
        yield from (Batch(folder.store, tuple(left[at : at + size])) for at in range(0, len(left), size))
    elif len(known) < len(items):
        yield Batch(folder.store, items, known)
