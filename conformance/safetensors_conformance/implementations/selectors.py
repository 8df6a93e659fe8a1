"""Selectors for ``--impl``, such as a known name or a program. ``stc run --help`` lists their forms."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from safetensors_corpus import sharing
from safetensors_corpus.cli.common import did_you_mean

from ..programs import container
from ..programs.launcher import Confinement, Template, child_variables
from ..programs.limited_process import Child, SandboxedChild
from ..programs.sandbox import SandboxError, as_given_and_resolved, own_folder, paths_named_by, too_wide
from .commands import missing_programs
from .descriptor import (
    FULL_COMMIT,
    HERE,
    NAMED,
    DescriptorError,
    Entry,
    LocatedDescriptor,
    descriptors,
    find_descriptor,
    is_commit,
    outside_descriptors,
)
from .environment import Environment, environment, prepare
from .source_build import LOCAL

MAX_SLUG = 80
SEARCH_PATHS = ("PYTHONPATH", "NODE_PATH", "CLASSPATH", "LD_LIBRARY_PATH", "JAVA_HOME", "DOTNET_ROOT")
"""Variables that list folders in which programs look for libraries."""
_PACKAGE = Path(__file__).parents[1]
_HOSTS = _PACKAGE / "host"


class SelectorError(Exception):
    """``--impl`` does not name anything that can run. The message lists alternatives."""


def _fault(selector: str, text: object) -> SelectorError:
    return SelectorError(f"--impl {selector!r}: {text}")


@dataclass(frozen=True)
class Target:
    """A resolved selector, and how its program is started.

    ``kind`` selects the worker: ``host`` (our Python host), ``node`` (our JavaScript host), ``cmd``, ``exit``
    or ``oci``. ``argv`` contains ``{path}`` for ``exit``; for ``oci`` it is the image and its arguments.
    ``revision`` is used as the version of a program that does not report one.
    """

    selector: str
    kind: Literal["host", "node", "cmd", "exit", "oci"]
    argv: tuple[str, ...]
    hint: str = ""
    descriptor: LocatedDescriptor | None = None
    entry: Entry | None = None
    environment: Environment | None = None
    revision: str = ""

    @property
    def exports(self) -> bool:
        """Whether the command line of an ``exit`` program names a folder for exported tensors."""
        return self.kind == "exit" and any("{folder}" in part for part in self.argv)

    @property
    def user_provided(self) -> bool:
        return runs_program(self.selector)

    def prepare(self, *, checkout: Path | None = None, network: bool = False) -> None:
        """Create the environment if this needs one and has none. Raises InstallError."""
        if self.environment is not None:
            prepare(self.environment, checkout=checkout, network=network)

    @property
    def baseline(self) -> Path:
        """The expected failures: a file of this project for the descriptor's version, or a local file."""
        if self.descriptor is not None and self.entry is not None and not self.user_provided:
            ours, env = self.descriptor.expected_failures(self.entry), self.environment
            described = self.descriptor.default_version(self.entry)
            if ours.is_file() and (env is None or env.version == described):
                return ours
        return Path(f"{self.slug}.baseline.toml")

    def command(self, memory_bytes: int) -> list[str]:
        """Return the command line with the arguments for our hosts. A limit of 0 bytes means no limit."""
        host_arguments = {"host": (str(memory_bytes), sharing.__file__), "node": (str(memory_bytes),)}
        return [*self.argv, *host_arguments.get(self.kind, ())]

    def reachable(self, steps: Iterable[str], confinement: Confinement) -> tuple[str, ...]:
        """Return the steps that can work. Servers need network access, and containers cannot write."""
        if self.kind == "oci":
            return tuple(step for step in steps if step in container.READ_ONLY_STEPS)
        alone = confinement.sandbox is not None and not confinement.sandbox.net
        return tuple(step for step in steps if step != "remote" or not alone)

    def template(self, argv: Sequence[str], confinement: Confinement) -> Template | None:
        """Return a template, or None if forks are unreliable or impossible. Raises OSError."""
        forks = self.kind == "host" and self.entry is not None and self.entry.forks
        if not forks or confinement.sandbox is not None or sys.platform != "linux":
            return None
        return Template(argv, child_variables(confinement.env))

    def start(
        self,
        argv: Sequence[str],
        memory_bytes: int,
        confinement: Confinement,
        template: Template | None = None,
    ) -> Child:
        """Start a process with ``argv``, a filled-in command line of this target. Raises OSError."""
        variables, sandbox = child_variables(confinement.env), confinement.sandbox
        if self.kind == "oci":
            if sandbox is not None:
                raise SandboxError("a container is already a sandbox: leave out --sandbox")
            inputs = (own_folder(), *confinement.shown)
            return container.ContainerChild(argv, memory_bytes, variables, inputs, confinement.env)
        if sandbox is None:
            return Child(argv, memory_bytes, variables, template)
        here = Path.cwd()
        shown = [path for given in confinement.shown for path in as_given_and_resolved(given)]
        shown += self._folders(argv, variables, here)
        return SandboxedChild(sandbox.command_line(argv, shown, here), memory_bytes, variables)

    def _folders(self, argv: Sequence[str], variables: Mapping[str, str], here: Path) -> Iterator[Path]:
        """Yield the paths that a program reads in a sandbox, other than its inputs. Raises SandboxError."""
        if self.user_provided:
            if too_wide(here):
                raise SandboxError(
                    f"--sandbox gives a program access to the current folder, but {here} contains your home "
                    "folder or other users' temporary files; change to the folder of the program"
                )
            yield from as_given_and_resolved(here)
        folders = [_PACKAGE]
        if self.environment is not None:
            folders.append(self.environment.folder)
        if self.kind == "host":
            folders += map(Path, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
            if self.environment is None:
                folders += [Path(entry) for entry in sys.path if entry]
        for name in SEARCH_PATHS:
            folders += [Path(entry) for entry in variables.get(name, "").split(os.pathsep) if entry]
        for folder in folders:
            if folder.exists() and not too_wide(folder):
                yield from as_given_and_resolved(folder)
        yield from paths_named_by(argv)

    @property
    def slug(self) -> str:
        """The selector as a file name of at most ``MAX_SLUG`` characters."""
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", self.selector).strip("-") or "implementation"
        return slug if len(slug) <= MAX_SLUG else f"{slug[: MAX_SLUG - 9]}-{self.mark}"

    @property
    def mark(self) -> str:
        return hashlib.sha256(self.selector.encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def plain(self, says: str = "") -> str:
        """Return the name and entry of a known implementation, or ``says`` if given, or the selector."""
        if self.descriptor is not None and self.entry is not None:
            return self.descriptor.selector(self.entry)
        return says or self.selector


def resolve(selector: str, *, however_old: bool = False) -> Target:
    """Resolve a selector. ``however_old`` accepts versions that are too old to run. Raises SelectorError."""
    name, program = _parts(selector)
    if not program:
        try:
            return _known(selector, however_old=however_old)
        except DescriptorError as err:  # there is no folder for environments
            raise _fault(selector, err) from err
    target = _program(program)
    if not name:
        return target
    match, descriptor, entry = _named(selector, name)
    revision = match["revision"] or ""
    return replace(target, selector=selector, descriptor=descriptor, entry=entry, revision=revision)


def _program(selector: str) -> Target:
    scheme, _, rest = selector.partition(":")
    if scheme == "py" and rest:
        where = rest.rpartition(":")[0] or rest
        # A file must exist now; a module need not exist until the target starts.
        if where.endswith(".py") and not Path(where).is_file():
            siblings = [str(path) for path in Path(where).parent.glob("*.py")]
            near = difflib.get_close_matches(where, siblings, n=1)
            guess = f"; did you mean {near[0]}?" if near else ""
            raise _fault(selector, f"the file {where} does not exist{guess}")
        return Target(selector, "host", host_argv(rest))
    try:
        argv = tuple(shlex.split(rest))
    except ValueError as err:
        raise _fault(selector, err) from err
    if scheme == "oci":
        if not argv or argv[0].startswith("-"):
            raise _fault(selector, "no image is given")
        if not container.engine():
            missing = missing_programs(container.ENGINES)
            raise _fault(selector, f"{missing}; one of them is sufficient")
        return Target(selector, "oci", argv)
    if not argv:
        raise _fault(selector, "no program is given")
    if shutil.which(argv[0]) is None:
        raise _fault(selector, f"program {argv[0]!r} does not exist or is not executable")
    if scheme == "cmd":
        return Target(selector, "cmd", argv)
    if not any("{path}" in part for part in argv):
        raise _fault(selector, f"mark the file's position in the command, e.g. exit:{rest} {{path}}")
    return Target(selector, "exit", argv)


PROGRAMS = ("py", "cmd", "exit", "oci")
"""Schemes of selectors that name a program."""


def _parts(selector: str) -> tuple[str, str]:
    name, mark, program = selector.partition("=")
    if mark and NAMED.match(name) and not _says_program(selector) and _says_program(program):
        return name, program
    return ("", selector) if _says_program(selector) else (selector, "")


def _says_program(text: str) -> bool:
    scheme, _, rest = text.partition(":")
    return scheme in PROGRAMS and (bool(rest) or scheme != "py")


def runs_program(selector: str) -> bool:
    return bool(_parts(selector)[1]) or selector.partition(":")[0] in PROGRAMS


def resolve_named(selector: str) -> Target:
    """Resolve a selector from an untrusted document, which must not choose a program or version."""
    if runs_program(selector):
        raise SelectorError(
            "a document may name only known implementations; to run this program, give --impl"
        )
    target = resolve(selector)
    if target.descriptor is not None and target.descriptor.outside:
        raise SelectorError(
            "a document may name only implementations of this project; to run one of your own, give --impl"
        )
    # The version in the descriptor is our choice, while another one could be a hijacked release.
    chosen, env = "==" in selector or "@" in selector, target.environment
    if chosen and env is not None and not env.ready:
        raise SelectorError(
            "a document must not choose what is installed; to install this version, give --impl"
        )
    return target


_NAME = re.compile(
    NAMED.pattern + r"(==(?P<version>[A-Za-z0-9._+!-]+)|@(?P<revision>[A-Za-z0-9][A-Za-z0-9._+!-]*))?"
)


def _named(selector: str, name: str) -> tuple[re.Match[str], LocatedDescriptor, Entry]:
    match = _NAME.fullmatch(name)
    called = match["name"] if match else name
    try:
        descriptor = find_descriptor(called)
        names = [*descriptors(), *(() if descriptor else outside_descriptors())]
    except DescriptorError as err:
        raise SelectorError(str(err)) from err
    if match is None or descriptor is None:
        near = difflib.get_close_matches(called, names, n=1)
        guess = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)};"
        if called.endswith((".py", ".mjs")):  # a file name without a scheme
            scheme = "py:" if called.endswith(".py") else "cmd:node "
            guess = f"did you mean {scheme}{selector}?"
        raise SelectorError(
            f"unknown implementation {selector!r}; {guess} stc impl list shows all known "
            "implementations; give others as py:module:object, cmd:program, exit:program {path} or "
            "oci:image"
        )
    entry = descriptor.entry(match["entry"] or "")
    if entry is None:
        entries = [descriptor.selector(one) for one in descriptor.entries]
        hint = did_you_mean(f"{called}:{match['entry']}", entries)
        raise _fault(
            selector, f"{called} has no entry {match['entry']!r}; its entries are: {', '.join(entries)}{hint}"
        )
    return match, descriptor, entry


def _known(selector: str, *, however_old: bool) -> Target:
    match, descriptor, entry = _named(selector, selector)
    if not entry.adapter:
        return _built(selector, match, descriptor, entry)
    if match["revision"]:
        raise _fault(selector, f"{descriptor.selector(entry)} is not built from source")
    if match["version"] and not descriptor.manager:
        raise _fault(selector, f"{descriptor.name} has no versions to choose from")
    if match["version"] and not however_old and not descriptor.fits(match["version"]):
        raise _fault(
            selector,
            f"the adapter for {descriptor.name} supports {descriptor.oldest} and "
            "newer; older versions lack functions that the adapter calls, so they would fail because "
            "of the adapter",
        )
    env = None
    if descriptor.manager and (match["version"] or entry.version or not installed_here(descriptor, entry)):
        env = environment(descriptor, entry, match["version"] or "")
    spec, installed = str(HERE / entry.adapter), env.version if env else ""
    needs = " ".join(descriptor.requirements(descriptor.version, entry))
    hint = f"its environment is {env.folder}" if env else f"needs: {needs}" if descriptor.manager else ""
    if entry.adapter.endswith(".mjs"):
        argv = ("node", str(_HOSTS / "node_host.mjs"), spec, str(env.folder if env else sys.prefix))
        return Target(selector, "node", argv, hint, descriptor, entry, env, installed)
    python = str(env.python) if env else sys.executable
    return Target(selector, "host", host_argv(spec, python), hint, descriptor, entry, env, installed)


def _built(selector: str, match: re.Match[str], descriptor: LocatedDescriptor, entry: Entry) -> Target:
    source = descriptor.source
    assert source
    if match["version"]:
        raise _fault(selector, "this implementation is built from source; give a revision with @")
    revision = match["revision"] or source.revision
    if source.kind == "git" and revision != LOCAL and not is_commit(revision):
        raise _fault(selector, f"{FULL_COMMIT}; or give @{LOCAL} for your own checkout")
    try:
        env = environment(descriptor, entry, revision)
    except OSError as err:
        raise _fault(selector, err) from err
    assert env.build
    argv = env.build.filled(entry.program)
    return Target(selector, "cmd", argv, f"it was built in {env.folder}", descriptor, entry, env, revision)


def installed_here(descriptor: LocatedDescriptor, entry: Entry | None = None) -> bool:
    """Return whether the current interpreter has the package and, if an ``entry`` is given, its framework."""
    if descriptor.manager != "pip":
        return False
    framework = (entry.requires if entry else ())[:1]
    try:
        for name in (descriptor.distribution, *(re.split(r"[^\w.-]", text)[0] for text in framework)):
            version(name)
    except PackageNotFoundError:
        return False
    return True


def host_argv(spec: str, python: str = sys.executable) -> tuple[str, ...]:
    return (python, "-u", str(_HOSTS / "python_host.py"), spec)
