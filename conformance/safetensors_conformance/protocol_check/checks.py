"""Checks of a program's use of the worker protocol, with advice on what to change.

A check is a function that returns a remark or None, or raises BreachError, NoteRaised or CheckSkipped.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.content import first_difference
from safetensors_reports.text import plural

from ..implementations.selectors import Target
from ..outcome import Implementation, StepResult
from ..programs.files import Copies
from ..programs.launcher import Confinement
from ..run.multistep import run_multistep
from ..worker.protocol import PROTOCOL, STOP_REQUEST
from ..worker.worker import Limits, PipeWorker, StartError, Worker
from .conversation import MEMORY_BYTES, BreachError, Conversation, validate

GOOD, BAD, OTHER = "framing/one-tensor", "framing/no-bytes", "layout/two-dtypes"
BYTES_IN_NAME = "header/name-bytes-ff"
BATCH = 64
SAMPLES = {
    "slice": ("slice/integer-first",),
    "write": ("writer/two-tensors-and-metadata", "writer/over-its-own-source-small"),
    "index": ("index/dtypes-and-shapes",),
    "sharded": ("sharded/two-shards",),
    "lifecycle": ("lifecycle/one-tensor-first",),
    "remote": ("remote/one-tensor",),
    "concurrent": ("concurrent/threads-another-tensor-each-two",),
    "export": ("export/ordinary-names-one",),
}
"""Cases that show whether a program understands the requests for a step."""


class CheckSkipped(Exception):  # noqa: N818 - no error
    """The check does not apply."""


class NoteRaised(Exception):  # noqa: N818 - no error
    """The check passes with a remark."""


class Checker:
    """Runs the checks on one program. If the process fails a check, the next check gets a new process."""

    def __init__(
        self, target: Target, manifest: Manifest, seconds: float, folder: Path, confinement: Confinement
    ) -> None:
        self.target = target
        self.seconds = seconds
        self.folder = folder
        self.confinement = confinement
        self.implementation: Implementation | None = None
        self._manifest = manifest
        self.copies = Copies()
        self._original: dict[bytes, bytes] = {}
        self._conversation: Conversation | None = None

    def case(self, case_id: str) -> Case:
        """Return the case with its input replaced by a copy. Raises CheckSkipped if there is no such case."""
        case = self._manifest.by_id.get(case_id)
        if case is None:
            raise CheckSkipped(f"this corpus does not contain {case_id}")
        if self.copies.change(case):
            self.copies.discard(case)
        shown = self.copies.shown(case)
        if shown is not case:
            self._original[str(shown.path).encode()] = str(case.path).encode()
        return shown

    def path(self, case_id: str) -> str:
        return str(self.case(case_id).path)

    @property
    def conversation(self) -> Conversation:
        if self._conversation is None:
            self._conversation = Conversation(self.target, self.seconds, self.confinement)
            self._conversation.start()
        return self._conversation

    @contextmanager
    def fresh(self) -> Iterator[Conversation]:
        self.close()
        self._conversation = Conversation(self.target, self.seconds, self.confinement)
        yield self._conversation
        self.close()

    def close(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    @property
    def last_sent(self) -> bytes:
        """The last line sent, with the paths in the corpus, so that users can send it by hand."""
        line = (self._conversation.sent if self._conversation else None) or b""
        for copy, original in self._original.items():
            line = line.replace(copy, original)
        return line

    @property
    def step(self) -> str:
        assert self.implementation is not None
        for step in ("read", "open"):
            if step in self.implementation.steps:
                return step
        raise CheckSkipped("the program has neither the open step nor the read step")


def _require_expected(result: StepResult, case: Case) -> None:
    assert case.expect is not None
    want = case.expect.outcome
    if result.outcome != want:
        said = f": {result.message[:200]}" if result.message else ""
        raise BreachError(f"the answer to {case.id} must be {want}, but it is {result.outcome}{said}")
    if case.expect.content is not None:
        difference = first_difference(case.expect.content, result)
        if difference:
            raise BreachError(
                f"{case.id}: {difference.text}",
                do="sha256 must be the digest of the tensor's bytes as they are in the file, in lower-case "
                "hex",
            )


def starts(checker: Checker) -> str:
    with checker.fresh() as conversation:
        found = checker.implementation = conversation.start()
    return f"{found.name} {found.version} ({found.language}), steps {', '.join(found.steps)}"


def unknown_version(checker: Checker) -> str:
    with checker.fresh() as conversation:
        request = {"cmd": "start", "protocol": PROTOCOL + 1, "profile": None}
        conversation.send(json.dumps(request).encode() + b"\n")
        message, line = conversation.receive()
        if "error" in message:
            validate(message, "startError", line)
            return "it reports that it does not support this version"
        if message.get("protocol") != PROTOCOL:
            raise BreachError(
                f"the request was for protocol {PROTOCOL + 1}, but the program claims to speak "
                f"{message.get('protocol')!r}",
                do=f'do not echo the number: answer "protocol": {PROTOCOL}, which is the version that you '
                "speak",
                line=line,
            )
    return f"it answers with the version that it speaks, {PROTOCOL}"


def good_file(checker: Checker) -> str:
    assert checker.implementation is not None
    case = checker.case(GOOD)
    steps = [step for step in ("open", "read") if step in checker.implementation.steps]
    if not steps:
        raise CheckSkipped("the program has neither the open step nor the read step")
    for step in steps:
        result = checker.conversation.ask(step, str(case.path))
        _require_expected(result, case)
        rows = result.tensors or []
        if step == "read" and any("sha256" not in row and "unsupported" not in row for row in rows):
            raise NoteRaised("the answer to read has no sha256, so content will not be compared")
    return ", ".join(steps)


def bad_file(checker: Checker) -> None:
    case = checker.case(BAD)
    _require_expected(checker.conversation.ask(checker.step, str(case.path)), case)


def missing_file(checker: Checker) -> str:
    result = checker.conversation.ask(checker.step, str(checker.folder / "no-such-file.safetensors"))
    if result.outcome != "reject":
        raise BreachError(f"the answer is {result.outcome}", do="answer reject if a file cannot be opened")
    return result.message[:80]


def odd_path(checker: Checker) -> None:
    case = checker.case(GOOD)
    path = checker.folder / 'spaces "quotes" and ü 漢 🙂.safetensors'
    shutil.copyfile(case.path, path)
    try:
        _require_expected(checker.conversation.ask(checker.step, str(path)), case)
    except BreachError as err:
        do = r"decode the escape sequences in the request: \", \u00fc, and pairs such as \ud83d\ude42"
        raise BreachError(str(err), do=do, line=err.line, where=err.where) from err


def unknown_field(checker: Checker) -> None:
    case, more = checker.case(GOOD), {"later": {"than": [1, None]}}
    _require_expected(checker.conversation.ask(checker.step, str(case.path), more), case)


def unknown_step(checker: Checker) -> None:
    result = checker.conversation.ask("no-such-step", checker.path(GOOD))
    if result.outcome in ("accept", "crash", "hang", "exhausted"):
        raise BreachError(
            f"the answer is {result.outcome}", do="answer unsupported to every step that you do not know"
        )
    if result.outcome != "unsupported":
        raise NoteRaised(f"answered {result.outcome}; unsupported would be better")


def summary(checker: Checker) -> None:
    result = checker.conversation.ask(checker.step, checker.path(OTHER), {"summary": True})
    wanted = len((checker.case(OTHER).expect.content or {})["tensors"])  # type: ignore[union-attr]
    if checker.implementation is not None and checker.implementation.verdict_only:
        raise CheckSkipped("it reports only whether a file is valid")
    if result.tensor_count is None:
        raise NoteRaised(
            "the answer has tensors instead of tensor_count: answers become long for files with a million "
            "tensors"
        )
    if result.tensor_count != wanted:
        raise BreachError(f"tensor_count is {result.tensor_count}, but the file has {wanted} tensors")


def bytes_in_names(checker: Checker) -> str:
    case = checker.case(BYTES_IN_NAME)
    with checker.fresh() as conversation:
        conversation.start()
        conversation.ask(checker.step, checker.path(BAD))
        result = conversation.ask(checker.step, str(case.path))
        unclean = [*conversation.unclean]
    do = 'write such a name as {"hex": "..."}, and escape such bytes in messages'
    if unclean:
        raise NoteRaised(
            f"an answer contains bytes that are not UTF-8, which the harness accepts: {unclean[0][:120]!r}; "
            f"{do}"
        )
    if result.outcome != "accept" or not result.tensors:
        return f"{result.outcome} for a file with such a name"
    names = [row["name"] for row in result.tensors]
    if not any("\udc80" <= char <= "\udcff" for name in names for char in name):
        raise NoteRaised(
            f"it accepts a name that is not UTF-8 and reports {names[0][:40]!r} in its place; {do}"
        )
    return ""


def in_pieces(checker: Checker) -> None:
    case = checker.case(GOOD)
    line = checker.conversation.request(checker.step, str(case.path))
    checker.conversation.send(line[:17])
    checker.conversation.silent_for(0.1)
    checker.conversation.send(line[17:])
    _require_expected(checker.conversation.answer(), case)


def batch(checker: Checker) -> str:
    cases = [checker.case((GOOD, BAD, OTHER)[i % 3]) for i in range(BATCH)]
    step = checker.step
    checker.conversation.send(b"".join(checker.conversation.request(step, str(case.path)) for case in cases))
    for case in cases:
        _require_expected(checker.conversation.answer(), case)
    checker.conversation.silent_for(0.2)
    return f"{BATCH} requests"


def sample(step: str) -> Callable[[Checker], str | None]:
    def body(checker: Checker) -> str:
        assert checker.implementation is not None
        if step not in checker.implementation.steps:
            raise CheckSkipped("not announced")
        for case_id in SAMPLES[step]:
            case = checker.case(case_id)
            result = run_multistep(cast(Worker, checker.conversation), case)
            if checker.conversation.breach is not None:
                raise checker.conversation.breach
            if result.outcome == "unsupported":
                raise NoteRaised(f"{case_id}: unsupported; {result.message[:150]}")
            _require_expected(result, case)
            if result.flaws:
                raise BreachError(f"{case_id}: {result.flaws[0].text}")
        return ", ".join(SAMPLES[step])

    return body


def only_answers(checker: Checker) -> None:
    with checker.fresh() as conversation:
        conversation.start()
        for case_id in (GOOD, BAD, GOOD):
            conversation.ask(checker.step, checker.path(case_id))
        noise = [*conversation.noise]
    if noise:
        first = noise[0].decode("utf-8", "backslashreplace")[:80]
        raise NoteRaised(
            f"ignored {plural(len(noise), 'line')} that the protocol does not allow, beginning with {first!r}"
        )


def stops(checker: Checker) -> None:
    with checker.fresh() as conversation:
        conversation.start()
        conversation.send(STOP_REQUEST)
        status = conversation.ends("the stop request")
    if status != 0:
        raise NoteRaised(f"the program exits with status {status}; 0 would mean success")


def ends_at_end(checker: Checker) -> None:
    with checker.fresh() as conversation:
        conversation.start()
        conversation.close_input()
        conversation.ends("the end of standard input")


def survives_a_run(checker: Checker) -> None:
    worker = PipeWorker(checker.target, Limits(checker.seconds, MEMORY_BYTES, checker.confinement))
    try:
        worker.start()
        for case_id in (BAD, GOOD):
            _require_expected(worker.ask(checker.step, checker.path(case_id)), checker.case(case_id))
    except StartError as err:
        raise BreachError(str(err)) from err
    finally:
        worker.close()


@dataclass(frozen=True)
class Check:
    """The result of one check. ``do`` is the remedy, and ``where`` is the violated part of the schema."""

    id: str
    title: str
    status: Literal["pass", "fail", "note", "skip"]
    detail: str = ""
    do: str = ""
    sent: str = ""
    line: str = ""
    where: str = ""


CHECKS: tuple[tuple[str, str, Callable[[Checker], str | None]], ...] = (
    ("start", "answers the start request", starts),
    ("version", "knows which version it speaks", unknown_version),
    ("valid", "accepts a valid file and reports its content", good_file),
    ("broken", "rejects a broken file", bad_file),
    ("missing", "rejects a missing file", missing_file),
    ("path", "finds a path that contains JSON escapes", odd_path),
    ("field", "ignores unknown request fields", unknown_field),
    ("step", "answers unknown steps", unknown_step),
    ("summary", "counts tensors if only the count is requested", summary),
    ("bytes", "reports names that are not UTF-8 as bytes", bytes_in_names),
    ("pieces", "waits for the end of a request", in_pieces),
    ("batch", "answers requests that arrive together, one by one and in order", batch),
    *((step, f"understands requests for the step {step}", sample(step)) for step in SAMPLES),
    ("noise", "prints only answers", only_answers),
    ("stop", "exits after the stop request", stops),
    ("end", "exits at the end of its standard input", ends_at_end),
    ("run", "works with the worker that runs use", survives_a_run),
)
NEED_VALID = frozenset({"path", "field", "summary", "pieces", "batch", "run"})
"""Checks that a program cannot pass if it fails the check ``valid``."""


def check_protocol(
    target: Target, manifest: Manifest, seconds: float = 10.0, confinement: Confinement | None = None
) -> Iterator[Check]:
    """Yield the results of all checks, or only the first if the program does not start. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="safetensors-check-") as folder:
        checker = Checker(target, manifest, seconds, Path(folder), confinement or Confinement())
        hopeless = False
        try:
            for name, title, body in CHECKS:
                if name in NEED_VALID and hopeless:
                    check = Check(name, title, "skip", 'the check "valid" failed')
                else:
                    check = _run_check(checker, name, title, body)
                hopeless |= name == "valid" and check.status == "fail"
                yield check
                if name == "start" and check.status != "pass":
                    return
        finally:
            checker.close()
            checker.copies.close()


def _run_check(checker: Checker, name: str, title: str, body: Callable[[Checker], str | None]) -> Check:
    try:
        return Check(name, title, "pass", body(checker) or "")
    except CheckSkipped as why:
        return Check(name, title, "skip", str(why))
    except NoteRaised as note:
        return Check(name, title, "note", str(note))
    except BreachError as err:
        sent = checker.last_sent
        checker.close()
        return Check(name, title, "fail", str(err), err.do, _shown(sent), _shown(err.line or b""), err.where)


def _shown(line: bytes) -> str:
    last = line.strip().splitlines()[-1] if line.strip() else b""
    text = last.decode("utf-8", "backslashreplace")
    return text if len(text) <= 600 else f"{text[:400]} … ({len(text) - 500:,} more) … {text[-100:]}"
