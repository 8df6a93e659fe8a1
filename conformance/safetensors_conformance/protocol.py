"""The worker protocol: JSON lines over standard input and output (``schemas/protocol.schema.json``).

One request, one answer, in order. The expectation of a case never crosses this line. Answers are checked by
hand here because this is the hot path; the published schema says the same and the tests hold both to it.

Names of tensors and metadata may be bytes that are no UTF-8, as a reader without a check hands them on:
spelled as ``{"hex": "..."}``, or standing in the line as they are. Either way they become texts in which each
such byte is a lone surrogate (``surrogateescape``). No name of a valid file has one (HDR-01, HDR-15), so they
differ from all of these.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from safetensors_reports.promises import CHECKS, STATUSES

from .outcomes import OUTCOMES, STEPS, Check, Implementation, StepResult

PROTOCOL = 1


class ProtocolError(Exception):
    """The worker's answer breaks the protocol; the text says how and what to do."""


def start_request(profile: str | None, device: str | None = None) -> bytes:
    """Return the first request: the profile the run is graded by, and the device of the step ``device``."""
    more = {} if device is None else {"device": device}
    return _line({"cmd": "start", "protocol": PROTOCOL, "profile": profile, **more})


def run_request(seq: int, step: str, path: str, more: Mapping[str, Any] | None = None) -> bytes:
    """Return the request for one step on one file; ``more`` holds what the step needs besides."""
    return _line({"cmd": "run", "seq": seq, "step": step, "path": path, **(more or {})})


STOP_REQUEST = b'{"cmd": "stop"}\n'


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def looks_like_answer(line: bytes) -> bool:
    """True for a line that was meant as an answer, whether or not it is JSON."""
    return line.lstrip().startswith(b"{") and (b'"seq"' in line or b'"protocol"' in line)


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


_DECODER = json.JSONDecoder(parse_constant=str, parse_float=_number)


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the message of a line, None when the line is no message (something printed to stdout).

    Raises ProtocolError for an answer that is no JSON.
    """
    try:
        # Numbers that JSON does not have, and those beyond a double, are kept as texts: content to compare.
        message = _DECODER.decode(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as err:
        if looks_like_answer(line):
            shown = line[:200].decode("utf-8", "backslashreplace")
            raise ProtocolError(f"its answer is no JSON ({type(err).__name__}): {shown}") from err
        return None
    if isinstance(message, dict) and ("seq" in message or "protocol" in message or "error" in message):
        return message
    return None


def words(value: object, limit: int) -> str:
    """Return words for people as a text that UTF-8 can hold; other bytes are shown as escapes."""
    return _SURROGATE.sub(_escape, str(value))[:limit]


_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def parse_start(message: dict[str, Any], selector: str) -> Implementation:
    """Read the answer to the start request. Raises ProtocolError."""
    if "error" in message:
        error = message["error"]
        raise ProtocolError(words(error.get("message", error) if isinstance(error, dict) else error, 2000))
    if message.get("protocol") != PROTOCOL:
        raise ProtocolError(f"it speaks protocol {message.get('protocol')!r}, this harness speaks {PROTOCOL}")
    who = message.get("implementation")
    if not isinstance(who, dict) or not isinstance(who.get("name"), str):
        raise ProtocolError('the start answer has no "implementation" object with a "name"')
    steps = message.get("steps")
    if not isinstance(steps, list) or not steps or any(s not in STEPS for s in steps):
        raise ProtocolError(f'"steps" must be a non-empty list out of {list(STEPS)}, got {steps!r}')
    lacks = message.get("lacks", [])
    if not isinstance(lacks, list) or any(not isinstance(x, str) for x in lacks):
        raise ProtocolError(f'"lacks" must be a list of feature names, got {lacks!r}')
    return Implementation(
        name=words(who["name"], 200),
        version=words(who.get("version", "unknown"), 200),
        language=words(who.get("language", "unknown"), 200),
        steps=tuple(s for s in STEPS if s in steps),
        lacks=frozenset(lacks),
        selector=selector,
        verdict_only=message.get("verdict_only") is True,
        loads="device" in steps,
    )


SILENT_STEPS = frozenset({"write", "resave", "hold", "release"})
"""Steps whose answer needs no tensors."""


def parse_run(message: dict[str, Any], seq: int, *, silent: bool = False) -> StepResult:
    """Read the answer to a run request; a ``silent`` one needs no tensors. Raises ProtocolError."""
    if message.get("seq") != seq:
        raise ProtocolError(
            f"it answered seq {message.get('seq')!r} while {seq} was asked; "
            "answers must come one per request, in order"
        )
    outcome = message.get("outcome")
    if outcome not in OUTCOMES:
        raise ProtocolError(f'"outcome" must be one of {", ".join(OUTCOMES)}, got {outcome!r}')
    tensors = message.get("tensors")
    if tensors is not None:
        _check_tensors(tensors)
    elif outcome == "accept" and message.get("tensor_count") is None and not silent:
        raise ProtocolError('an accepting answer needs "tensors"')
    cpu_ms, wall_ms = message.get("cpu_ms"), message.get("wall_ms")
    return StepResult(
        outcome=outcome,
        message=words(message.get("message", ""), 2000),
        tensors=tensors,
        metadata=_metadata(message),
        has_metadata="metadata" in message or "metadata_items" in message,
        tensor_count=count if isinstance(count := message.get("tensor_count"), int) else None,
        exception=None if message.get("exception") is None else words(message["exception"], 200),
        documented=message.get("documented"),
        checks=_checks(message["checks"]) if message.get("checks") is not None else (),
        cpu_ms=cpu_ms if isinstance(cpu_ms, (int, float)) else None,
        wall_ms=wall_ms if isinstance(wall_ms, (int, float)) else 0.0,
    )


def _check_tensors(tensors: object) -> None:
    """Check the rows and put a text in place of each name that came as bytes. Raises ProtocolError."""
    if not isinstance(tensors, list):
        raise ProtocolError('"tensors" must be a list')
    for row in tensors:
        name = _text(row.get("name")) if isinstance(row, dict) else None
        if name is None:
            raise ProtocolError(f'each of "tensors" must be an object with a "name": {A_TEXT}')
        row["name"] = name
        for key in ("dtype", "unsupported"):  # no name: what is shown of it may be what is compared
            if isinstance(row.get(key), str) and not row[key].isascii():
                row[key] = words(row[key], len(row[key]) * 6)
        # Odd values of other fields come from lenient readers: they are content to compare, no breach.
        if row.get("sha256") is not None and not isinstance(row["sha256"], str):
            raise ProtocolError(f'"sha256" of {name[:40]!r} must be a string')


A_TEXT = 'a string, or {"hex": "..."} for bytes that are no UTF-8'


def _text(value: object) -> str | None:
    """Return a text that came as one or as bytes, None for what is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"hex"} and isinstance(value["hex"], str):
        try:
            return bytes.fromhex(value["hex"]).decode("utf-8", "surrogateescape")
        except ValueError:
            return None
    return None


def _metadata(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the metadata reported, as a map or as a list of pairs. Raises ProtocolError."""
    if "metadata_items" not in message:
        metadata = message.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            return {"(not a map)": metadata}  # a lenient reader let it through; the comparison tells
        return metadata
    items = message["metadata_items"]
    if not isinstance(items, list) or any(not isinstance(item, list) or len(item) != 2 for item in items):
        raise ProtocolError('"metadata_items" must be a list of pairs')
    found: dict[str, list[Any]] = {}
    for key, value in items:
        name, text = _text(key), _text(value)
        if name is None:
            raise ProtocolError(f'each key of "metadata_items" must be {A_TEXT}')
        found.setdefault(name, []).append(value if text is None else text)
    # A key that comes twice has no one value; a list is none that a file can hold.
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _checks(rows: object) -> tuple[Check, ...]:
    if not isinstance(rows, list):
        raise ProtocolError('"checks" must be a list')
    for row in rows:
        if not isinstance(row, dict) or row.get("name") not in CHECKS or row.get("status") not in STATUSES:
            raise ProtocolError(
                f'each of "checks" must be an object with a "name" out of {", ".join(CHECKS)} and a "status" '
                f"out of {', '.join(STATUSES)}, not {str(row)[:100]}"
            )
    return tuple(Check(row["name"], row["status"], words(row.get("message", ""), 500)) for row in rows)
