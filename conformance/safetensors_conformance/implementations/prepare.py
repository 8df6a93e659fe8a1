"""Making sure that the environment of a target is there before it is started, with progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from .environment import Environment, make

if TYPE_CHECKING:
    from .selectors import Target


def prepare(target: Target) -> None:
    """Make the environment of a target if it has one that is not complete, else see that it is the user's.

    Raises InstallError.
    """
    env = target.environment
    if env is None:
        return
    if env.ready:
        make(env)
    else:
        make_shown(env)


def make_shown(env: Environment) -> None:
    """Make an environment and show what the installer is at. Raises InstallError."""
    console = Console(stderr=True)
    title = f"installing {env.descriptor.name} {env.version}"
    if not console.is_terminal:
        console.print(f"{title} into {env.folder}", highlight=False, soft_wrap=True)
        make(env)
        return
    with console.status(title) as status:
        make(env, lambda line: status.update(f"{title}: {line[:100]}"))
