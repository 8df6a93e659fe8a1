"""The worker's side for Python readers: loads an adapter, answers requests on standard input.

Standard library only and a single file (the checks of the step ``device`` lie beside it), so that it runs in
any interpreter that has the library under test, without this project being installed there. Usage:
``python python_host.py ADAPTER MEMORY_BYTES`` where ADAPTER is ``package.module:object`` or
``/path/to/file.py:object``.

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
``hold(path)``
    open; return a handle with ``tensor(name)``, which gives ``(dtype, shape, bytes-like)``, and ``close()``
``device(path, device)``
    load onto a device: an iterable of ``(name, dtype, shape, tensor)``; ``device_checks.py`` tells more

A validator has ``check(path)`` instead, which returns whether the file is valid.

Any of the reading ones may return a dict ``{"tensors": iterable, "metadata": map-or-None}`` instead of the
iterable, when the library reports metadata. Optional attributes: ``name``,
``version``, ``language``, ``lacks`` (features that the library does not have, such as ``dtype-f4``) and
``rejects`` (exception types that the library documents for refusing a file); optional method
``profile(name)``. Raising NotImplementedError means: well formed, but not supported.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import operator
import os
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from time import perf_counter, process_time  # by name: a reader may change what stands in the module
from typing import Any

PROTOCOL = 1
_MESSAGE_LIMIT = 2000
_METHODS = {
    "open": "open",
    "read": "read",
    "slice": "slice",
    "write": "write",
    "index": "index",
    "lifecycle": "hold",
    "device": "device",
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
    try:
        adapter = load(sys.argv[1])
    except BaseException as err:
        problem = {"message": describe(err), "traceback": traceback.format_exc()[-_MESSAGE_LIMIT:]}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return 0
        if request["cmd"] == "start":
            answer = {"error": problem} if problem else start(adapter, request)
            # CUDA reserves address space for the memory of all devices.
            if int(sys.argv[2]) and not str(request.get("device")).startswith("cuda"):
                limit_memory(int(sys.argv[2]))
        else:
            answer = run(adapter, request)
        send(answers, answer)
    return 0


def send(fd: int, answer: dict[str, Any]) -> None:
    """Write one answer as one line."""
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def load(spec: str) -> Any:
    """Import the adapter. A class is instantiated, anything else is used as it is."""
    where, _, name = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if where.endswith(".py"):
        found = importlib.util.spec_from_file_location("stc_adapter", where)
        if found is None or found.loader is None:
            raise ImportError(f"cannot load {where}")
        sys.path.append(os.path.dirname(os.path.abspath(where)))  # noqa: PTH100, PTH120 - as above
        module = importlib.util.module_from_spec(found)
        sys.modules["stc_adapter"] = module
        found.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    adapter = module
    for part in name.split(".") if name else ():
        adapter = getattr(adapter, part)
    if isinstance(adapter, type):
        adapter = adapter()
    if not steps_of(adapter):
        raise TypeError(f"adapter {spec} has none of the methods {', '.join(_METHODS.values())}")
    return adapter


def steps_of(adapter: Any) -> list[str]:
    """Return the steps the adapter has."""
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


def start(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Answer the start request: who we are and what we can do."""
    profile = getattr(adapter, "profile", None)
    if request.get("profile") and callable(profile):
        profile(request["profile"])
    if request.get("device") and callable(getattr(adapter, "device", None)):
        problem = take_device(adapter, request["device"])
        if problem is not None:
            return {"error": {"message": problem}}
    return {
        "protocol": PROTOCOL,
        "implementation": {
            "name": str(getattr(adapter, "name", type(adapter).__name__)),
            "version": str(getattr(adapter, "version", "unknown")),
            "language": str(getattr(adapter, "language", "Python")),
        },
        "steps": steps_of(adapter),
        "verdict_only": callable(getattr(adapter, "check", None)),
        "lacks": list(getattr(adapter, "lacks", ())),
    }


DEVICE: dict[str, Any] = {}
"""The checks of the step ``device``, if one was asked for."""


def take_device(adapter: Any, device: str) -> str | None:
    """Make the checks of the step ``device`` ready. Returns why the device cannot be taken, or None."""
    # The files beside this one, under a name of their own: no module of the adapter's may stand for them.
    beside = types.ModuleType("stc_host")
    beside.__path__ = [os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120
    sys.modules["stc_host"] = beside
    module = importlib.import_module("stc_host.device_checks")
    try:
        DEVICE["checks"] = module.DeviceChecks(adapter, device, AdapterError)
    except module.NotThereError as err:
        return f"it cannot load onto {device}: {err}"
    except Exception as err:
        return f"the adapter failed for device {device}: {describe(err)}"
    return None


def run_device(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - all have this form
    """Load onto the device of the start request."""
    if "checks" not in DEVICE:
        raise AdapterError("no device was named at the start")
    result = DEVICE["checks"].run(request["path"])
    return accepted(result, "device", summary=request.get("summary", False))


def run(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Run one step on one file and turn whatever happens into an answer."""
    answer: dict[str, Any] = {"seq": request["seq"]}
    began, since = process_time(), perf_counter()
    try:
        step = request["step"]
        if callable(getattr(adapter, "check", None)):
            answer["outcome"] = "accept" if adapter.check(request["path"]) else "reject"
        elif step in ("open", "read", "index"):
            result = getattr(adapter, step)(request["path"])
            answer.update(accepted(result, step, summary=request.get("summary", False)))
        elif step in OTHER_STEPS:
            answer.update(OTHER_STEPS[step](adapter, request))
        else:
            raise NotImplementedError(f"no step {step}")
    except NotImplementedError as err:
        answer.update(outcome="unsupported", message=describe(err))
    except MemoryError as err:
        answer.update(outcome="exhausted", message=describe(err))
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        answer.update(refused(err, adapter))
    if request["step"] == "device" and "checks" in DEVICE:
        answer["checks"] = DEVICE["checks"].told
    answer["cpu_ms"] = round((process_time() - began) * 1000, 3)
    answer["wall_ms"] = round((perf_counter() - since) * 1000, 3)
    return answer


def refused(err: BaseException, adapter: Any) -> dict[str, Any]:
    """Classify an exception: the adapter's own slip, a panic, or a refusal."""
    kind = type(err).__name__
    answer: dict[str, Any] = {"exception": kind, "message": describe(err)}
    if isinstance(err, (AdapterError, NameError)):
        answer["outcome"] = "harness-error"
        answer["message"] = f"the adapter failed: {answer['message']}"
    elif kind == "PanicException":
        answer["outcome"] = "crash"
    else:
        answer["outcome"] = "reject"
        documented = getattr(adapter, "rejects", None)
        if documented is not None:
            answer["documented"] = isinstance(err, tuple(documented))
    return answer


def describe(err: BaseException) -> str:
    """Return type and message, bounded."""
    try:
        text = str(err)
    except Exception:
        text = "(no message)"
    return f"{type(err).__name__}: {text}"[:_MESSAGE_LIMIT]


class AdapterError(Exception):
    """The adapter returned something that is no answer."""


def accepted(result: Any, step: str, *, summary: bool = False) -> dict[str, Any]:
    """Turn what the adapter returned into the content of an answer; only a count for a ``summary``."""
    answer: dict[str, Any] = {"outcome": "accept"}
    if isinstance(result, dict):
        if "tensors" not in result:
            raise AdapterError(f"{step}() returned a dict without 'tensors'")
        if "metadata" in result and not summary:
            metadata = result["metadata"]
            answer["metadata"] = plain(metadata)
        result = result["tensors"]
    if result is None:
        raise AdapterError(f"{step}() returned None instead of tensors")
    if not hasattr(result, "__iter__"):
        raise AdapterError(f"{step}() returned {type(result).__name__} instead of tensors")
    if summary:
        answer["tensor_count"] = sum(1 for _ in result)
    else:
        answer["tensors"] = [tensor(item, step) for item in result]
    return answer


def tensor(item: Any, step: str) -> dict[str, Any]:
    """Turn one tensor tuple into its JSON form, with the digest of its bytes when it has any."""
    if not isinstance(item, (tuple, list)) or not 3 <= len(item) <= 4:
        raise AdapterError(f"{step}() gave {str(item)[:80]!r}, not (name, dtype, shape[, data])")
    name, dtype, shape = item[0], item[1], item[2]
    out: dict[str, Any] = {
        "name": name if isinstance(name, str) else repr(name),
        "dtype": plain(dtype),
        "shape": None if shape is None else [plain(d) for d in shape],
    }
    if len(item) == 3 or item[3] is None:
        return out
    data = item[3]
    if isinstance(data, NotImplementedError):
        out["unsupported"] = describe(data)
        return out
    if not isinstance(data, (bytes, bytearray)):
        try:
            view = memoryview(data)
            data = view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()
        except TypeError as err:
            raise AdapterError(
                f"data of {str(name)[:80]!r} is {type(data).__name__}, not bytes-like"
            ) from err
    out["nbytes"] = len(data)
    out["sha256"] = hashlib.sha256(data).hexdigest()
    return out


def plain(value: Any) -> Any:
    """Return a dimension or metadata value as JSON can carry it; what a lenient reader lets through stays."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    try:
        return operator.index(value)
    except TypeError:
        return repr(value)


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
    """Return the bytes that the parts of a recipe describe."""
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
    """Hand out a part of one tensor."""
    index = tuple(
        slice(i["start"], i["stop"], i["step"]) if isinstance(i, dict) else (... if i == "..." else i)
        for i in request["index"]
    )
    return one_tensor(request["tensor"], adapter.slice(request["path"], request["tensor"], index), "slice")


def one_tensor(name: str, answer: Any, step: str) -> dict[str, Any]:
    """Return the answer for one tensor; the adapter gave ``(dtype, shape, data)``."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        raise AdapterError(f"{step}() gave {str(answer)[:80]!r}, not (dtype, shape, data)")
    return {"outcome": "accept", "tensors": [tensor((name, *answer), step)]}


def run_write(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Write a file out of memory that is described in the request."""
    memory = {name: bytes_of(parts) for name, parts in request["storages"].items()}
    tensors = [GivenTensor(given, memory) for given in request["tensors"]]
    with file_size_limit(request.get("file_size_limit")):
        adapter.write(request["path"], tensors, metadata_of(request["metadata"]))
    return {"outcome": "accept"}


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
    if not callable(getattr(adapter, "resave", None)):
        raise NotImplementedError("the adapter has no resave(path)")
    adapter.resave(request["path"])
    return {"outcome": "accept"}


HELD: dict[str, Any] = {}
"""The handle held open, if there is one, and the last tensor it gave."""


def run_hold(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Open a file and keep it open."""
    HELD.clear()
    HELD["handle"] = adapter.hold(request["path"])
    return {"outcome": "accept"}


def run_get(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - all have this form
    """Take a tensor from the handle and keep it."""
    name = request["tensor"]
    HELD["tensor"] = (name, HELD["handle"].tensor(name))
    return {"outcome": "accept", "tensors": []}


def run_look(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Report the tensor taken last, as it is now."""
    name, answer = HELD["tensor"]
    return one_tensor(name, answer, "tensor")


def run_release(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Close the handle. What it gave stays."""
    if "handle" in HELD:
        HELD["handle"].close()
    return {"outcome": "accept"}


OTHER_STEPS = {
    "slice": run_slice,
    "write": run_write,
    "resave": run_resave,
    "hold": run_hold,
    "get": run_get,
    "look": run_look,
    "release": run_release,
    "device": run_device,
}


if __name__ == "__main__":
    raise SystemExit(main())
