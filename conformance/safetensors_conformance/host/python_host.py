"""The host for Python readers, which loads an adapter and answers requests on standard input.

It uses only the standard library and the files next to it, so it runs in any interpreter that has the library
under test. ``library.py`` contains the marks for adapters and converts values in requests and answers.
``device_checks.py`` implements the ``device`` step.

Usage: ``python python_host.py ADAPTER MEMORY_BYTES [SHARING [template]]``. ADAPTER is
``package.module:object`` or ``/path/to/file.py:object``. SHARING is the corpus module ``sharing.py``, which
the ``concurrent`` step needs. With ``template``, the host loads the adapter and then forks itself to answer
requests, which it accepts in the format of ``keeper.py``.

An adapter is an object with a method for each step that the library supports; ``_METHODS`` lists their names.
If the library only validates files, the adapter has the method ``check(path)``, which returns whether a file
is valid. ``docs/plug-in.md`` describes the arguments and results of these methods, and the optional
attributes.

An exception from a method, or from a generator that it returned, is a rejection by the library. In a
``marked`` method, only exceptions from the marks are rejections. A failure while the host reads the answer is
always a mistake in the adapter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping

# import by name, because a reader may replace the module's attributes
from time import perf_counter, process_time
from typing import Any, TypeVar

_T = TypeVar("_T")


def import_sibling(name: str) -> Any:
    """Import a file next to this one as part of a package that an adapter's modules cannot replace."""
    package = types.ModuleType("stc_host")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120 - free of pathlib
    sys.modules.setdefault("stc_host", package)
    return importlib.import_module(f"stc_host.{name}")


library = import_sibling("library")
AdapterError, ask = library.AdapterError, library.ask
describe_error, short_repr = library.describe_error, library.short_repr

PROTOCOL = 1
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - free of pathlib
_ADAPTERS = os.path.join(os.path.dirname(_HERE), "implementations")  # noqa: PTH118, PTH120 - as above
"""Folder of this project's adapters. Its folder ``support`` contains their shared code."""
_MESSAGE_LIMIT = library.MESSAGE_LIMIT
_METHODS = {
    **{step: step for step in ("open", "read", "slice", "write", "index")},
    "sharded": "save_sharded",
    "lifecycle": "hold",
    **{step: step for step in ("remote", "device")},
    "concurrent": "share",
    "export": "export",
}
"""Maps each step to the adapter's method."""


def main() -> int:
    """Serve requests until ``stop`` or the end of standard input."""
    # Answers go to a private copy of standard output. The library's own output goes to standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    # Replace this script's folder in sys.path with the current folder, where adapters may be.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - start stays free of pathlib
    adapter: Any = None
    problem: dict[str, str] | None = None
    SHARING[:] = sys.argv[3:4]
    try:
        adapter = load(sys.argv[1])
    except BaseException as err:
        problem = _failure(library.load_error(err, sys.argv[1]))
    gc.freeze()  # make these objects permanent, so that collections skip them and forks do not copy them
    if sys.argv[4:5] == ["template"]:
        import_sibling("keeper").serve_forks(answers, lambda: serve(adapter, problem, answers))
        return 0
    return serve(adapter, problem, answers)


def serve(adapter: Any, problem: dict[str, str] | None, answers: int) -> int:
    """Answer the requests on standard input. If there is no adapter, ``problem`` gives the reason."""
    for line in sys.stdin.buffer:
        request = _read(line.decode())[0]
        if request["cmd"] == "stop":
            return 0
        if request["cmd"] == "start":
            answer = {"error": problem} if problem else start_or_error(adapter, request)
            # CUDA reserves address space for the memory of all devices, so do not limit it.
            if int(sys.argv[2]) and request.get("device") in (None, "cpu"):
                limit_memory(int(sys.argv[2]))
        else:
            answer = run(adapter, request)
        send(answers, answer)
    return 0


_read = json.JSONDecoder().raw_decode
_spell = json.JSONEncoder(check_circular=False).encode  # a circular reference raises RecursionError instead


def send(fd: int, answer: dict[str, Any]) -> None:
    try:
        text = _spell(answer)
    except Exception as err:
        message = f"the adapter failed: its answer cannot be sent ({describe_error(err)})"
        text = json.dumps({"seq": answer.get("seq"), "outcome": "harness-error", "message": message})
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]


OWN_FOLDER: list[str] = []
"""Folder of the adapter, if it belongs to this project."""


def load(spec: str) -> Any:
    """Import the adapter. A class is instantiated; any other object is used as it is."""
    OWN_FOLDER.clear()
    where, _, name = spec.rpartition(":") if ":" in spec else (spec, "", "")
    if where.endswith(".py"):
        found = importlib.util.spec_from_file_location("stc_adapter", where)
        if found is None or found.loader is None:
            raise ImportError(f"cannot load {where}")
        folder = os.path.dirname(os.path.abspath(where))  # noqa: PTH100, PTH120 - as above
        sys.path.append(folder)
        if os.path.dirname(folder) == _ADAPTERS:  # noqa: PTH120 - as above
            sys.path.append(os.path.join(_ADAPTERS, "support"))  # noqa: PTH118 - as above
            OWN_FOLDER.append(folder)
        module = importlib.util.module_from_spec(found)
        sys.modules["stc_adapter"] = module
        found.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    adapter = module
    for part in name.split(".") if name else ():
        if not hasattr(adapter, part):
            raise library.missing_name_error(spec, adapter, part)
        adapter = getattr(adapter, part)
    if isinstance(adapter, type):
        adapter = adapter()
    if not steps_of(adapter):
        raise library.no_steps_error(spec, adapter, _METHODS.values(), steps_of)
    return adapter


def steps_of(adapter: Any) -> list[str]:
    steps = [step for step, method in _METHODS.items() if callable(getattr(adapter, method, None))]
    return ["open"] if not steps and callable(getattr(adapter, "check", None)) else steps


def limit_memory(allowance: int) -> None:
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
        problem = invalid_part(adapter)
        return {"error": {"message": problem}} if problem else start(adapter, request)
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        return {"error": _failure(describe_error(err))}


def _failure(message: str) -> dict[str, str]:
    return {"message": message, "traceback": traceback.format_exc()[-_MESSAGE_LIMIT:]}


_OPTIONAL_METHODS = ("resave", "check", "profile", "device_ready", "device_bytes")


def invalid_part(adapter: Any) -> str | None:
    for name in (*_METHODS.values(), *_OPTIONAL_METHODS):
        method = getattr(adapter, name, None)
        if method is not None and not callable(method):
            return f"{name} of the adapter must be a method, not {type(method).__name__}"
    rejects, lacks = getattr(adapter, "rejects", None), getattr(adapter, "lacks", ())
    several = (tuple, list, set, frozenset)
    are_errors = isinstance(rejects, several) and all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in rejects
    )
    if rejects is not None and not are_errors:
        wanted = "a tuple of exception types, such as (ValueError,)"
        return f"rejects of the adapter must be {wanted}, not {short_repr(rejects)}"
    if not isinstance(lacks, several) or not all(isinstance(x, str) for x in lacks):
        wanted = 'a tuple of names, such as ("dtype-f4",)'
        return f"lacks of the adapter must be {wanted}, not {short_repr(lacks)}"
    return None


def start(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    profile = getattr(adapter, "profile", None)
    if request.get("profile") and callable(profile):
        profile(request["profile"])
    if request.get("device") and callable(getattr(adapter, "device", None)):
        problem = prepare_device(adapter, request["device"])
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
    """Return the name, version and language. For this project's adapters, the descriptor contains them."""
    known = {"name": type(adapter).__name__, "version": "unknown", "language": "Python"}
    if OWN_FOLDER:
        import importlib.metadata
        import tomllib

        with open(os.path.join(OWN_FOLDER[0], "implementation.toml"), "rb") as file:  # noqa: PTH118, PTH123 - as above
            described = tomllib.load(file)
        known |= {"name": described["name"], "language": described["language"]}
        if not hasattr(adapter, "version") and "source" not in described:
            distribution = described.get("install", {}).get("distribution", described["name"])
            known["version"] = importlib.metadata.version(distribution)
    return {key: str(getattr(adapter, key, value)) for key, value in known.items()}


DEVICE: dict[str, Any] = {}
"""The checks of the ``device`` step, if a device was requested."""


def prepare_device(adapter: Any, device: str) -> str | None:
    """Prepare the checks of the ``device`` step. Returns the reason why the device is unusable, if any."""
    module = import_sibling("device_checks")
    try:
        DEVICE["checks"] = module.DeviceChecks(adapter, device)
    except module.NotThereError as err:
        return f"it cannot load onto {device}: {err}"
    except Exception as err:
        return f"the adapter failed for device {device}: {describe_error(err)}"
    return None


ACCEPTED = {"outcome": "accept"}


def method_of(adapter: Any, name: str) -> Any:
    method = getattr(adapter, name, None)
    if not callable(method):
        raise NotImplementedError(f"the adapter has no {name}()")
    return method


def run_read(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    method = method_of(adapter, request["step"])
    return accepted_answer(ask(method, request["path"]), method, summary=request.get("summary", False))


def rows_of(result: Any, method: Callable[..., Any]) -> Iterator[Any]:
    step = method_name(method)
    if not hasattr(type(result), "__iter__"):
        kind = "None" if result is None else type(result).__name__
        raise AdapterError(f"{step}() returned {kind} instead of tensors")
    iterator = guarded(lambda: iter(result), f"the result of {step}() cannot be iterated over")
    yield from library.iterate_result(iterator, method)


def guarded(look: Callable[[], _T], wrong: str) -> _T:
    """Run the host's own code on an answer. Raises AdapterError if it fails."""
    try:
        return look()
    except (AdapterError, KeyboardInterrupt):
        raise
    except BaseException as err:
        raise AdapterError(f"{wrong} ({describe_error(err)})") from err


def method_name(method: Any) -> str:
    return str(getattr(method, "__name__", type(method).__name__))


def run_device(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    if "checks" not in DEVICE:
        raise AdapterError("no device was specified at startup")
    result = DEVICE["checks"].run(request["path"])
    return accepted_answer(result, adapter.device, summary=request.get("summary", False))


def run(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"seq": request["seq"]}
    began, since = process_time(), perf_counter()
    try:
        answer.update(_answer_content(adapter, request))
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        answer.update(failure_answer(err, adapter))
    if request["step"] == "device" and "checks" in DEVICE:
        answer["checks"] = DEVICE["checks"].results
    answer["cpu_ms"] = round((process_time() - began) * 1000, 3)
    answer["wall_ms"] = round((perf_counter() - since) * 1000, 3)
    return answer


def _answer_content(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    step = request["step"]
    if callable(getattr(adapter, "check", None)):
        valid = ask(adapter.check, request["path"])
        if not isinstance(valid, bool):
            raise AdapterError(f"check() returned {short_repr(valid)} instead of True or False")
        return {"outcome": "accept" if valid else "reject"}
    if step not in STEPS:
        raise NotImplementedError(f"no step {step}")
    return STEPS[step](adapter, request)


def failure_answer(err: BaseException, adapter: Any) -> dict[str, Any]:
    if isinstance(err, AdapterError):
        return {"outcome": "harness-error", "message": f"the adapter failed: {err}"[:_MESSAGE_LIMIT]}
    if isinstance(err, NotImplementedError):
        return {"outcome": "unsupported", "message": describe_error(err)}
    if isinstance(err, MemoryError):
        return {"outcome": "exhausted", "message": describe_error(err)}
    if hasattr(type(err), "stc_refused"):
        return {"outcome": "reject", "message": describe_error(err).partition(": ")[2]}
    kind = type(err).__name__
    answer: dict[str, Any] = {"exception": kind, "message": describe_error(err)}
    answer["outcome"] = "crash" if kind == "PanicException" else "reject"
    documented = getattr(adapter, "rejects", None)
    if answer["outcome"] == "reject" and documented is not None:
        answer["documented"] = isinstance(err, tuple(documented))
    return answer


def accepted_answer(result: Any, method: Callable[..., Any], *, summary: bool = False) -> dict[str, Any]:
    """Convert the result of a method to an answer. A ``summary`` contains only the number of tensors."""
    answer: dict[str, Any] = {"outcome": "accept"}
    if isinstance(result, dict):
        wrong = f"the result of {method_name(method)}() cannot be reported"
        metadata, result = guarded(lambda: _parts(result, method), wrong)
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
        raise AdapterError(f"{method_name(method)}() returned a dict without 'tensors'")
    found = {"metadata": library.plain(result["metadata"])} if "metadata" in result else {}
    return found, result["tensors"]


def row(item: Any, method: Callable[..., Any]) -> dict[str, Any]:
    marked = library.is_marked(method)
    step = method_name(method)
    wrong = f"a tensor from {step}() cannot be reported"
    return guarded(lambda: library.tensor(item, step, marked=marked), wrong)


def run_slice(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    index = tuple(
        slice(i["start"], i["stop"], i["step"]) if isinstance(i, dict) else (... if i == "..." else i)
        for i in request["index"]
    )
    method = method_of(adapter, "slice")
    return one_tensor(request["tensor"], ask(method, request["path"], request["tensor"], index), method)


def one_tensor(name: str, answer: Any, method: Callable[..., Any]) -> dict[str, Any]:
    if (
        not isinstance(answer, (tuple, list))
        or guarded(lambda: len([*answer]), "the answer has no length") != 3
    ):
        raise AdapterError(
            f"{method_name(method)}() returned {short_repr(answer)} instead of (dtype, shape, data)"
        )
    return {"outcome": "accept", "tensors": [row((name, *answer), method)]}


def run_write(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    method = method_of(adapter, _METHODS[request["step"]])
    most = [request["max_shard_size"]] if request["step"] == "sharded" else []
    wrong = "the tensors to write cannot be created"
    tensors, metadata = guarded(lambda: library.tensors_to_write(request), wrong)
    with file_size_limit(request.get("file_size_limit")):
        ask(method, request["path"], tensors, metadata, *most)
    return ACCEPTED


@contextlib.contextmanager
def file_size_limit(limit: int | None) -> Iterator[None]:
    if limit is None:
        yield
        return
    import resource

    old, compiles = resource.getrlimit(resource.RLIMIT_FSIZE), not sys.dont_write_bytecode
    # Python does not notice that the limit truncates the bytecode of a module that a library imports late.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        sys.dont_write_bytecode = not compiles


def run_on_file(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Call a method that returns nothing."""
    folder = [request["folder"]] if request["step"] == "export" else []
    ask(method_of(adapter, request["step"]), request["path"], *folder)
    return ACCEPTED


HELD: dict[str, Any] = {}
"""The open handle, if any, and the last tensor that it returned, with the method that returned the tensor."""


def run_hold(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    HELD.clear()
    HELD["handle"] = handle_of(method_of(adapter, "hold"), request["path"])
    return ACCEPTED


def handle_of(method: Callable[..., Any], path: str) -> Any:
    handle = ask(method, path)
    for name in ("tensor", "close"):
        if not callable(getattr(handle, name, None)):
            raise AdapterError(
                f"{method_name(method)}() returned {type(handle).__name__}, which has no {name}()"
            )
    return handle


def run_get(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - common signature
    name = request["tensor"]
    if "handle" not in HELD:
        raise AdapterError("no file is open")
    method = HELD["handle"].tensor
    HELD["tensor"] = (name, ask(method, name), method)
    return {"outcome": "accept", "tensors": []}


def run_look(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Report the current state of the most recently read tensor."""
    if "tensor" not in HELD:
        raise AdapterError("no tensor has been read")
    return one_tensor(*HELD["tensor"])


def run_release(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    if "handle" in HELD:
        ask(HELD["handle"].close)
    return ACCEPTED


SHARING: list[str] = []
"""Path of the module for the ``concurrent`` step, if given."""


class Shared:
    """Makes an adapter available to ``sharing``."""

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
        return failure_answer(err, self._adapter)


def run_concurrent(adapter: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    action = request["action"]
    if not SHARING:
        raise NotImplementedError("the host was started without the module that implements this step")
    needs = "fork" if action["by"] == "processes" else "threads" if action["opened"] == "once" else ""
    if needs in getattr(adapter, "lacks", ()):
        raise NotImplementedError(f"it lacks {needs}")
    found = importlib.util.spec_from_file_location("stc_host.sharing", SHARING[0])
    assert found is not None
    assert found.loader is not None
    sharing = importlib.util.module_from_spec(found)
    found.loader.exec_module(sharing)
    return dict(sharing.run_concurrent(action, Shared(adapter, request["path"])))


STEPS = {
    **dict.fromkeys(("open", "read", "index", "remote"), run_read),
    **dict.fromkeys(("write", "sharded"), run_write),
    **dict.fromkeys(("resave", "export"), run_on_file),
    "slice": run_slice,
    "hold": run_hold,
    "get": run_get,
    "look": run_look,
    "release": run_release,
    "device": run_device,
    "concurrent": run_concurrent,
}


if __name__ == "__main__":
    raise SystemExit(main())
