"""What a tested program gets of the machine: the variables that it is given."""

from __future__ import annotations

from dataclasses import dataclass

from safetensors_reference.variables import child_variables


@dataclass(frozen=True)
class Confinement:
    """What a tested program gets of the machine.

    Attributes:
        env: names of variables that it gets beside those that every program gets.
    """

    env: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """Return the variables that the program gets."""
        return child_variables(self.env)
