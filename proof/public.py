"""The public interface: documented names with their signatures, and the tree of commands."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from typing import Any

from .commands import FailedError, run

# Modules from which the documentation imports, with the names that it shows. None means the names in
# ``__all__``.
DOCUMENTED: dict[str, tuple[str, ...] | None] = {
    "safetensors_reference": None,
    "safetensors_reference.numpy": None,
    "safetensors_reference.torch": None,
    "safetensors_reference.device": None,
    "safetensors_reference.device.ranks.model": None,
    "safetensors_reference.model.read": ("Shard", "explain_index", "open_index", "shard_of"),
    "safetensors_reference.model.judge": ("judge_model",),
    "safetensors_reference.files.names": ("find_models",),
    "safetensors_corpus": None,
    "safetensors_fuzz.strategies": ("broken_files", "files", "valid_files"),
    "safetensors_conformance.host.library": (
        "UNTOLD",
        "Refused",
        "attribute",
        "call",
        "each",
        "item",
        "marked",
        "opened",
    ),
}

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MODULE = re.compile(r"\bsafetensors_\w+(?:\.[a-z_]\w*)*\.(?=[A-Z_a-z])")
_COMMAND = re.compile(r"  (\S+)(?:  .*)?")
_OPTION = re.compile(r"  (-\S.*?)(?:   *.*)?")


def described() -> dict[str, Any]:
    """Return every documented name. Raises FailedError for a module or name that does not exist."""
    program = "import json, proof.public as p; print(json.dumps(p.names()))"
    entries: dict[str, Any] = json.loads(run("python", "-c", program).stdout)
    return entries


def names() -> dict[str, Any]:
    """Return the documented names by module. Raises ImportError and AttributeError."""
    entries: dict[str, Any] = {}
    for path, chosen in DOCUMENTED.items():
        module = importlib.import_module(path)
        for name in sorted(module.__all__ if chosen is None else chosen):
            entries[f"{path}.{name}"] = describe(getattr(module, name))
    return entries


def describe(thing: Any) -> Any:
    """Return the signature of a function, the members of a class, or the value of any other object."""
    if inspect.isclass(thing):
        return {"": _signature(thing), **_members(thing)}
    return _signature(thing) if callable(thing) else _plain(repr(thing))


def _members(owner: type) -> dict[str, str]:
    """Return the public members that this class, or one of our classes among its bases, defines."""
    ours = [base for base in owner.__mro__ if base.__module__.startswith("safetensors_")]
    found: dict[str, str] = {}
    for base in reversed(ours):
        for name in (*vars(base), *getattr(base, "__annotations__", {})):
            if name.startswith("_"):
                continue
            member = inspect.getattr_static(base, name, None)
            if isinstance(member, staticmethod | classmethod):
                found[name] = f"{type(member).__name__} {_signature(member.__func__)}"
            else:
                found[name] = _signature(member) if inspect.isfunction(member) else "attribute"
    return found


def _signature(thing: Any) -> str:
    """Return the parameters with their defaults but without annotations, because types may be renamed."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "unknown"
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return _plain(str(inspect.Signature(bare)))


def _plain(text: str) -> str:
    """Return the text without memory addresses and without the module prefixes of our names."""
    return _MODULE.sub("", _ADDRESS.sub("", text))


def help_of(*command: str) -> dict[str, Any]:
    """Return the arguments, options and subcommands of a command and of the commands below it."""
    text = run(*command, "-h").stdout
    parts = _parts(text)
    usage = text.split("\n\n", 1)[0].split()
    subcommands = [line[1] for one in parts["Commands:"] if (line := _COMMAND.fullmatch(one))]
    options = [line[1].strip() for one in parts["Options:"] if (line := _OPTION.fullmatch(one))]
    if not options:
        raise FailedError(f"no options found in the help of {' '.join(command)}")
    entry = {"arguments": usage[1 + len(command) :], "options": options, "commands": subcommands}
    entries = {" ".join(command): entry}
    for name in subcommands:
        entries |= help_of(*command, name)
    return entries


def _parts(text: str) -> dict[str, list[str]]:
    """Return the lines of the options and the lines of the commands."""
    parts: dict[str, list[str]] = {"Options:": [], "Commands:": []}
    current: list[str] | None = None
    for line in text.splitlines():
        if line and not line.startswith(" "):
            current = parts.get(line)
        elif current is not None:
            current.append(line)
    return parts
