"""Two questions for the reference alone: what its proving path proves, and what ``stc check`` says."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from safetensors_conformance.worker.outcome import StepResult
from safetensors_reference.check.inputs import CheckInput
from safetensors_reference.check.result import check_input
from safetensors_reference.check.sarif import SarifLog
from safetensors_reference.header.prove import prove_fast

from .expectation import content, quick_header
from .subjects import Subject

INNER = ("prove", "check")
"""Steps that need no implementation."""
SARIF_EVERY = 16
"""One input in so many gets a SARIF log, which holds all rules and takes ten times as long as the rest."""


class _Inner(Subject):
    """What the two have in common: they are the reference, in this process."""

    plain = "reference"
    version = version("safetensors-conformance")


class ProveSubject(_Inner):
    """The proving path: what it proves must be what the explaining path finds; all else is no claim."""

    name = "reference (proving path)"
    steps = ("prove",)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        """Prove the header, in both ways."""
        header = quick_header(data)
        size = int.from_bytes(data[:8], "little")
        fast = prove_fast(data[8 : 8 + size], len(data) - 8 - size) if 0 < size <= len(data) - 8 else None
        if header is not None and fast is not None and dict(fast.tensors) != dict(header.tensors):
            return StepResult("crash", "the two proving paths contradict each other")
        proved = header if fast is None else fast  # each may prove what the other leaves open
        if proved is None:
            return StepResult("unsupported", "not proved")
        return StepResult("accept", **content(data, proved), has_metadata=True)


class CheckSubject(_Inner):
    """``stc check``: its verdict, and that its three outputs can be made."""

    name = "reference (stc check)"
    steps = ("check",)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        """Check the file and write the result as JSON and as SARIF."""
        try:
            result = check_input(CheckInput(path), "hardened")
            result.to_json()
            if len(data) % SARIF_EVERY == 0:
                log = SarifLog("hardened")
                log.add(result)
                log.to_text(0)
        except Exception as err:  # whatever it is, a user would have seen it
            return StepResult("crash", f"{type(err).__name__}: {err}")
        if result.status == "unreadable":
            return StepResult("harness-error", f"{Path(path).name} cannot be read")
        return StepResult("accept" if result.status == "valid" else "reject")
