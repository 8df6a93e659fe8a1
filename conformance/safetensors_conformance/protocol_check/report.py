"""Report on how a program speaks the worker protocol: small checks, each with the line that is wrong.

A run takes a program as it comes: what breaks the protocol there is a harness-error among many results. Here
the program is led through one conversation after another, and told what to change.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from safetensors_corpus import Manifest

from ..implementations.selectors import Target
from ..worker.confinement import Confinement
from . import checks
from .checks import Checker, Noted, Skipped
from .conversation import BreachError


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        id: short name of the check.
        title: what the program must do.
        status: ``pass``, ``fail``, ``note`` (works, but could be better) or ``skip`` (does not apply).
        detail: what was seen.
        do: what to do about it.
        sent: the last line that was sent before it failed.
        line: the line that is wrong.
        where: place in ``protocol.schema.json`` that the line breaks.
    """

    id: str
    title: str
    status: Literal["pass", "fail", "note", "skip"]
    detail: str = ""
    do: str = ""
    sent: str = ""
    line: str = ""
    where: str = ""


CHECKS: tuple[tuple[str, str, Callable[[Checker], str]], ...] = (
    ("start", "answers the start request", checks.starts),
    ("version", "knows which version it speaks", checks.other_version),
    ("valid", "accepts a valid file and reports what it holds", checks.good_file),
    ("broken", "refuses a broken file", checks.bad_file),
    ("missing", "refuses a file that is not there", checks.missing_file),
    ("path", "finds a path with escapes in JSON", checks.odd_path),
    ("field", "ignores request fields that it does not know", checks.unknown_field),
    ("step", "answers a step that it does not know", checks.unknown_step),
    ("summary", "counts tensors when the count alone is asked", checks.summary),
    ("bytes", "says names that are no UTF-8 as bytes", checks.bytes_in_names),
    ("pieces", "waits for the end of a request", checks.in_pieces),
    ("batch", "answers requests sent at once, one by one, in order", checks.batch),
    *((step, f"understands the requests of {step}", checks.sample(step)) for step in checks.SAMPLES),
    ("noise", "prints nothing but answers", checks.only_answers),
    ("stop", "ends when told to stop", checks.stops),
    ("end", "ends with its standard input", checks.ends_at_end),
    ("run", "gets along with the worker of a run", checks.survives_a_run),
)
NEED_VALID = frozenset({"path", "field", "summary", "pieces", "batch", "run"})
"""Checks that a program cannot pass when it fails the check ``valid``."""


def check_protocol(
    target: Target,
    manifest: Manifest,
    seconds: float = 10.0,
    confinement: Confinement | None = None,
) -> Iterator[Check]:
    """Yield the results of all checks in order; those behind a start that fails are left out.

    Raises OSError when the program cannot be executed at all.
    """
    with tempfile.TemporaryDirectory(prefix="safetensors-check-") as folder:
        checker = Checker(target, manifest, seconds, Path(folder), confinement or Confinement())
        hopeless = False
        try:
            for name, title, body in CHECKS:
                if name in NEED_VALID and hopeless:
                    check = Check(name, title, "skip", "the check valid fails")
                else:
                    check = _carry_out(checker, name, title, body)
                hopeless |= name == "valid" and check.status == "fail"
                yield check
                if name == "start" and check.status != "pass":
                    return
        finally:
            checker.end()


def _carry_out(checker: Checker, name: str, title: str, body: Callable[[Checker], str]) -> Check:
    """Carry out one check; whatever happens becomes its result."""
    try:
        return Check(name, title, "pass", body(checker))
    except Skipped as why:
        return Check(name, title, "skip", str(why))
    except Noted as note:
        return Check(name, title, "note", str(note))
    except BreachError as err:
        sent = checker.last_sent
        checker.close()
        return Check(name, title, "fail", str(err), err.do, _shown(sent), _shown(err.line or b""), err.where)


def _shown(line: bytes) -> str:
    last = line.strip().splitlines()[-1] if line.strip() else b""
    text = last.decode("utf-8", "backslashreplace")
    return text if len(text) <= 600 else f"{text[:400]} … ({len(text) - 500:,} more) … {text[-100:]}"
