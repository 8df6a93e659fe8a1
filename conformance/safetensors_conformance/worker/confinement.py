"""Confine tested programs to the listed environment variables and, on request, to a sandbox."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from ..implementations.selectors import Target
from ..programs.container import READ_ONLY_STEPS, ContainerChild
from ..programs.launcher import Template, checked_names, child_variables
from ..programs.process import Child
from ..programs.sandbox import (
    Sandbox,
    SandboxedChild,
    SandboxError,
    as_given_and_resolved,
    ensure_run_folder,
    own_folder,
    paths_named_by,
    too_wide,
)

SEARCH_PATHS = ("PYTHONPATH", "NODE_PATH", "CLASSPATH", "LD_LIBRARY_PATH", "JAVA_HOME", "DOTNET_ROOT")
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Confinement:
    """What a tested program can access: its environment variables, its sandbox, and extra input files."""

    env: tuple[str, ...] = ()
    sandbox: Sandbox | None = None
    shown: tuple[Path, ...] = ()

    @classmethod
    def of(cls, env: Sequence[str], *, sandbox: bool, net: bool) -> Self:
        try:
            names = checked_names(env)
        except ValueError as err:
            raise ValueError(f"--env {err}") from err
        if net and not sandbox:
            raise ValueError("--sandbox-net applies only to a sandbox; give --sandbox, too")
        return cls(names, Sandbox(ensure_run_folder(), net) if sandbox else None)

    def with_shown(self, *paths: Path) -> Self:
        return replace(self, shown=(*self.shown, *paths))

    def reachable(self, steps: Iterable[str], target: Target | None = None) -> tuple[str, ...]:
        """Return the steps that work here. Servers need network access, and containers cannot write."""
        if target is not None and target.kind == "oci":
            return tuple(step for step in steps if step in READ_ONLY_STEPS)
        alone = self.sandbox is not None and not self.sandbox.net
        return tuple(step for step in steps if step != "remote" or not alone)

    def template(self, argv: Sequence[str], target: Target) -> Template | None:
        """Return a template, or None if forks are unreliable or impossible. Raises OSError."""
        forks = target.kind == "host" and target.descriptor is not None and target.descriptor.forks
        if not forks or self.sandbox is not None or sys.platform != "linux":
            return None
        return Template(argv, child_variables(self.env))

    def start(
        self, argv: Sequence[str], target: Target, memory_bytes: int, template: Template | None = None
    ) -> Child:
        variables = child_variables(self.env)
        if target.kind == "oci":
            if self.sandbox is not None:
                raise SandboxError("a container is already a sandbox: leave out --sandbox")
            return ContainerChild(argv, memory_bytes, variables, (own_folder(), *self.shown), self.env)
        if self.sandbox is None:
            return Child(argv, memory_bytes, variables, template)
        here = Path.cwd()
        shown = [path for given in self.shown for path in as_given_and_resolved(given)]
        shown += _shown_to(argv, target, variables, here)
        return SandboxedChild(self.sandbox.command_line(argv, shown, here), memory_bytes, variables)


def _shown_to(
    argv: Sequence[str], target: Target, variables: Mapping[str, str], here: Path
) -> Iterator[Path]:
    if target.user_provided:
        if too_wide(here):
            raise SandboxError(
                f"--sandbox gives a program access to the current folder, but {here} contains your home "
                "folder or other users' temporary files; change to the folder of the program"
            )
        yield from as_given_and_resolved(here)
    folders = [_PACKAGE]
    if target.environment is not None:
        folders.append(target.environment.folder)
    if target.kind == "host":
        folders += map(Path, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
        if target.environment is None:
            folders += [Path(entry) for entry in sys.path if entry]
    for name in SEARCH_PATHS:
        folders += [Path(entry) for entry in variables.get(name, "").split(os.pathsep) if entry]
    for folder in folders:
        if folder.exists() and not too_wide(folder):
            yield from as_given_and_resolved(folder)
    yield from paths_named_by(argv)
