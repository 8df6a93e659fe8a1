"""Steps of an implementation and kinds of case: the table from which everything else reads them.

A step is one thing that an implementation is asked to do; a kind of case is what is done with the input of a
case, and says which steps that takes. The manifest, the builders, the harness and the reports go by these
two tables. JSON schemas and adapters in other environments cannot import them and are held against them by
tests.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One thing that an implementation can be asked to do.

    Attributes:
        name: word in the manifest, in the protocol and in run records.
        method: method of an adapter that does it.
        looks_at: words for what it looks at.
        not_asked: words for why the cases of the kind of this name were not asked, one of ``ONE_STEP_KINDS``.
    """

    name: str
    method: str
    looks_at: str
    not_asked: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of case.

    Attributes:
        name: word in the manifest.
        steps: steps that its cases are run with when they do not say.
        acts: True when a case says in an action what is done beyond opening and reading its input.
    """

    name: str
    steps: tuple[str, ...]
    acts: bool = False


STEPS = {
    step.name: step
    for step in (
        Step("open", "open", "header only"),
        Step("read", "read", "with the data"),
        Step("slice", "slice", "parts of tensors", "requests for parts of tensors: it takes none"),
        Step("write", "write", "written files", "writer's calls: it writes no files"),
        Step("index", "index", "sharded models", "sharded models: it reads no index"),
        Step("sharded", "save_sharded", "saved shards", "saves in shards: it divides no model"),
        Step(
            "lifecycle",
            "hold",
            "files that change",
            "files that change while open: its adapter has no such step",
        ),
        Step(
            "remote",
            "remote",
            "files behind a server",
            "files behind an HTTP server: its adapter has no such step, or its sandbox no network",
        ),
        Step(
            "concurrent",
            "share",
            "readers at the same time",
            "several readers of one file at the same time: its adapter has no such step",
        ),
        Step("device", "device", "tensors on a device"),
    )
}
"""Step by name, in the order in which an implementation is asked: validate and list, hand out every tensor,
hand out a part of one, write a file, load through an index, save in shards, hold a file open
while somebody else changes it, ask a server for a file by ranges, read in several threads or processes at the
same time, and load onto a device, when one is asked for."""

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
        Kind("resource", ("open",)),
    )
}
"""Kind of case by name."""

CASE_STEPS = tuple(name for name in STEPS if any(name in kind.steps for kind in KINDS.values()))
"""Steps that cases are run with; the others take a file of the corpus and ask for something beside it."""
ONE_STEP_KINDS = tuple(kind.name for kind in KINDS.values() if kind.steps == (kind.name,))
"""Kinds whose cases take one step, which has the name of the kind."""
