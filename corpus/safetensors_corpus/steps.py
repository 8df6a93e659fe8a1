"""The steps of an implementation and the kinds of case.

The manifest, the builders, the harness and the reports use these two tables. JSON schemas, and adapters that
run in other environments, cannot import the tables and contain copies of them. Tests compare these copies
with the tables.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """An operation of an implementation.

    ``looks_at`` describes what it reads or writes, and ``not_asked`` is the reason that a run omits its
    cases.
    """

    name: str
    method: str
    looks_at: str
    not_asked: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of case with its default steps; ``acts`` is true if its cases have an action."""

    name: str
    steps: tuple[str, ...]
    acts: bool = False


STEPS = {
    step.name: step
    for step in (
        Step("open", "open", "header only"),
        Step("read", "read", "header and data"),
        Step("slice", "slice", "parts of tensors", "requests for parts of tensors: it does not accept any"),
        Step("write", "write", "written files", "calls of a writer: it does not write files"),
        Step("index", "index", "sharded models", "sharded models: it does not read an index"),
        Step("sharded", "save_sharded", "saved shards", "saves in shards: it does not split models"),
        Step(
            "lifecycle",
            "hold",
            "files that change",
            "files that change while they are open: its adapter has no such step",
        ),
        Step(
            "remote",
            "remote",
            "files on a server",
            "files on an HTTP server: its adapter has no such step, or its sandbox has no network",
        ),
        Step(
            "concurrent",
            "share",
            "simultaneous readers",
            "several readers of one file at the same time: its adapter has no such step",
        ),
        Step(
            "export",
            "export",
            "exported tensors",
            "exports of tensors to files: it does not export them",
        ),
        Step("device", "device", "tensors on a device"),
    )
}
"""Maps names to steps, in the order in which the steps run."""

KINDS = {
    kind.name: kind
    for kind in (
        Kind("read", ("open", "read")),
        Kind("slice", ("slice",), acts=True),
        Kind("write", ("write",), acts=True),
        Kind("index", ("index",)),
        Kind("sharded", ("sharded",), acts=True),
        Kind("lifecycle", ("lifecycle",), acts=True),
        Kind("remote", ("remote",), acts=True),
        Kind("concurrent", ("concurrent",), acts=True),
        Kind("export", ("export",), acts=True),
        Kind("resource", ("open",)),
        Kind("placed", ("open", "read"), acts=True),
        Kind("repeated", ("read",), acts=True),
        Kind("contended", ("write",), acts=True),
    )
}
"""Maps names to kinds of case."""

CASE_STEPS = tuple(name for name in STEPS if any(name in kind.steps for kind in KINDS.values()))
"""Steps for which cases are written. Other steps use the file of a case for other purposes."""
ONE_STEP_KINDS = tuple(kind.name for kind in KINDS.values() if kind.steps == (kind.name,))
"""Kinds with a single step that has the same name."""
