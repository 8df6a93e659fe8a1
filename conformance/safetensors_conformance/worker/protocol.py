"""The worker protocol: JSON lines over standard input and output (``schemas/protocol.schema.json``).

Each request gets one answer, in order. The expectation of a case is never sent. This module checks answers
with its own code, because the checks are on the hot path. Tests compare this code with the published schema.

Names of tensors and metadata may contain bytes that are not UTF-8, because careless readers return such
names. The answer contains them as ``{"hex": "..."}`` or as raw bytes. Both forms become strings in which each
such byte is a lone surrogate (``surrogateescape``). No name in a valid file contains one (HDR-01, HDR-15), so
these names differ from all valid names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from safetensors_corpus.judging.answer import OUTCOMES
from safetensors_reports.record.device_checks import CHECKS, STATUSES

from ..outcome import STEPS, Check, Implementation, StepResult

PROTOCOL = 1


class ProtocolError(Exception):
    """The worker's answer violates the protocol. The message gives the problem and the remedy."""


def start_request(profile: str | None, device: str | None = None) -> bytes:
    more = {} if device is None else {"device": device}
    return _line({"cmd": "start", "protocol": PROTOCOL, "profile": profile, **more})


def run_request(seq: int, step: str, path: str, more: Mapping[str, Any] | None = None) -> bytes:
    return _line({"cmd": "run", "seq": seq, "step": step, "path": path, **(more or {})})


STOP_REQUEST = b'{"cmd": "stop"}\n'


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def looks_like_answer(line: bytes) -> bool:
    return line.lstrip().startswith(b"{") and (b'"seq"' in line or b'"protocol"' in line)


MAX_VALUES = 500_000
"""Maximum number of values in one answer. In memory, each takes up to 80 times its size in the line."""


def check_values(line: bytes, most: int = MAX_VALUES) -> None:
    """Raise ProtocolError for a line with too many values, before parsing it."""
    if len(line) > most:
        found = line.count(b",") + line.count(b"[") + line.count(b"{")
        if found > most:
            raise ProtocolError(f"its answer has about {found:,} values, which is more than {most:,}")


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


_DECODER = json.JSONDecoder(parse_constant=str, parse_float=_number)
"""Decodes numbers that are too large for a double as strings."""


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line, or None for other output. Raises ProtocolError for a malformed answer."""
    try:
        message = _DECODER.decode(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as err:
        if looks_like_answer(line):
            shown = line[:200].decode("utf-8", "backslashreplace")
            raise ProtocolError(f"its answer is not valid JSON ({type(err).__name__}): {shown}") from err
        return None
    if isinstance(message, dict) and ("seq" in message or "protocol" in message or "error" in message):
        return message
    return None


def words(value: object, limit: int) -> str:
    """Return a string that UTF-8 can encode, cut to ``limit``. Surrogates are replaced by escapes."""
    text = str(value)[:limit]
    return (text if text.isascii() else _SURROGATE.sub(_escape, text))[:limit]


_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def parse_start(message: dict[str, Any], selector: str) -> Implementation:
    error = message.get("error")
    if error is not None:
        said = error.get("message") if isinstance(error, dict) else error
        raise ProtocolError(words(said, 2000) if isinstance(said, str) else _shown(error))
    if not _is_integer(message.get("protocol")) or message["protocol"] != PROTOCOL:
        spoken = _shown(message.get("protocol"))
        raise ProtocolError(f"it speaks protocol {spoken}, but this harness speaks {PROTOCOL}")
    identity = message.get("implementation")
    if not isinstance(identity, dict) or not isinstance(identity.get("name"), str):
        raise ProtocolError('the start answer has no "implementation" object with a "name"')
    reported = {"name": identity["name"]}
    for key in ("version", "language"):
        reported[key] = "unknown" if identity.get(key) is None else identity[key]
        if not isinstance(reported[key], str):
            raise ProtocolError(
                f'"{key}" of the implementation must be a string, got {_shown(reported[key])}'
            )
    steps, lacks = message.get("steps"), message.get("lacks")
    if not isinstance(steps, list) or not steps or any(s not in STEPS for s in steps):
        raise ProtocolError(
            f'"steps" must be a non-empty list with values from {list(STEPS)}, got {_shown(steps)}'
        )
    lacks = [] if lacks is None else lacks
    if not isinstance(lacks, list) or any(not isinstance(x, str) or len(x) > 100 for x in lacks):
        raise ProtocolError(f'"lacks" must be a list of feature names, got {_shown(lacks)}')
    return Implementation(
        name=words(reported["name"], 200),
        version=words(reported["version"], 200),
        language=words(reported["language"], 200),
        steps=tuple(s for s in STEPS if s in steps),
        lacks=frozenset(words(feature, 600) for feature in lacks),
        selector=selector,
        verdict_only=message.get("verdict_only") is True,
        loads="device" in steps,
    )


SILENT_STEPS = frozenset({"write", "resave", "sharded", "export", "hold", "release"})


def parse_run(
    message: dict[str, Any], seq: int, *, silent: bool = False, summary: bool = False
) -> StepResult:
    """Parse the answer to request ``seq``. ``silent`` steps and a ``summary`` need no tensors."""
    if not _is_integer(message.get("seq")) or message["seq"] != seq:
        # Leave out the numbers, because they are random and this message is written to records.
        raise ProtocolError(
            'the "seq" of its answer differs from that of the request; send one answer per request, in order'
        )
    outcome = message.get("outcome")
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise ProtocolError(f'"outcome" must be one of {", ".join(OUTCOMES)}, got {_shown(outcome)}')
    # Null means the same as an absent field, except for the metadata.
    reported = {name: value for name, value in message.items() if value is not None}
    for name, value in reported.items():
        kind = _FIELDS.get(name)
        if kind is not None and type(value) not in kind[0]:
            raise ProtocolError(f'"{name}" must be {kind[1]}, got {_shown(value)}')
    tensors, count = reported.get("tensors"), reported.get("tensor_count")
    if tensors is not None:
        tensors = [_tensor(row) for row in tensors]
    elif outcome == "accept" and not silent and (count is None or not summary):
        hint = "" if count is None else '; "tensor_count" is enough only for a summary'
        raise ProtocolError(f'an accepting answer needs "tensors"{hint}')
    if count is not None and not 0 <= count <= MAX_COUNT:
        raise ProtocolError(f'"tensor_count" must be from 0 to {MAX_COUNT:,}, got {_shown(count)}')
    return StepResult(
        outcome=outcome,
        message=words(reported.get("message", ""), 2000),
        tensors=tensors,
        metadata=_metadata(reported),
        has_metadata="metadata" in message or "metadata_items" in reported,
        tensor_count=count,
        exception=words(reported["exception"], 200) if "exception" in reported else None,
        documented=reported.get("documented"),
        checks=_checks(reported["checks"]) if "checks" in reported else (),
        cpu_ms=_milliseconds(reported.get("cpu_ms")),
        wall_ms=_milliseconds(reported.get("wall_ms")) or 0.0,
    )


MAX_COUNT = 1 << 53
"""Largest plausible number of tensors or milliseconds. Every JSON parser reads it exactly."""

_Kind = tuple[tuple[type, ...], str]
_TEXT: _Kind = (str,), "a string"
_NUMBER: _Kind = (int, float, str), "a number"
_LIST: _Kind = (list,), "a list"
_FIELDS: Mapping[str, _Kind] = {
    "message": _TEXT,
    "exception": _TEXT,
    "documented": ((bool,), "true or false"),
    "cpu_ms": _NUMBER,
    "wall_ms": _NUMBER,
    "tensor_count": ((int,), "an integer"),
    "tensors": _LIST,
    "metadata_items": ((list,), "a list of pairs"),
    "checks": _LIST,
}
"""Types of the fields of an answer, with their descriptions. NaN and infinities arrive as strings."""


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    try:
        return ascii(value[:100] if isinstance(value, str) else value)[:100]
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


def _milliseconds(value: float | str | None) -> float | None:
    return value if isinstance(value, (int, float)) and 0 <= value <= MAX_COUNT else None


def _tensor(row: object) -> dict[str, Any]:
    name = _text(row.get("name")) if isinstance(row, dict) else None
    if name is None or not isinstance(row, dict):
        raise ProtocolError(f'each of "tensors" must be an object with a "name": {A_TEXT}')
    reported: dict[str, Any] = {"name": name}
    for key in ("dtype", "shape", "nbytes"):
        # Odd values come from lenient readers. They are content to compare, not a protocol error.
        if (value := row.get(key)) is not None:
            reported[key] = _level(value)
    for key in ("sha256", "unsupported"):
        if (value := row.get(key)) is not None:
            if not isinstance(value, str):
                raise ProtocolError(f'"{key}" of {_shown(name)} must be a string, got {_shown(value)}')
            reported[key] = words(value, 2000)
    if isinstance(reported.get("dtype"), str):
        # Unlike a name, a dtype may be cut, because no real dtype is nearly as long.
        reported["dtype"] = words(reported["dtype"], 2000)
    return reported


MAX_LEVELS = 24
"""How many levels of nesting to keep. The hosts report at most 20."""


def _level(value: Any, level: int = 0) -> Any:
    if not isinstance(value, (dict, list)):
        return value
    if level >= MAX_LEVELS:
        return "(a map)" if isinstance(value, dict) else "(a list)"
    if isinstance(value, dict):
        return {key: _level(inner, level + 1) for key, inner in value.items()}
    return [_level(inner, level + 1) for inner in value]


A_TEXT = 'a string, or {"hex": "..."} for bytes that are not UTF-8'


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"hex"} and isinstance(value["hex"], str):
        try:
            return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
        except ValueError:
            return None
    return None


def _metadata(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the reported metadata, which may be a map or a list of pairs. Raises ProtocolError."""
    if "metadata_items" not in message:
        metadata = _level(message.get("metadata"))
        if metadata is not None and not isinstance(metadata, dict):
            # a lenient reader accepted this, and the comparison will show it
            return {"(not a map)": metadata}
        return metadata
    items = message["metadata_items"]
    if any(not isinstance(item, list) or len(item) != 2 for item in items):
        raise ProtocolError('"metadata_items" must be a list of pairs')
    found: dict[str, list[Any]] = {}
    for key, value in items:
        name, text = _text(key), _text(value)
        if name is None:
            raise ProtocolError(f'each key of "metadata_items" must be {A_TEXT}')
        found.setdefault(name, []).append(_level(value) if text is None else text)
    # If a key appears more than once, keep its values as a list, which cannot be a value in any file.
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _checks(rows: list[Any]) -> tuple[Check, ...]:
    for row in rows:
        known = isinstance(row, dict) and all(
            isinstance(row.get(key), str) and row[key] in names
            for key, names in (("name", CHECKS), ("status", STATUSES))
        )
        if not known or not isinstance(row.get("message", ""), str):
            raise ProtocolError(
                f'each of "checks" must be an object with a "name" from {", ".join(CHECKS)}, a "status" from '
                f'{", ".join(STATUSES)} and a string "message", not {_shown(row)}'
            )
    return tuple(Check(row["name"], row["status"], words(row.get("message", ""), 500)) for row in rows)
