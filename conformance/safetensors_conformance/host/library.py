"""Marks that distinguish the behaviour of the library under test from that of its adapter.

An exception from an adapter may mean that the library rejects a file, or it may be a mistake in the adapter.
For a library written in C, the exception does not show which. In a ``marked`` adapter, exceptions inside
``call``, ``each`` or ``opened`` come from the library. All other exceptions are mistakes in the adapter. The
host reports them as ``harness-error``, and they never count against the library.

    from stc_host.library import call, marked

    @marked
    class Adapter:
        def read(self, path):
            header, data = call(mylib.load, path)
            ...

Answers contain the library's values, uncorrected but limited in size. Any other failure while the host
processes an answer, such as an object that raises when it is inspected, is a mistake in the adapter and never
a rejection by the library.

This file also contains the tensors that adapters write, and conversions between their values and JSON.

The host makes this file importable as ``stc_host.library``. Both use only the standard library.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import numbers
import operator
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

MESSAGE_LIMIT = 2000
_OF_LIBRARY = "_stc_of_library"
_T = TypeVar("_T")

UNTOLD: Any = ...
"""A dtype or shape that the library does not report. In a marked adapter, None counts as reported."""


class AdapterError(Exception):
    """A mistake in the adapter, for which the library is not responsible."""


class Refused(Exception):  # noqa: N818 - not an error
    """The library rejected a file without an exception, for example by returning None or a list."""

    stc_refused = True


def marked(target: _T) -> _T:
    """Declare that only exceptions from the marks in a function, or in a class's methods, are rejections."""
    for member in vars(target).values() if isinstance(target, type) else (target,):
        function: Any = getattr(member, "__func__", member)
        if hasattr(function, "__code__"):
            function.stc_marked = True
    return target


def is_marked(method: Any) -> bool:
    return bool(getattr(method, "stc_marked", False))


def adapter_mistake(err: BaseException, method: Any) -> str | None:
    """Return the adapter's mistake behind an exception from ``method``, or None if the library caused it.

    Exceptions from unmarked methods count as the library's, except for undefined names in the method's file.
    """
    if _OF_LIBRARY in vars(err) or isinstance(err, (NotImplementedError, KeyboardInterrupt)):
        return None
    if hasattr(type(err), "stc_refused") or type(err).__name__ == "PanicException":
        return None
    place = err.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file, line = ("", 0) if place is None else (place.tb_frame.f_code.co_filename, place.tb_lineno)
    if not is_marked(method):
        own = getattr(getattr(method, "__code__", None), "co_filename", None)
        if not isinstance(err, NameError) or file != own:
            return None
    return describe_error(err) + (f" ({os.path.basename(file)}:{line})" if file else "")  # noqa: PTH119


def ask(method: Callable[..., Any], *args: Any) -> Any:
    """Call a method of the adapter. Raises the library's exceptions, and AdapterError for all others."""
    try:
        return method(*args)
    except BaseException as err:
        _raise_adapter_error(err, method)
        raise


def iterate_result(iterator: Iterator[_T], method: Callable[..., Any]) -> Iterator[_T]:
    while True:
        try:
            box = [next(iterator)]
        except StopIteration:
            return
        except BaseException as err:
            _raise_adapter_error(err, method)
            raise
        yield box.pop()  # a reference here would keep the memory of a tensor alive


def _raise_adapter_error(err: BaseException, method: Callable[..., Any]) -> None:
    mistake = adapter_mistake(err, method)
    if mistake is not None:
        raise AdapterError(mistake) from err


def describe_error(err: BaseException) -> str:
    try:
        text = str(err)
    except Exception:
        text = "(no message)"
    return f"{type(err).__name__}: {text}"[:MESSAGE_LIMIT]


def short_repr(value: Any) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return f"{type(value).__name__} object"


def call(function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
    """Call a function of the library. Arguments that do not fit its signature are the adapter's mistake."""
    try:
        return function(*args, **kwargs)
    except BaseException as err:
        if not _arguments_do_not_fit(err, function, args, kwargs):
            vars(err)[_OF_LIBRARY] = True
        raise


def item(owner: Any, key: Any) -> Any:
    """Return ``owner[key]`` of a library object. An object without items is the adapter's mistake."""
    return call(type(owner).__getitem__, owner, key)


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute that the library computes. A missing attribute is the adapter's mistake."""
    if not hasattr(type(owner), name) and name not in getattr(owner, "__dict__", ()):
        raise AttributeError(f"{type(owner).__name__} has no {name}")
    return call(getattr, owner, name)


def each(iterable: Iterable[_T]) -> Iterator[_T]:
    """Iterate over a lazy result of the library. A result that is not iterable is the adapter's mistake."""
    iterator = iter(iterable)
    while True:
        try:
            item = call(next, iterator)
        except StopIteration:
            return
        yield item


@contextlib.contextmanager
def opened(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Call a function of the library that returns a context manager, and enter it for the block."""
    manager = call(function, *args, **kwargs)
    kind = type(manager)
    enter, leave = kind.__enter__, kind.__exit__
    value = call(enter, manager)
    try:
        yield value
    except BaseException as err:
        try:
            suppressed = leave(manager, type(err), err, err.__traceback__)
        except BaseException as other:
            if other is not err:
                vars(other)[_OF_LIBRARY] = True
            raise
        if not suppressed:
            raise
    else:
        call(leave, manager, None, None, None)


@marked
class Held:
    """An open file as returned by ``hold``. ``tensor`` returns ``(dtype, shape, bytes-like)``."""

    def __init__(self, tensor: Callable[[str], Any], close: Callable[[], Any]) -> None:
        self._tensor = tensor
        self._close = close

    def tensor(self, name: str) -> Any:
        return self._tensor(name)

    def close(self) -> None:
        self._close()


def _arguments_do_not_fit(
    err: BaseException, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    place = err.__traceback__
    if not isinstance(err, TypeError) or place is None or place.tb_next is not None:
        return False
    import inspect  # slow to import, and rarely needed

    try:
        signature = inspect.signature(function)
    except Exception:  # C extensions often have none, and annotations are evaluated here since Python 3.14
        return False
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return True
    return False


class NoAdapterError(Exception):
    """The selector does not name an adapter. The exception's text is the complete message."""


def missing_name_error(spec: str, owner: Any, name: str) -> NoAdapterError:
    import difflib  # slow to import, and rarely needed

    where = spec.rpartition(":")[0]
    there = [n for n in vars(owner) if not n.startswith("_")] if hasattr(owner, "__dict__") else []
    classes = [n for n in there if isinstance(vars(owner)[n], type)]
    guess = difflib.get_close_matches(name, there, n=1, cutoff=0.5) or classes[:1]
    return NoAdapterError(f"{where} has no {name!r}" + (f"; did you mean {guess[0]!r}?" if guess else ""))


def no_steps_error(
    spec: str, adapter: Any, methods: Collection[str], steps: Callable[[Any], list[str]]
) -> NoAdapterError:
    import difflib

    text = f"adapter {spec} has none of the methods {', '.join(methods)}"
    inside = [n for n, v in getattr(adapter, "__dict__", {}).items() if isinstance(v, type) and steps(v)]
    if inside:
        return NoAdapterError(f"{text}; did you mean py:{spec.rstrip(':')}:{inside[0]}?")
    own = [n for n in dir(adapter) if not n.startswith("_")]
    guess = {n: m for n in own for m in difflib.get_close_matches(n, methods, n=1)}
    guesses = [f"{theirs} should be {ours}" for theirs, ours in guess.items()]
    return NoAdapterError(f"{text}; perhaps {' and '.join(guesses)}" if guesses else text)


def load_error(err: BaseException, spec: str) -> str:
    if isinstance(err, NoAdapterError):
        return str(err)[:MESSAGE_LIMIT]
    text = describe_error(err)
    where = spec.rpartition(":")[0] if ":" in spec else spec
    path = os.path.abspath(where)  # noqa: PTH100 - start stays free of pathlib
    place, line = err.__traceback__, 0
    while place is not None:
        if os.path.abspath(place.tb_frame.f_code.co_filename) == path:  # noqa: PTH100 - as above
            line = place.tb_lineno
        place = place.tb_next
    if line and not isinstance(err, SyntaxError):  # a SyntaxError already contains the line
        text += f" ({where}, line {line})"
    if isinstance(err, ModuleNotFoundError):
        text += f"; the adapter runs in {sys.executable}"
        if not where.endswith(".py"):
            text += ", and Python also searches the current folder for its module"
    return text[:MESSAGE_LIMIT]


MAX_VALUES = 1 << 22
"""Maximum number of dimensions in a shape, or of values in metadata, to read. No corpus file comes close."""
MAX_LEVELS = 20
"""How many levels of nesting to report. Deeper values are replaced by a word."""
MAX_BITS = 14_000
"""Maximum size in bits of an integer that every JSON parser can read. Python reads up to 4,300 digits."""


def dimensions(shape: Any) -> Any:
    """Return a shape for JSON. A value that is not a sequence is not changed."""
    if isinstance(shape, (str, bytes, bytearray, Mapping)) or not hasattr(type(shape), "__iter__"):
        return plain(shape)
    budget = [MAX_VALUES]
    return [_plain(size, 0, budget) for size in shape]


def plain(value: Any) -> Any:
    """Return a dtype, dimension or metadata value for JSON. Raises AdapterError for other objects."""
    return _plain(value, 0, [MAX_VALUES])


def _plain(value: Any, level: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise AdapterError(f"there are more than {MAX_VALUES:,} values")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        value = float.__float__(value)
        return value if math.isfinite(value) else json.dumps(value)  # such as "-Infinity"
    if isinstance(value, (list, tuple)):
        return [_plain(v, level + 1, budget) for v in value] if level < MAX_LEVELS else "(a list)"
    if isinstance(value, Mapping):
        if level >= MAX_LEVELS:
            return "(a map)"
        out: dict[str, Any] = {}
        for key, inner in value.items():
            text = str.__str__(key) if isinstance(key, str) else str(key)
            if text in out:
                raise AdapterError(f"distinct keys in a map have the same written form: {short_repr(text)}")
            out[text] = _plain(inner, level + 1, budget)
        return out
    if isinstance(value, (bytes, bytearray)):
        return repr(value)
    return _number(value)


def _number(value: Any) -> Any:
    try:
        whole = operator.index(value)
    except TypeError as err:
        if isinstance(value, numbers.Number):
            return str(value)
        raise AdapterError(
            f"a value of type {type(value).__name__} cannot be reported: {short_repr(value)}"
        ) from err
    if whole.bit_length() > MAX_BITS:
        return f"{hex(whole)[:40]}... ({whole.bit_length():,} bits)"
    return whole


def name_of(name: Any) -> Any:
    """Return the name of a tensor for JSON. Bytes, which careless readers return, are written in hex."""
    if isinstance(name, (bytes, bytearray)):
        return {"hex": bytes(name).hex()}
    return name if isinstance(name, str) else repr(name)


def tensor(item: Any, step: str, *, marked: bool = False) -> dict[str, Any]:
    """Convert one tensor tuple to JSON, with the digest of its bytes if there are any.

    None for a dtype, a shape or bytes means that the library does not report it. In a ``marked`` adapter,
    however, None is a value that the library reports, and ``UNTOLD`` means that it does not report one.
    """
    if not isinstance(item, (tuple, list)) or not 3 <= len(item) <= 4:
        raise AdapterError(f"{step}() yielded {short_repr(item)} instead of (name, dtype, shape[, data])")
    name, dtype, shape = item[0], item[1], item[2]
    out: dict[str, Any] = {
        "name": name_of(name),
        "dtype": field(dtype, plain, marked=marked),
        "shape": field(shape, dimensions, marked=marked),
    }
    if len(item) == 3 or (item[3] is None and not marked):
        return out
    data = item[3]
    if isinstance(data, NotImplementedError):
        out["unsupported"] = describe_error(data)
        return out
    try:
        view = memoryview(data)
    except TypeError as err:
        raise AdapterError(
            f"data of {short_repr(name)} is of type {type(data).__name__}, which is not bytes-like"
        ) from err
    # Copy non-contiguous data. Use the length of the view, because an object may report a wrong length.
    data = view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()
    out["nbytes"] = view.nbytes
    out["sha256"] = hashlib.sha256(data).hexdigest()
    return out


def field(value: Any, tell: Callable[[Any], Any], *, marked: bool) -> Any:
    """Return a field of a row for JSON, or None if the library does not report it."""
    if value is UNTOLD:
        return None
    if value is None:
        return "None" if marked else None
    return tell(value)


class GivenTensor:
    """A tensor to write, as a view into memory.

    - ``name`` and ``shape``
    - ``dtype``: a code of the format, or another element type, which the writer must reject
    - ``storage``: a bytearray, which is the same object for tensors that share memory
    - ``offset``: offset of the first element in bytes
    - ``strides``: strides in bytes, one per dimension, or None for contiguous row-major order
    - ``byteorder``: byte order of the elements in memory (``little`` or ``big``)
    - ``nbytes``: the number of bytes if it differs from what dtype and shape imply (for writers that accept
      buffers), otherwise None
    """

    def __init__(self, given: Mapping[str, Any], memory: Mapping[str, bytearray]) -> None:
        self.name = text_of(given["name"])
        self.dtype = given["dtype"]
        self.shape = tuple(given["shape"])
        self.storage = memory[given["storage"]]
        self.offset = given["offset"]
        self.strides = None if given["strides"] is None else tuple(given["strides"])
        self.byteorder = given["byteorder"]
        self.nbytes = given.get("nbytes")


def bytes_of(parts: Any) -> bytearray:
    out = bytearray()
    for part in parts:
        if "zeros" in part:
            out += bytes(part["zeros"])
        elif "repeat" in part:
            out += bytes_of([part["repeat"]]) * part["count"]
        elif "hex" in part:
            out += bytes.fromhex(part["hex"])
        elif "text" in part:
            out += part["text"].encode()
        else:
            raise AdapterError(f"unknown part in a recipe: {sorted(part)}")
    return out


def text_of(value: Any) -> Any:
    """Return a string. If JSON cannot express it, it arrives in parts, as UTF-8 with lone surrogates."""
    if isinstance(value, dict) and value.keys() == {"parts"}:
        return bytes_of(value["parts"]).decode("utf-8", "surrogatepass")
    return value


def metadata_of(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    items = value["items"] if isinstance(value.get("items"), list) else value.items()
    return {text_of(key): text_of(text) for key, text in items}


def tensors_to_write(request: Mapping[str, Any]) -> tuple[list[GivenTensor], Any]:
    memory = {name: bytes_of(parts) for name, parts in request["storages"].items()}
    return [GivenTensor(given, memory) for given in request["tensors"]], metadata_of(request["metadata"])
