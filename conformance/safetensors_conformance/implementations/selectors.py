"""Selectors of ``--impl``: a built-in, a Python adapter, a program that speaks the protocol, an exit status.

=========================  ==========================================================================
``reference``              an implementation that this project knows; ``stc impl list`` shows them
``mlx:entry``              another way of calling it
``mlx==0.31.1``            a version of it, in an environment of its own
``py:package.module:obj``  a Python adapter; a path to a ``.py`` file works in place of the module
``cmd:program args``       any program that speaks the worker protocol over standard input and output
``exit:program {path}``    any program that exits 0 to accept and 1 to refuse; verdicts only
=========================  ==========================================================================
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from safetensors_corpus import sharing
from safetensors_corpus.cli.common import did_you_mean

from .descriptor import HERE, Descriptor, Entry, descriptors
from .environment import Environment, environment

MAX_SLUG = 80
_HOSTS = Path(__file__).parents[1] / "host"


class SelectorError(Exception):
    """``--impl`` names nothing that can be run; the text says what would work."""


@dataclass(frozen=True)
class Target:
    """A resolved selector.

    Attributes:
        selector: the text given to ``--impl``.
        kind: how the worker is driven: ``host`` (our Python host), ``node`` (our JavaScript host), ``cmd``
            or ``exit``.
        argv: command line; for ``exit`` with ``{path}`` in it.
        hint: what to do when it does not start.
        descriptor: what is known about the implementation, None for one given by the user.
        entry: the way of calling it.
        environment: the environment of its own that it runs in, None for the current interpreter.
    """

    selector: str
    kind: Literal["host", "node", "cmd", "exit"]
    argv: tuple[str, ...]
    hint: str = ""
    descriptor: Descriptor | None = None
    entry: Entry | None = None
    environment: Environment | None = None

    def command(self, memory_bytes: int) -> list[str]:
        """Return the command line with what our hosts are told: the memory that they allow, 0 for any."""
        told = {"host": (str(memory_bytes), sharing.__file__), "node": (str(memory_bytes),)}
        return [*self.argv, *told.get(self.kind, ())]

    @property
    def slug(self) -> str:
        """The selector as a file name, of at most ``MAX_SLUG`` characters."""
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", self.selector).strip("-") or "implementation"
        return slug if len(slug) <= MAX_SLUG else f"{slug[: MAX_SLUG - 9]}-{self.mark}"

    @property
    def mark(self) -> str:
        """Eight characters that tell it from others of the same ``slug``."""
        return hashlib.sha256(self.selector.encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def plain(self, says: str = "") -> str:
        """Return what people call it: name and entry of a known one, never with its version.

        Args:
            says: what another one calls itself; without that its name is the whole selector.
        """
        if self.descriptor is not None and self.entry is not None:
            return self.descriptor.selector(self.entry)
        return says or self.selector


def resolve(selector: str, *, however_old: bool = False) -> Target:
    """Turn a selector into something that can be started. Raises SelectorError.

    Args:
        selector: what ``--impl`` names.
        however_old: True for a target that is not to be run, so that no adapter has to fit its version.
    """
    scheme, _, rest = selector.partition(":")
    if scheme == "py" and rest:
        return _adapter(selector, rest)
    if scheme == "cmd":
        return Target(selector, "cmd", _command(selector, rest))
    if scheme == "exit":
        argv = _command(selector, rest)
        if not any("{path}" in part for part in argv):
            raise SelectorError(f"--impl {selector!r}: say where the file goes, e.g. exit:{rest} {{path}}")
        return Target(selector, "exit", argv)
    return _known(selector, however_old=however_old)


PROGRAMS = ("py", "cmd", "exit")
"""Schemes of selectors that say themselves what is run."""


def runs_program(selector: str) -> bool:
    """True for a selector that says itself what is run, in place of the name of a known implementation."""
    return selector.partition(":")[0] in PROGRAMS


def resolve_named(selector: str) -> Target:
    """Resolve a selector that stands in a document, which may come from anywhere. Raises SelectorError.

    A document may name a known implementation. What program is run, and which version of a package is
    installed, is said on the command line alone.
    """
    if runs_program(selector):
        raise SelectorError(
            "a document may name known implementations only; to run this program, give --impl"
        )
    target = resolve(selector)
    # The version in the descriptor is our choice; another one could be the release that was hijacked.
    if "==" in selector and target.environment is not None and not target.environment.ready:
        raise SelectorError(
            "a document may not choose what is installed; to install this version, give --impl"
        )
    return target


def _adapter(selector: str, spec: str) -> Target:
    """Resolve an adapter in Python. A module is looked for when it starts, a file now."""
    where = spec.rpartition(":")[0] or spec
    if not where.endswith(".py"):
        return Target(selector, "host", host_argv(spec))
    if not Path(where).is_file():
        beside = [str(path) for path in Path(where).parent.glob("*.py")]
        near = difflib.get_close_matches(where, beside, n=1)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise SelectorError(f"--impl {selector!r}: there is no file {where}{guess}")
    return Target(selector, "host", host_argv(spec))


_NAME = re.compile(r"(?P<name>[^:=]+)(:(?P<entry>[^=]+))?(==(?P<version>[A-Za-z0-9._+!-]+))?")


def _known(selector: str, *, however_old: bool) -> Target:
    """Resolve the name of an implementation that this project knows, with entry and version."""
    match = _NAME.fullmatch(selector)
    name = match["name"] if match else selector
    descriptor = descriptors().get(name)
    if match is None or descriptor is None:
        near = difflib.get_close_matches(name, descriptors(), n=1)
        guess = f"did you mean {near[0]}?" if near else f"known: {', '.join(descriptors())};"
        if name.endswith((".py", ".mjs")):  # a file without the scheme in front
            guess = (
                f"did you mean py:{selector}?" if name.endswith(".py") else f"did you mean cmd:node {name}?"
            )
        raise SelectorError(
            f"unknown implementation {selector!r}; {guess} stc impl list shows all; "
            "others are given as py:module:object, cmd:program or exit:program {path}"
        )
    entry = descriptor.entry(match["entry"] or "")
    if entry is None:
        names = ", ".join(map(descriptor.selector, descriptor.entries))
        hint = did_you_mean(f"{name}:{match['entry']}", map(descriptor.selector, descriptor.entries))
        raise SelectorError(
            f"--impl {selector!r}: {name} has no entry {match['entry']!r}, only {names}{hint}"
        )
    if match["version"] and not descriptor.manager:
        raise SelectorError(f"--impl {selector!r}: {name} has no versions to choose from")
    if match["version"] and not however_old and not descriptor.fits(match["version"]):
        raise SelectorError(
            f"--impl {selector!r}: the adapter of {name} fits {descriptor.oldest} and newer; an older "
            "version lacks what it calls, and would be blamed for that"
        )
    env = None
    if descriptor.manager and (match["version"] or entry.version or not installed_here(descriptor)):
        env = environment(descriptor, entry, match["version"] or "")
    spec = str(HERE / entry.adapter)
    hint = (
        f"its environment is {env.folder}"
        if env
        else f"needs: {' '.join(descriptor.requirements(descriptor.version, entry))}"
    )
    if entry.adapter.endswith(".mjs"):
        folder = str(env.folder) if env else sys.prefix
        argv = ("node", str(_HOSTS / "node_host.mjs"), spec, folder)
        return Target(selector, "node", argv, hint, descriptor, entry, env)
    python = str(env.python) if env else sys.executable
    hint = hint if descriptor.manager else ""
    return Target(selector, "host", host_argv(spec, python), hint, descriptor, entry, env)


def installed_here(descriptor: Descriptor) -> bool:
    """True when the current interpreter has the package, so that it is the one to be tested."""
    if descriptor.manager != "pip":
        return False
    try:
        version(descriptor.distribution)
    except PackageNotFoundError:
        return False
    return True


def host_argv(spec: str, python: str = sys.executable) -> tuple[str, ...]:
    """Command line of the Python host for an adapter; the memory allowance is added by the worker."""
    return (python, "-u", str(_HOSTS / "python_host.py"), spec)


def _command(selector: str, text: str) -> tuple[str, ...]:
    try:
        argv = tuple(shlex.split(text))
    except ValueError as err:
        raise SelectorError(f"--impl {selector!r}: {err}") from err
    if not argv:
        raise SelectorError(f"--impl {selector!r}: names no program")
    if shutil.which(argv[0]) is None:
        raise SelectorError(f"--impl {selector!r}: program {argv[0]!r} is not found or not executable")
    return argv
