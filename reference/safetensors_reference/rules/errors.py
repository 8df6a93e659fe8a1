"""Exceptions of the reference reader and writer, each with a fault code and its rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from ..text import plural, printable, shorten
from .faults import Fault, Likeness


class PortableError(Exception):
    """An exception that can be pickled, as in a process pool, whatever arguments its ``__init__`` needs."""

    def __reduce__(self) -> tuple[object, ...]:
        system = {name: getattr(self, name) for name in _SYSTEM if getattr(self, name, None) is not None}
        return _rebuild, (type(self), self.args, {**vars(self), **system})


_SYSTEM = ("errno", "strerror", "filename", "filename2")
"""Attributes that an OSError stores outside its ``__dict__``."""


def _rebuild(
    kind: type[PortableError], args: tuple[object, ...], attributes: dict[str, object]
) -> PortableError:
    error = kind.__new__(kind)
    error.args = args
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class SafetensorsError(PortableError):
    """Base class of all errors of this package. The message is a single line of printable characters.

    Attributes:
        code: code of the error, e.g. ``API_NO_SUCH_TENSOR``.
        rule: id of the rule, e.g. ``API-02``.
    """

    code: str = "UNCLASSIFIED"
    rule: str | None = None

    def __init__(self, message: str, code: str | None = None, rule: str | None = None) -> None:
        super().__init__(printable(message))  # the message contains raw file names
        if code is not None:
            self.code = code
        if rule is not None:
            self.rule = rule


class AccessError(SafetensorsError, ValueError):
    """Raised if a tensor cannot be returned as requested (codes ``API_*``)."""


def reason(err: BaseException) -> str:
    """Return the first line of an error from another library, because device errors may fill a page."""
    lines = str(getattr(err, "strerror", None) or err).splitlines()
    return f"{type(err).__name__}: {shorten(lines[0], 200)}" if lines else type(err).__name__


@contextmanager
def memory_for(purpose: str) -> Iterator[None]:
    """Convert a MemoryError raised in the ``with`` block to an AccessError (code LIM_MEMORY)."""
    try:
        yield
    except MemoryError as err:
        raise AccessError(f"{purpose}: there is not enough memory", "LIM_MEMORY", "LIM-06") from err


class NoSuchTensorError(AccessError, KeyError):
    """Raised if the file has no tensor with the requested name (API-02)."""

    code = "API_NO_SUCH_TENSOR"
    rule = "API-02"

    # KeyError would show its argument in quotes.
    __str__ = Exception.__str__


class UnsupportedDtypeError(AccessError):
    """Raised if the array library has no type for a tensor (DTY-07, API-04).

    Other tensors of the file can still be read.
    """

    code = "API_DTYPE_UNSUPPORTED"
    rule = "DTY-07"


class WriteError(SafetensorsError, ValueError):
    """Raised if tensors or metadata cannot be written (codes ``WRT_*``).

    No file has been changed (WRT-19).
    """


class Explained(Protocol):
    """Attributes of a result that ``InvalidError`` uses."""

    name: str

    @property
    def faults(self) -> Sequence[Fault]: ...

    @property
    def looks_like(self) -> Likeness | None: ...


ExplainedT = TypeVar("ExplainedT", bound=Explained)


class InvalidError(SafetensorsError, ValueError, Generic[ExplainedT]):
    """Raised if an input breaks rules.

    ``explanation`` contains all faults. ``code`` and ``rule`` are those of the first fault.
    """

    def __init__(self, explanation: ExplainedT) -> None:
        first = explanation.faults[0]
        more = len(explanation.faults) - 1
        tail = f" (and {plural(more, 'more fault')})" if more else ""
        if explanation.looks_like is not None:
            tail += f"; {explanation.looks_like.text}"
        where = f"{explanation.name}: {first.code} [{first.rule}] at byte {first.start:,}"
        super().__init__(f"{where}: {first.message}{tail}", first.code, first.rule)
        self.explanation = explanation
