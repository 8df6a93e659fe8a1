"""Error messages about adapters that cannot be loaded. The host imports this module only when needed."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Collection
from typing import Any

MESSAGE_LIMIT = 2000


class NoAdapterError(Exception):
    """The selector does not name an adapter. The exception's text is the complete message."""


def missing_name_error(spec: str, owner: Any, name: str) -> NoAdapterError:
    where = spec.rpartition(":")[0]
    there = [n for n in vars(owner) if not n.startswith("_")] if hasattr(owner, "__dict__") else []
    classes = [n for n in there if isinstance(vars(owner)[n], type)]
    guess = difflib.get_close_matches(name, there, n=1, cutoff=0.5) or classes[:1]
    return NoAdapterError(f"{where} has no {name!r}" + (f"; did you mean {guess[0]!r}?" if guess else ""))


def no_steps_error(
    spec: str, adapter: Any, methods: Collection[str], steps: Callable[[Any], list[str]]
) -> NoAdapterError:
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
    try:
        text = f"{type(err).__name__}: {err}"
    except Exception:
        text = type(err).__name__
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
