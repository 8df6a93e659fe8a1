"""Errors that the reference raises: each carries a standard fault code and the rule it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ..text import printable, shorten

if TYPE_CHECKING:
    from .faults import Fault


class PortableError(Exception):
    """An exception that may be sent to another process, whatever its ``__init__`` asks for.

    Python would call the class with ``args`` again, which are the text alone; a pool of processes that meets
    an error which it cannot rebuild breaks, or waits for ever.
    """

    def __reduce__(self) -> tuple[object, ...]:
        kept = {name: getattr(self, name) for name in _SYSTEM if getattr(self, name, None) is not None}
        return _rebuilt, (type(self), self.args, {**vars(self), **kept})


_SYSTEM = ("errno", "strerror", "filename", "filename2")
"""Attributes that an OSError holds outside its ``__dict__``."""


def _rebuilt(
    kind: type[PortableError], args: tuple[object, ...], attributes: dict[str, object]
) -> PortableError:
    error = kind.__new__(kind)
    error.args = args
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class SafetensorsError(PortableError):
    """Base of all errors of this package. Its text is one line of printable characters.

    Attributes:
        code: standard fault code, e.g. ``API_NO_SUCH_TENSOR``.
        rule: id of the rule, e.g. ``API-02``.
    """

    code: str = "UNCLASSIFIED"
    rule: str | None = None

    def __init__(self, message: str, code: str | None = None, rule: str | None = None) -> None:
        super().__init__(printable(message))  # names of files stand in it as they are
        if code is not None:
            self.code = code
        if rule is not None:
            self.rule = rule


class AccessError(SafetensorsError, ValueError):
    """A tensor cannot be handed out as asked (codes ``API_*``)."""


def reason(err: BaseException) -> str:
    """Return the first line of what a foreign error says; those of devices go on for a page."""
    lines = str(getattr(err, "strerror", None) or err).splitlines()
    return f"{type(err).__name__}: {shorten(lines[0], 200)}" if lines else type(err).__name__


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Turn a MemoryError of the block into an AccessError (code LIM_MEMORY)."""
    try:
        yield
    except MemoryError as err:
        raise AccessError(f"{what}: there is not enough memory", "LIM_MEMORY", "LIM-06") from err


class NoSuchTensorError(AccessError, KeyError):
    """The file has no tensor of that name (API-02)."""

    code = "API_NO_SUCH_TENSOR"
    rule = "API-02"

    # KeyError would show its argument quoted.
    __str__ = Exception.__str__


class UnsupportedDtypeError(AccessError):
    """The array library has no type for this tensor (DTY-07, API-04); other tensors stay readable."""

    code = "API_DTYPE_UNSUPPORTED"
    rule = "DTY-07"


class WriteError(SafetensorsError, ValueError):
    """The tensors or metadata cannot be written (codes ``WRT_*``); no file was touched (WRT-19)."""


class Explained(Protocol):
    """Findings in an input, as far as an error needs them."""

    name: str

    @property
    def faults(self) -> Sequence[Fault]: ...


ExplainedT = TypeVar("ExplainedT", bound=Explained)


class InvalidError(SafetensorsError, ValueError, Generic[ExplainedT]):
    """An input breaks rules. ``explanation`` holds all of them; code and rule are those of the first."""

    def __init__(self, explanation: ExplainedT) -> None:
        first = explanation.faults[0]
        more = len(explanation.faults) - 1
        tail = f" (and {more:,} more faults)" if more else ""
        text = (
            f"{explanation.name}: {first.code} [{first.rule}] at byte {first.start:,}: {first.message}{tail}"
        )
        super().__init__(text, first.code, first.rule)
        self.explanation = explanation
