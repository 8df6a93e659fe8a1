"""Share of the machine that a tested program gets: listed variables, and where it is asked for a sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from safetensors_reference.variables import checked_names, child_variables

from .process import Child
from .sandbox import Sandbox, SandboxedChild, begin

if TYPE_CHECKING:
    from ..implementations.selectors import Target


@dataclass(frozen=True)
class Confinement:
    """The share of the machine that a tested program gets.

    Attributes:
        env: names of variables that it gets beside those that every program gets.
        sandbox: the sandbox around it, None for none.
    """

    env: tuple[str, ...] = ()
    sandbox: Sandbox | None = None

    @classmethod
    def of(cls, env: Sequence[str], *, sandbox: bool, net: bool) -> Self:
        """Return what the options say. Raises ValueError and SandboxError, with the option in the text."""
        try:
            names = checked_names(env)
        except ValueError as err:
            raise ValueError(f"--env {err}") from err
        if net and not sandbox:
            raise ValueError("--sandbox-net says what a sandbox has; give --sandbox with it")
        return cls(names, Sandbox(begin(), net) if sandbox else None)

    def showing(self, *paths: Path) -> Self:
        """Return the same with files and folders that programs are asked about."""
        if self.sandbox is None:
            return self
        return replace(self, sandbox=replace(self.sandbox, shown=(*self.sandbox.shown, *paths)))

    def start(self, argv: Sequence[str], target: Target, memory_bytes: int) -> Child:
        """Start a process of a tested program. Raises OSError."""
        variables = child_variables(self.env)
        if self.sandbox is None:
            return Child(argv, memory_bytes, variables)
        return SandboxedChild(self.sandbox.around(argv, target, variables), memory_bytes, variables)
