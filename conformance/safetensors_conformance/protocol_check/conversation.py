"""Conversations with a program, line by line. Every answer is checked against the protocol schema."""

from __future__ import annotations

import functools
import json
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match

from safetensors_reference.rules.errors import PortableError

from ..implementations.selectors import Target
from ..outcome import Implementation, StepResult
from ..programs.launcher import Confinement
from ..programs.limited_process import Deadline, DiedError, EndlessLineError, MemoryLimitError, TimeLimitError
from ..worker import protocol

SCHEMA = Path(__file__).parents[1] / "schemas" / "protocol.schema.json"
MEMORY_BYTES = 4 << 30
END_SECONDS = 2.0
NOISE_LINES = 1000
"""Maximum number of lines other than answers. More lines count as endless output."""
FLUSH = (
    "did you flush standard output? A pipe is not flushed at the end of a line, so flush after every "
    "answer (fflush, System.out.flush, sys.stdout.flush)"
)


class BreachError(PortableError):
    """The program violates the protocol. ``do`` is the remedy; ``where`` is the violated schema part."""

    def __init__(self, message: str, *, do: str = "", line: bytes | None = None, where: str = "") -> None:
        super().__init__(message)
        self.do = do
        self.line = line
        self.where = where


@functools.cache
def _validator(definition: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA.read_bytes())
    return jsonschema.Draft202012Validator({**schema["$defs"][definition], "$defs": schema["$defs"]})


def validate(message: Any, definition: str, line: bytes | None = None) -> None:
    """Validate a message against a definition in the schema. Raises BreachError with the schema path."""
    error = best_match(_validator(definition).iter_errors(message))
    if error is None:
        return
    where = "/".join(("$defs", definition, *(str(part) for part in error.absolute_schema_path)))
    at = "" if error.json_path == "$" else f" at {error.json_path}"
    raise BreachError(f"{error.message[:300]}{at}", line=line, where=where)


def decode(line: bytes) -> dict[str, Any] | None:
    """Return the answer in a line, or None if there is none. Raises BreachError for invalid JSON."""
    try:
        protocol.check_values(line)
        message = json.loads(line.decode("utf-8", "surrogateescape"), parse_constant=_no_constant)
    except protocol.ProtocolError as err:
        raise BreachError(str(err), line=line) from None
    except RecursionError:
        raise BreachError("the answer is nested too deeply", line=line) from None
    except ValueError as err:
        if protocol.looks_like_answer(line):
            raise BreachError(f"the answer is not valid JSON: {err}", line=line) from None
        return None
    known = isinstance(message, dict) and ("seq" in message or "protocol" in message or "error" in message)
    return message if known else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


class Conversation:
    """A conversation with one process.

    ``noise`` contains lines that are not answers. ``unclean`` contains answers that are not UTF-8.
    """

    def __init__(self, target: Target, seconds: float, confinement: Confinement) -> None:
        self._child = target.start(target.command(MEMORY_BYTES), MEMORY_BYTES, confinement)
        self._target = target
        self.seconds = seconds
        self.sent: bytes | None = None
        self.noise: list[bytes] = []
        self.unclean: list[bytes] = []
        self.implementation: Implementation | None = None
        self.breach: BreachError | None = None
        self._seq = 0
        self._asked: deque[tuple[int, bool, bool]] = deque()

    def send(self, lines: bytes) -> None:
        self.sent = lines
        try:
            self._child.write(lines, Deadline(self.seconds))
        except DiedError as err:
            raise self._ended(err) from err
        except (TimeLimitError, MemoryLimitError) as err:
            raise BreachError(f"the program has not read its standard input for {self.seconds:g} s") from err

    def receive(self) -> tuple[dict[str, Any], bytes]:
        deadline = Deadline(self.seconds)
        while True:
            line = self._line(deadline)
            message = decode(line)
            if message is not None:
                if line.decode("utf-8", "replace").encode() != line:
                    self.unclean.append(line)
                return message, line
            self._keep_noise(line)

    def _line(self, deadline: Deadline) -> bytes:
        try:
            return self._child.read_line(deadline)
        except TimeLimitError:
            rest = self._child.partial_line
            if rest:
                hint = "end each answer with a newline, and flush"
                text = f"the line did not end within {self.seconds:g} s"
                raise BreachError(text, do=hint, line=rest) from None
            raise BreachError(f"no answer within {self.seconds:g} s", do=FLUSH) from None
        except DiedError as err:
            raise self._ended(err) from err
        except MemoryLimitError:
            raise BreachError(f"the program used more than {MEMORY_BYTES >> 30} GiB of memory") from None
        except EndlessLineError:
            raise BreachError("the program wrote a line without a line feed at the end") from None

    def _keep_noise(self, line: bytes) -> None:
        self.noise.append(line)
        if len(self.noise) > NOISE_LINES:
            raise BreachError("the program prints endlessly", do="print to standard error instead", line=line)

    def silent_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._child.has_output(max(until - time.monotonic(), 0)):
            line = self._line(Deadline(self.seconds))
            if decode(line) is not None:
                raise BreachError(
                    "the program answered without a request", do="send one answer per request", line=line
                )
            self._keep_noise(line)

    def _ended(self, err: DiedError) -> BreachError:
        said = self._child.drain_stderr().strip().splitlines()
        words = f"; last words: {said[-1][:200]}" if said else ""
        rest = self._child.partial_line
        return BreachError(f"it {err}{words}", line=rest or None)

    def start(self) -> Implementation:
        self.send(protocol.start_request(None))
        message, line = self.receive()
        if "error" in message:
            validate(message, "startError", line)
            raise BreachError(f"the program cannot start: {message['error']['message'][:300]}", line=line)
        version = message.get("protocol")
        if version != protocol.PROTOCOL:
            raise BreachError(
                f"the program speaks protocol {json.dumps(version)}, but this harness speaks "
                f"{protocol.PROTOCOL}",
                do=f'answer "protocol": {protocol.PROTOCOL} if the program speaks that version, otherwise '
                'an error: {"error": {"message": "speaks protocol 2 only"}}',
                line=line,
                where="$defs/startAnswer/properties/protocol/const",
            )
        validate(message, "startAnswer", line)
        self.implementation = protocol.parse_start(message, self._target.selector)
        return self.implementation

    def request(self, step: str, path: str, more: Mapping[str, Any] | None = None) -> bytes:
        """Return the next request as a line. ``answer`` returns the answers in order."""
        self._seq += 1
        known = self.implementation
        silent = step in protocol.SILENT_STEPS or (known is not None and known.verdict_only)
        self._asked.append((self._seq, silent, bool(more and more.get("summary"))))
        return protocol.run_request(self._seq, step, path, more)

    def answer(self) -> StepResult:
        seq, silent, summary = self._asked.popleft()
        message, line = self.receive()
        validate(message, "runAnswer", line)
        try:
            return protocol.parse_run(message, seq, silent=silent, summary=summary)
        except protocol.ProtocolError as err:
            raise BreachError(str(err), line=line) from err

    def ask(self, step: str, path: str, more: Mapping[str, Any] | None = None, **_: object) -> StepResult:
        """Send one request and collect its answer, as a worker does. Raises BreachError."""
        try:
            self.send(self.request(step, path, more))
            return self.answer()
        except BreachError as err:
            self.breach = err
            raise

    def ends(self, how: str) -> int | None:
        """Wait until the process has exited after the event ``how``. Raises BreachError if it does not."""
        deadline = time.monotonic() + END_SECONDS
        while self._child.alive and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._child.alive:
            raise BreachError(
                f"the program is still running {END_SECONDS:g} s after {how}", do="leave the loop and exit"
            )
        return self._child.reap()

    def close_input(self) -> None:
        self._child.close_input()

    def close(self) -> None:
        self._child.wait_closed(0)
