"""The worker's side for Python readers: loads an adapter, answers requests on standard input.

Standard library only, this file and those beside it (``library.py`` the marks of adapters and the values that
an answer can carry, ``device_checks.py`` the step ``device``), so that it runs in any interpreter that has
the library under test, without this project being installed there. Usage: ``python python_host.py ADAPTER
MEMORY_BYTES [SHARING [template]]`` where ADAPTER is ``package.module:object`` or ``/path/to/file.py:object``,
and SHARING the file ``sharing.py`` of the corpus, which carries out the step ``concurrent``. A ``template``
answers nothing: it loads the adapter and has its forks answer, as ``supervisor.py`` is asked for programs.

An adapter is any object with some of these methods, one per step that the library has:

``open(path)``
    what the library knows without reading data: an iterable of ``(name, dtype, shape)``
``read(path)``
    everything: an iterable of ``(name, dtype, shape, bytes-like)``
``slice(path, tensor, index)``
    a part of one tensor, ``(dtype, shape, bytes-like)``; ``index`` is a tuple of integers, slices, ``...``,
    and of things that are no index
``index(path)``
    everything through an index file, as ``read``
``write(path, tensors, metadata)`` and ``resave(path)``
    save ``GivenTensor`` objects; load a file and save what it holds to the same path
``save_sharded(folder, tensors, metadata, max_shard_size)``
    save ``GivenTensor`` objects in shards with an index, none with more bytes of tensors than given
``hold(path)``
    open; return a handle with ``tensor(name)``, which gives ``(dtype, shape, bytes-like)``, and ``close()``
``remote(url)``
    everything, or the header alone, of a file behind a server, as ``read`` or ``open``
``share(path)``
    such a handle, from which several threads, and processes forked later, take tensors at the same time
``device(path, device)``
    load onto a device: an iterable of ``(name, dtype, shape, tensor)``; ``device_checks.py`` tells more

A validator has ``check(path)`` instead, which returns whether the file is valid.

Any of the reading ones may return a dict ``{"tensors": iterable, "metadata": map-or-None}`` instead of the
iterable, when the library reports metadata. Optional attributes: ``name``, ``version``, ``language`` (of an
adapter of this project its ``implementation.toml`` says them), ``lacks`` (features that the library does not
have, such as ``dtype-f4``; ``threads`` or ``fork`` where its documentation says so) and ``rejects``
(exception types that the library documents for refusing a file); optional method ``profile(name)``.
Raising NotImplementedError means: well formed, but not supported.

What a method raises, or a generator that it returned, is the library's refusal; in a method that is
``marked`` only what comes out of the marks is. What fails while the host looks at the answer is always a
mistake of the adapter, so a library that computes its answer while that is looked at belongs into a generator
of the adapter. Odd values that the library gave are content: None, truth values, numbers, texts, lists and
maps of these.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter, process_time  # by name: a reader may change what stands in the module
from typing import Any, TypeVar

_T = TypeVar("_T")


def beside(name: str) -> Any:
    """Import a file beside this one, under a package of its own: no module of an adapter may stand for it."""
    package = types.ModuleType("stc_host")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120 - free of pathlib
    sys.modules.setdefault("stc_host", package)
    return importlib.import_module(f"stc_host.{name}")


library = beside("library")
AdapterError, ask, describe, shown = library.AdapterError, library.ask, library.said, library.shown

PROTOCOL = 1
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - free of pathlib
_OURS = os.path.join(os.path.dirname(_HERE), "implementations")  # noqa: PTH118, PTH120 - as above
"""Folders of the adapters that come with this project; what several need is in ``support`` beside them."""
_MESSAGE_LIMIT = library.MESSAGE_LIMIT
_METHODS = {
    "open": "open",
    "read": "read",
    "slice": "slice",
    "write": "write",
    "index": "index",
    "sharded": "save_sharded",
    "lifecycle": "hold",
    "remote": "remote",
    "device": "device",
    "concurrent": "share",
}
"""Step -> the adapter's method."""


def main() -> int:
    """Serve requests until ``stop`` or the end of standard input."""
    # Answers go out on a private copy; whatever the library prints lands on standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    # The first entry is this script's folder; adapters are looked up from the caller's folder instead.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - start stays free of pathlib
    adapter: Any = None
    problem: dict[str, str] | None = None
    SHARING[:] = sys.argv[3:4]
    try:
        adapter = load(sys.argv[1])
    except BaseException as err:
        message = beside("adapter_mistakes").told(err, sys.argv[1])
        problem = {"message": message, "traceback": traceback.format_exc()[-_MESSAGE_LIMIT:]}
    gc.freeze()  # what is here to stay: nobody need look through it, and a fork need not copy it for that
    if sys.argv[4:5] == ["template"]:
        beside("template").serve_forks(answers, lambda: serve(adapter, problem, answers))
        return 0
    return serve(adapter, problem, answers)


def serve(adapter: Any, problem: dict[str, str] | None, answers: int) -> int:
    """Answer the requests on standard input. ``problem`` says why there is no adapter."""
    for line in sys.stdin.buffer:
        request = _read(line.decode())[0]
        if request["cmd"] == "stop":
            return 0
        if request["cmd"] == "start":
            answer = {"error": problem} if problem else start_or_error(adapter, request)
            # CUDA reserves address space for the memory of all devices.
            if int(sys.argv[2]) and not str(request.get("device")).startswith("cuda"):
                limit_memory(int(sys.argv[2]))
        else:
            answer = run(adapter, request)
        send(answers, answer)
    return 0


_read = json.JSONDecoder().raw_decode
_spell = json.JSONEncoder(check_circular=False).encode  # a cycle is nested too deeply, which shows as well


def send(fd: int, answer: dict[str, Any]) -> None:
    try:
        data = _spell(answer).encode() + b"\n"
    except Exception as err:
        message = f"the adapter failed: its answer cannot be sent ({describe(err)})"
        data = json.dumps({"seq": answer.get("seq"), "outcome": "harness-error", "message": message}).encode()
        data += b"\n"
    while data:
        data = data[os.write(fd, data) :]


OWN: list[str] = []
"""Folder of the adapter, if it is one of this project."""


def load(spec: str) -> Any:
    """Import the adapter. A class is instantiated, anything else is used as it is."""
    OWN.clear()
    where, _, name = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if where.endswith(".py"):
        found = importlib.util.spec_from_file_location("stc_adapter", where)
        if found is None or found.loader is None:
            raise ImportError(f"cannot load {where}")
        folder = os.path.dirname(os.path.abspath(where))  # noqa: PTH100, PTH120 - as above
        sys.path.append(folder)
        if os.path.dirname(folder) == _OURS:  # noqa: PTH120 - as above
            sys.path.append(os.path.join(_OURS, "support"))  # noqa: PTH118 - as above
            OWN.append(folder)
        module = importlib.util.module_from_spec(found)
        sys.modules["stc_adapter"] = module
        found.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    adapter = module
    for part in name.split(".") if name else ():
        if not hasattr(adapter, part):
            raise beside("adapter_mistakes").no_such(spec, adapter, part)
        adapter = getattr(adapter, part)
    if isinstance(adapter, type):
        adapter = adapter()
    if not steps_of(adapter):
        raise beside("adapter_mistakes").no_steps(spec, adapter, _METHODS.values(), steps_of)
    return adapter


def steps_of(adapter: Any) -> list[str]:
    steps = [step for step, method in _METHODS.items() if callable(getattr(adapter, method, None))]
    return ["open"] if not steps and callable(getattr(adapter, "check", None)) else steps


def limit_memory(allowance: int) -> None:
    """Limit the address space to what is mapped now plus ``allowance`` bytes, where the system can."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - as above
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
        limit = mapped + allowance
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass


def start_or_error(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        problem = misuse(adapter)
        return {"error": {"message": problem}} if problem else start(adapter, request)
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        return {"error": {"message": describe(err), "traceback": traceback.format_exc()[-_MESSAGE_LIMIT:]}}


_OPTIONAL_METHODS = ("resave", "check", "profile", "device_ready", "device_bytes")


def misuse(adapter: Any) -> str | None:
    for name in (*_METHODS.values(), *_OPTIONAL_METHODS):
        method = getattr(adapter, name, None)
        if method is not None and not callable(method):
            return f"{name} of the adapter must be a method, not {type(method).__name__}"
    if not _are_exceptions(getattr(adapter, "rejects", None)):
        return (
            "rejects of the adapter must be a tuple of exception types, such as (ValueError,), "
            f"not {shown(adapter.rejects)}"
        )
    lacks = getattr(adapter, "lacks", ())
    if not isinstance(lacks, (tuple, list, set, frozenset)) or not all(isinstance(x, str) for x in lacks):
        return f'lacks of the adapter must be a tuple of names, such as ("dtype-f4",), not {shown(lacks)}'
    return None


def _are_exceptions(types_: Any) -> bool:
    if types_ is None:
        return True
    if not isinstance(types_, (tuple, list, set, frozenset)):
        return False
    return all(isinstance(t, type) and issubclass(t, BaseException) for t in types_)


def start(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    profile = getattr(adapter, "profile", None)
    if request.get("profile") and callable(profile):
        profile(request["profile"])
    if request.get("device") and callable(getattr(adapter, "device", None)):
        problem = take_device(adapter, request["device"])
        if problem is not None:
            return {"error": {"message": problem}}
    return {
        "protocol": PROTOCOL,
        "implementation": identity(adapter),
        "steps": steps_of(adapter),
        "verdict_only": callable(getattr(adapter, "check", None)),
        "lacks": list(getattr(adapter, "lacks", ())),
    }


def identity(adapter: Any) -> dict[str, str]:
    """Return name, version and language, of an adapter of this project those of its implementation."""
    known = {"name": type(adapter).__name__, "version": "unknown", "language": "Python"}
    if OWN:
        import importlib.metadata
        import tomllib

        with open(os.path.join(OWN[0], "implementation.toml"), "rb") as file:  # noqa: PTH118, PTH123 - as above
            described = tomllib.load(file)
        known |= {"name": described["name"], "language": described["language"]}
        if not hasattr(adapter, "version") and "source" not in described:
            distribution = described.get("install", {}).get("distribution", described["name"])
            known["version"] = importlib.metadata.version(distribution)
    return {key: str(getattr(adapter, key, value)) for key, value in known.items()}


DEVICE: dict[str, Any] = {}
"""The checks of the step ``device``, if one was asked for."""


def take_device(adapter: Any, device: str) -> str | None:
    """Make the checks of the step ``device`` ready. Returns why the device cannot be taken, or None."""
    module = beside("device_checks")
    try:
        DEVICE["checks"] = module.DeviceChecks(adapter, device)
    except module.NotThereError as err:
        return f"it cannot load onto {device}: {err}"
    except Exception as err:
        return f"the adapter failed for device {device}: {describe(err)}"
    return None


def method_of(owner: Any, name: str, whose: str = "the adapter") -> Any:
    """Return a method of the adapter, or of a handle that it gave. Raises NotImplementedError."""
    method = getattr(owner, name, None)
    if not callable(method):
        raise NotImplementedError(f"{whose} has no {name}()")
    return method


def rows_of(result: Any, method: Callable[..., Any]) -> Iterator[Any]:
    """Yield what the adapter gave. Raises AdapterError for what cannot be gone through."""
    step = called(method)
    if result is None:
        raise AdapterError(f"{step}() returned None instead of tensors")
    if not hasattr(type(result), "__iter__"):
        raise AdapterError(f"{step}() returned {type(result).__name__} instead of tensors")
    iterator = looked_at(lambda: iter(result), f"what {step}() returned cannot be gone through")
    yield from library.handed_out(iterator, method)


def looked_at(look: Callable[[], _T], wrong: str) -> _T:
    """Do something of the host's own. Raises AdapterError for whatever goes wrong."""
    try:
        return look()
    except (AdapterError, KeyboardInterrupt):
        raise
    except BaseException as err:
        raise AdapterError(f"{wrong} ({describe(err)})") from err


def called(method: Any) -> str:
    return str(getattr(method, "__name__", type(method).__name__))


def run_device(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    if "checks" not in DEVICE:
        raise AdapterError("no device was named at the start")
    result = DEVICE["checks"].run(request["path"])
    return accepted(result, adapter.device, summary=request.get("summary", False))


def run(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Run one step on one file and turn whatever happens into an answer."""
    answer: dict[str, Any] = {"seq": request["seq"]}
    began, since = process_time(), perf_counter()
    try:
        answer.update(_done(adapter, request))
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        answer.update(failed(err, adapter))
    if request["step"] == "device" and "checks" in DEVICE:
        answer["checks"] = DEVICE["checks"].results
    answer["cpu_ms"] = round((process_time() - began) * 1000, 3)
    answer["wall_ms"] = round((perf_counter() - since) * 1000, 3)
    return answer


def _done(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked and return the content of the answer. Raises what the adapter raises, AdapterError."""
    step = request["step"]
    if callable(getattr(adapter, "check", None)):
        valid = ask(adapter.check, request["path"])
        if not isinstance(valid, bool):
            raise AdapterError(f"check() returned {shown(valid)} instead of True or False")
        return {"outcome": "accept" if valid else "reject"}
    if step in ("open", "read", "index", "remote"):
        method = method_of(adapter, step)
        return accepted(ask(method, request["path"]), method, summary=request.get("summary", False))
    if step in OTHER_STEPS:
        return OTHER_STEPS[step](adapter, request)
    raise NotImplementedError(f"no step {step}")


def failed(err: BaseException, adapter: Any) -> dict[str, Any]:
    """Classify an exception: a mistake of the adapter, or what the library did."""
    if isinstance(err, AdapterError):
        return {"outcome": "harness-error", "message": f"the adapter failed: {err}"[:_MESSAGE_LIMIT]}
    if isinstance(err, NotImplementedError):
        return {"outcome": "unsupported", "message": describe(err)}
    if isinstance(err, MemoryError):
        return {"outcome": "exhausted", "message": describe(err)}
    if hasattr(type(err), "stc_refused"):
        return {"outcome": "reject", "message": describe(err).partition(": ")[2]}
    kind = type(err).__name__
    answer: dict[str, Any] = {"exception": kind, "message": describe(err)}
    answer["outcome"] = "crash" if kind == "PanicException" else "reject"
    documented = getattr(adapter, "rejects", None)
    if answer["outcome"] == "reject" and documented is not None and _are_exceptions(documented):
        answer["documented"] = isinstance(err, tuple(documented))
    return answer


def accepted(result: Any, method: Callable[..., Any], *, summary: bool = False) -> dict[str, Any]:
    """Turn what a method returned into the content of an answer; only a count for a ``summary``."""
    answer: dict[str, Any] = {"outcome": "accept"}
    if isinstance(result, dict):
        wrong = f"what {called(method)}() returned cannot be told"
        metadata, result = looked_at(lambda: _parts(result, method), wrong)
        if not summary:
            answer.update(metadata)
    rows = rows_of(result, method)
    if summary:
        answer["tensor_count"] = sum(1 for _ in rows)
    else:
        answer["tensors"] = [row(item, method) for item in rows]
    return answer


def _parts(result: dict[str, Any], method: Callable[..., Any]) -> tuple[dict[str, Any], Any]:
    if "tensors" not in result:
        raise AdapterError(f"{called(method)}() returned a dict without 'tensors'")
    found = {"metadata": library.plain(result["metadata"])} if "metadata" in result else {}
    return found, result["tensors"]


def row(item: Any, method: Callable[..., Any]) -> dict[str, Any]:
    """Turn one tensor tuple into its JSON form. Raises AdapterError when it is none."""
    marked = library.is_marked(method)
    step = called(method)
    return looked_at(lambda: tensor(item, step, marked=marked), f"a tensor that {step}() gave cannot be told")


def name_of(name: Any) -> Any:
    """Return the name of a tensor as an answer can carry it; bytes, as careless readers give, in hex."""
    if isinstance(name, (bytes, bytearray)):
        return {"hex": bytes(name).hex()}
    return name if isinstance(name, str) else repr(name)


def tensor(item: Any, step: str, *, marked: bool = False) -> dict[str, Any]:
    """Turn one tensor tuple into its JSON form, with the digest of its bytes when it has any.

    None for a dtype, a shape or bytes means that the library does not tell. In a ``marked`` adapter None is
    what the library told, content as any other odd value, and ``UNTOLD`` stands for what it does not tell.
    """
    if not isinstance(item, (tuple, list)) or not 3 <= len(item) <= 4:
        raise AdapterError(f"{step}() gave {shown(item)}, not (name, dtype, shape[, data])")
    name, dtype, shape = item[0], item[1], item[2]
    out: dict[str, Any] = {
        "name": name_of(name),
        "dtype": field(dtype, library.plain, marked=marked),
        "shape": field(shape, library.dimensions, marked=marked),
    }
    if len(item) == 3 or (item[3] is None and not marked):
        return out
    data = item[3]
    if isinstance(data, NotImplementedError):
        out["unsupported"] = describe(data)
        return out
    try:
        view = memoryview(data)
    except TypeError as err:
        raise AdapterError(f"data of {shown(name)} is {type(data).__name__}, not bytes-like") from err
    # What is not contiguous is copied; an object may lie about its length, and a view does not.
    data = view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()
    out["nbytes"] = view.nbytes
    out["sha256"] = hashlib.sha256(data).hexdigest()
    return out


def field(value: Any, tell: Callable[[Any], Any], *, marked: bool) -> Any:
    """Return a field of a row as JSON can carry it, None where the library does not tell it."""
    if value is library.UNTOLD:
        return None
    if value is None:
        return "None" if marked else None
    return tell(value)


class GivenTensor:
    """A tensor to write, as a view into memory.

    ``name``, ``dtype`` (a code of the format, or another element type, which must be refused), ``shape``,
    ``storage`` (a bytearray; tensors that share memory have the same one), ``offset`` of the first element in
    bytes, ``strides`` in bytes per dimension or None for contiguous row-major order, ``byteorder`` of the
    elements in memory (``little`` or ``big``), ``nbytes`` handed over when that is not what dtype and shape
    need (for writers that take buffers), else None.
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
            raise AdapterError(f"unknown part of a recipe: {sorted(part)}")
    return out


def text_of(value: Any) -> Any:
    """Return a text; one that JSON cannot carry is spelled in parts, as UTF-8 with lone surrogates."""
    if isinstance(value, dict) and value.keys() == {"parts"}:
        return bytes_of(value["parts"]).decode("utf-8", "surrogatepass")
    return value


def metadata_of(value: Any) -> Any:
    """Return the metadata to write; a map that JSON cannot carry is spelled as a list of items."""
    if not isinstance(value, dict):
        return value
    items = value["items"] if isinstance(value.get("items"), list) else value.items()
    return {text_of(key): text_of(text) for key, text in items}


def run_slice(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    index = tuple(
        slice(i["start"], i["stop"], i["step"]) if isinstance(i, dict) else (... if i == "..." else i)
        for i in request["index"]
    )
    method = method_of(adapter, "slice")
    return one_tensor(request["tensor"], ask(method, request["path"], request["tensor"], index), method)


def one_tensor(name: str, answer: Any, method: Callable[..., Any]) -> dict[str, Any]:
    """Return the answer for one tensor; the adapter gave ``(dtype, shape, data)``."""
    if not isinstance(answer, (tuple, list)) or looked_at(lambda: len([*answer]), "it has no length") != 3:
        raise AdapterError(f"{called(method)}() gave {shown(answer)}, not (dtype, shape, data)")
    return {"outcome": "accept", "tensors": [row((name, *answer), method)]}


def run_write(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    method = method_of(adapter, "write")
    tensors, metadata = looked_at(lambda: what_to_write(request), "what is to be written cannot be made")
    with file_size_limit(request.get("file_size_limit")):
        ask(method, request["path"], tensors, metadata)
    return {"outcome": "accept"}


def run_sharded(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Save a model in shards into a folder that exists."""
    method = method_of(adapter, "save_sharded")
    tensors, metadata = looked_at(lambda: what_to_write(request), "what is to be written cannot be made")
    with file_size_limit(request.get("file_size_limit")):
        ask(method, request["path"], tensors, metadata, request["max_shard_size"])
    return {"outcome": "accept"}


def what_to_write(request: Mapping[str, Any]) -> tuple[list[GivenTensor], Any]:
    memory = {name: bytes_of(parts) for name, parts in request["storages"].items()}
    return [GivenTensor(given, memory) for given in request["tensors"]], metadata_of(request["metadata"])


@contextlib.contextmanager
def file_size_limit(limit: int | None) -> Iterator[None]:
    """Let this process write no file larger than ``limit`` bytes, as on a full disk."""
    if limit is None:
        yield
        return
    import resource

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def run_resave(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Load a file and save it to the same path."""
    ask(method_of(adapter, "resave"), request["path"])
    return {"outcome": "accept"}


HELD: dict[str, Any] = {}
"""The handle held open, if there is one, and the last tensor it gave, with the method that gave it."""


def run_hold(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    HELD.clear()
    HELD["handle"] = handle_of(method_of(adapter, "hold"), request["path"])
    return {"outcome": "accept"}


def handle_of(method: Callable[..., Any], path: str) -> Any:
    """Return the handle that a method of the adapter gives. Raises AdapterError for what is none."""
    handle = ask(method, path)
    for name in ("tensor", "close"):
        if not callable(getattr(handle, name, None)):
            raise AdapterError(f"{called(method)}() returned {type(handle).__name__}, which has no {name}()")
    return handle


def run_get(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - all have this form
    name = request["tensor"]
    if "handle" not in HELD:
        raise AdapterError("no file is held open")
    method = HELD["handle"].tensor
    HELD["tensor"] = (name, ask(method, name), method)
    return {"outcome": "accept", "tensors": []}


def run_look(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Report the tensor taken last, as it is now."""
    if "tensor" not in HELD:
        raise AdapterError("no tensor was taken")
    return one_tensor(*HELD["tensor"])


def run_release(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Close the handle. What it gave stays."""
    if "handle" in HELD:
        ask(HELD["handle"].close)
    return {"outcome": "accept"}


SHARING: list[str] = []
"""The file that carries out the step ``concurrent``, if there is one."""


class Shared:
    """An adapter as ``sharing`` asks it."""

    def __init__(self, adapter: Any, path: str) -> None:
        self._adapter = adapter
        self._method = method_of(adapter, "share")
        self._path = path

    def open(self) -> Any:
        return handle_of(self._method, self._path)

    def take(self, handle: Any, name: str) -> Any:
        return ask(handle.tensor, name), handle.tensor

    def look(self, name: str, taken: Any) -> dict[str, Any]:
        (found,) = one_tensor(name, *taken)["tensors"]
        return dict(found)

    def close(self, handle: Any) -> None:
        ask(handle.close)

    def failed(self, err: BaseException) -> dict[str, Any]:
        return failed(err, self._adapter)


def run_concurrent(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Let several threads or processes read one file at the same time."""
    action = request["action"]
    if not SHARING:
        raise NotImplementedError("the host was started without the file that carries out this step")
    needs = "fork" if action["by"] == "processes" else "threads" if action["opened"] == "once" else ""
    if needs in getattr(adapter, "lacks", ()):
        raise NotImplementedError(f"it lacks {needs}")
    found = importlib.util.spec_from_file_location("stc_host.sharing", SHARING[0])
    assert found is not None
    assert found.loader is not None
    sharing = importlib.util.module_from_spec(found)
    found.loader.exec_module(sharing)
    answer: dict[str, Any] = sharing.run_concurrent(action, Shared(adapter, request["path"]))
    return answer


OTHER_STEPS = {
    "slice": run_slice,
    "write": run_write,
    "resave": run_resave,
    "sharded": run_sharded,
    "hold": run_hold,
    "get": run_get,
    "look": run_look,
    "release": run_release,
    "device": run_device,
    "concurrent": run_concurrent,
}


if __name__ == "__main__":
    raise SystemExit(main())
