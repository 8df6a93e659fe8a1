"""What is handed to workers: names of files in batches, and of a folder that holds an index all at once."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..model.names import is_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_MODEL_FOLDER = 10_000
"""Most files of a folder with an index that are one batch."""


class AuditInput(NamedTuple):
    """One file to look at.

    Attributes:
        address: what its row is called.
        path: its name inside its store, or its URL; empty for a file of the file system.
        size: bytes according to the listing, None where that does not tell.
        tag: version according to the listing, see ``Row.tag``.
        problem: why there is nothing to look at, empty for a file.
    """

    address: str
    path: str = ""
    size: int | None = None
    tag: str = ""
    problem: str = ""

    @property
    def is_index(self) -> bool:
        return is_index(self.path or self.address)


class Batch(NamedTuple):
    """Files that one worker looks at in one go.

    Attributes:
        store: address through which the files are found; None for the file system.
        items: the files.
        known: numbers of the files that have a row already. They are read only for a model that has
            none, or of which another shard has none.
        patient: whether slow files are waited for to the end.
    """

    store: str | None
    items: tuple[AuditInput, ...]
    known: frozenset[int] = frozenset()
    patient: bool = False

    def split(self) -> list[Batch]:
        left = [item for number, item in enumerate(self.items) if number not in self.known]
        return (
            [Batch(self.store, (item,), patient=self.patient) for item in left] if len(self.items) > 1 else []
        )


class Folder(NamedTuple):
    """Files of one folder, in the order of their names."""

    store: str | None
    items: Iterable[AuditInput]
    has_index: bool


def make_batches(
    folders: Iterable[Folder], size: int, is_done: Callable[[AuditInput], bool]
) -> Iterator[Batch]:
    """Yield batches of about ``size`` files that are not done; files of small folders share one.

    A folder that holds an index is a batch of its own: the model cannot be judged without its shards.
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
    if len(items) > MAX_MODEL_FOLDER:  # an index reads its shards once more, which is the lesser evil
        left = [item for number, item in enumerate(items) if number not in known]
        yield from (Batch(folder.store, tuple(left[at : at + size])) for at in range(0, len(left), size))
    elif len(known) < len(items):
        yield Batch(folder.store, items, known)
