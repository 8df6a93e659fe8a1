"""The worker's side for Python readers: loads an adapter, answers requests on standard input.

Standard library only and a single file, so that it runs inside any interpreter that has the library under
test, without this project being installed there. Usage: ``python python_host.py ADAPTER MEMORY_BYTES`` where
ADAPTER is ``package.module:object`` or ``/path/to/file.py:object``.

An adapter is any object with ``open(path)`` or ``read(path)`` or both. ``open`` returns what the library
knows without reading data, an iterable of ``(name, dtype, shape)``; ``read`` loads everything and returns
an iterable of ``(name, dtype, shape, bytes-like)``. Either may return a dict ``{"tensors": iterable,
"metadata": map-or-None}`` instead, when the library reports metadata. Optional attributes: ``name``,
``version``, ``language``, ``lacks`` (features that the library does not have, such as ``dtype-f4``) and
``rejects`` (exception types that the library documents for refusing a file); optional method
``profile(name)``. Raising NotImplementedError means: well formed, but not supported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import operator
import os
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

PROTOCOL = 1
_MESSAGE_LIMIT = 2000


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
    limit_memory(int(sys.argv[2]))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return 0
        if request["cmd"] == "start":
            answer = {"error": problem} if problem else start(adapter, request)
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
        raise TypeError(f"adapter {spec} has neither open(path) nor read(path)")
    return adapter


def steps_of(adapter: Any) -> list[str]:
    """Return the steps the adapter has."""
    return [step for step in ("open", "read") if callable(getattr(adapter, step, None))]


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
    return {
        "protocol": PROTOCOL,
        "implementation": {
            "name": str(getattr(adapter, "name", type(adapter).__name__)),
            "version": str(getattr(adapter, "version", "unknown")),
            "language": str(getattr(adapter, "language", "Python")),
        },
        "steps": steps_of(adapter),
        "lacks": list(getattr(adapter, "lacks", ())),
    }


def run(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Run one step on one file and turn whatever happens into an answer."""
    answer: dict[str, Any] = {"seq": request["seq"]}
    began = time.process_time()
    try:
        step = request["step"]
        result = getattr(adapter, step)(request["path"])
        answer.update(accepted(result, step))
    except NotImplementedError as err:
        answer.update(outcome="unsupported", message=describe(err))
    except MemoryError as err:
        answer.update(outcome="exhausted", message=describe(err))
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        answer.update(refused(err, adapter))
    answer["cpu_ms"] = round((time.process_time() - began) * 1000, 3)
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


def accepted(result: Any, step: str) -> dict[str, Any]:
    """Turn what the adapter returned into the content of an answer."""
    answer: dict[str, Any] = {"outcome": "accept"}
    if isinstance(result, dict):
        if "tensors" not in result:
            raise AdapterError(f"{step}() returned a dict without 'tensors'")
        if "metadata" in result:
            metadata = result["metadata"]
            answer["metadata"] = plain(metadata)
        result = result["tensors"]
    if result is None:
        raise AdapterError(f"{step}() returned None instead of tensors")
    if not hasattr(result, "__iter__"):
        raise AdapterError(f"{step}() returned {type(result).__name__} instead of tensors")
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


if __name__ == "__main__":
    raise SystemExit(main())
