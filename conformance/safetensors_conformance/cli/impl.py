"""``stc impl``: the known implementations and their environments."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import click

from safetensors_corpus.cli.common import in_columns, width_of_terminal
from safetensors_reports.text import plural, visible

from ..implementations.commands import InstallError
from ..implementations.descriptor import (
    KINDS,
    NAMED,
    OUTSIDE,
    DescriptorError,
    Entry,
    LocatedDescriptor,
    descriptors,
    find_descriptor,
    is_commit,
    outside_descriptors,
)
from ..implementations.environment import cache_folder, environment, remove
from ..implementations.selectors import SelectorError, Target, installed_here, resolve
from ..implementations.source_build import LOCAL
from ..programs.launcher import Confinement, ending_as_interrupted
from ..worker.worker import Limits, StartError, make_worker
from .common import confinement_options, reported_as


@click.group()
def impl() -> None:
    """List the known implementations, install them into their own environments, and try them.

    \b
    Environments are in your cache folder (STC_CACHE selects another) and are created
    when a run first needs them. Nothing is ever installed into the interpreter that
    runs this program. STC_IMPLEMENTATIONS lists folders with your own descriptors.
    """


@impl.command("list")
@click.option(
    "--check", is_flag=True, help="Start each installed implementation and show its version and steps."
)
@click.option("--kind", type=click.Choice(tuple(KINDS)), help="List only implementations of this kind.")
@confinement_options
def list_impls(check: bool, kind: str | None, confinement: Confinement) -> None:
    """List the names for --impl, with information about each implementation and whether it is installed.

    A star after the language means that the implementation uses the official library's parser. On a terminal,
    the last column is truncated to fit; in a pipe, it is printed in full.
    """
    facts = (
        ("version", "installed", "says") if check else ("kind", "parser in", "version", "installed", "calls")
    )
    rows = [("--impl", *facts)]
    with reported_as(click.ClickException, DescriptorError):
        known = {**descriptors(), **outside_descriptors()}
    chosen = [d for d in known.values() if kind in (None, d.kind)]
    for descriptor in chosen:
        for entry in descriptor.entries:
            selector = descriptor.selector(entry)
            with reported_as(click.ClickException, SelectorError):
                target = resolve(selector)
            installed = target.environment is None or target.environment.ready
            may_start = check and installed and not descriptor.outside
            version = descriptor.default_version(entry)
            values = {
                "kind": descriptor.kind,
                "parser in": descriptor.language + ("" if descriptor.independent else "*"),
                "version": (version[:12] if is_commit(version) else version) or "-",
                "installed": _state(target),
                "calls": entry.about,
                "says": _start(target, confinement) if may_start else "",
            }
            rows.append((selector, *(values[fact] for fact in facts)))
    for line in in_columns(rows, width_of_terminal()):
        click.echo(visible(line))
    languages = Counter(d.language for d in chosen)
    click.echo(
        f"{plural(len(chosen), 'implementation')}, "
        f"{plural(sum(len(d.entries) for d in chosen), 'entry point')}, "
        f"{plural(len({d.parser_of(entry) for d in chosen for entry in d.entries}), 'parser')}; "
        + ", ".join(f"{name} {count}" for name, count in languages.most_common())
    )


def _state(target: Target) -> str:
    if target.environment is None:
        return "here"
    if target.descriptor and target.entry and target.descriptor.by_hand(target.entry):
        return "by hand"
    return "yes" if target.environment.ready else "no"


def _start(
    target: Target, confinement: Confinement, checkout: Path | None = None, *, network: bool = False
) -> str:
    worker = make_worker(target, Limits(confinement=confinement))
    try:
        target.prepare(checkout=checkout, network=network)
        implementation = worker.start()
    except InstallError as err:
        return f"failed: {err}"
    except StartError as err:
        return f"does not start: {err}"
    finally:
        worker.close()
    steps = [*implementation.steps, *(["device"] if implementation.loads else [])]
    return f"{implementation.version}: {', '.join(steps)}"


@impl.command()
@click.argument("names", nargs=-1, metavar="[NAME[:ENTRY][==VERSION|@REVISION]]...")
@click.option("--all", "everything", is_flag=True, help="Install every known implementation.")
@click.option(
    "--source",
    "checkout",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help=f"Build from a copy of this folder; the result is named NAME@{LOCAL}.",
)
@click.option("--build-with-network", "network", is_flag=True, help="Allow network access during builds.")
@confinement_options
def sync(
    names: tuple[str, ...], everything: bool, checkout: Path | None, network: bool, confinement: Confinement
) -> None:
    """Install or build implementations in their own environments, and start each of them once.

    \b
    Complete environments are left unchanged, and interrupted installations are resumed.
    Sources are fetched first, then built without network access.
    Exit status: 0 if everything is installed, 1 if something could not be installed,
    built or started.

    \b
    Examples
      stc impl sync mlx netron
      stc impl sync mylib@0123456789abcdef0123456789abcdef01234567
      stc impl sync mylib --source ../mylib; stc run --impl mylib@local
    """
    if not names and not everything:
        raise click.UsageError("give the names to install, or --all; stc impl list shows the names")
    if checkout is not None and (everything or len(names) != 1 or "@" in names[0] or "=" in names[0]):
        raise click.UsageError(
            "--source works with a single implementation: give its name, without a version"
        )
    if everything:
        # Skip entries that users must build by hand.
        names = tuple(selector for d in descriptors().values() for selector in d.listed)
    failed = 0
    for name in names:
        try:
            target = resolve(name if checkout is None else f"{name}@{LOCAL}")
            if target.descriptor is None or target.entry is None or target.user_provided:
                raise click.UsageError(f"{name!r} cannot be installed")
            if checkout is not None and target.environment is not None:
                remove(target.environment)
            with ending_as_interrupted():
                state = _start(target, confinement, checkout, network=network)
        except SelectorError as err:
            state = f"failed: {err}"
        failed += state.startswith(("failed", "does not start"))
        click.echo(f"{target.selector if checkout else name}: {state}")
    raise SystemExit(1 if failed else 0)


@impl.command()
@click.argument("name")
def info(name: str) -> None:
    """Show what is known about an implementation."""
    match = NAMED.match(name)
    with reported_as(click.ClickException, DescriptorError):
        descriptor = find_descriptor(match["name"]) if match else None
        if descriptor is None:
            raise click.ClickException(f"unknown implementation {name!r}; known: {', '.join(descriptors())}")
        try:
            lines = _facts(descriptor)
        except OSError as err:
            raise click.ClickException(f"{visible(str(err.filename))}: {err.strerror}") from err
    for line in lines:
        click.echo(visible(line, 2000))


def _facts(descriptor: LocatedDescriptor) -> list[str]:
    core = "" if descriptor.independent else "; it uses the official library's parser"
    lines = [
        f"{descriptor.name}: {descriptor.title}",
        f"kind       {descriptor.kind}: {KINDS[descriptor.kind]}",
        f"parser     {descriptor.language}{core}",
        f"homepage   {descriptor.homepage}",
        f"issues     {descriptor.issues}",
    ]
    if descriptor.manager:
        own = "in its own environment"
        here = "the installed one is used" if installed_here(descriptor) else own
        lines.append(f"version    {descriptor.version} by default; {here}")
        if descriptor.oldest:
            lines.append(f"oldest     {descriptor.oldest}; the adapter does not support older versions")
        requires = descriptor.requirements(descriptor.version, descriptor.entries[0])
        lines.append(f"installs   {descriptor.manager}: {' '.join(requires)}")
    if descriptor.source:
        source = descriptor.source
        lines.append(f"source     {source.kind}: {source.address}")
        lines.append(f"revision   {source.revision}")
        lines += [f"needs      {', '.join(source.toolchain)}"] if source.toolchain else []
        lines += [f"build      {shlex.join(command)}" for command in source.build]
    if descriptor.outside:
        lines.append(f"from       {descriptor.folder}, by {OUTSIDE}")
    for entry in descriptor.entries:
        lines.append(f"--impl     {descriptor.selector(entry)}: {entry.about}")
        if entry.areas:
            lines.append(f"           judged on {', '.join(entry.areas)}")
        if entry.scope:
            lines.append(f"           {entry.scope}")
        lines.append(f"           {_where(descriptor, entry)}")
    if descriptor.note:
        lines.append(f"note       {descriptor.note}")
    return lines


def _where(descriptor: LocatedDescriptor, entry: Entry) -> str:
    if descriptor.by_hand(entry):
        # Our host loads programs written in Python, and they need a checkout of their project on the path.
        how = "py:PROGRAM:CLASS" if (descriptor.folder / "program.py").exists() else "cmd:PROGRAM"
        return f"you must build it yourself; then give: --impl {descriptor.selector(entry)}={how}"
    if not descriptor.manager and entry.adapter:
        return "needs only this project"
    env = environment(descriptor, entry)
    return f"{env.folder}" + ("" if env.ready else " (not created yet)")


@impl.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME[:ENTRY][==VERSION|@REVISION]...")
def clean(names: tuple[str, ...]) -> None:
    """Remove environments. A missing environment is not an error."""
    for name in names:
        with reported_as(click.UsageError, SelectorError):
            target = resolve(name, however_old=True)
        known = None if target.user_provided else target.descriptor
        if known is None or target.entry is None or not (target.environment or known.manager):
            raise click.UsageError(f"{name!r} has no environment of its own")
        version = name.partition("==")[2]
        env = target.environment or environment(known, target.entry, version)
        what = env.folder.relative_to(cache_folder())
        click.echo(f"removed {what}" if remove(env) else f"nothing to remove: {what} does not exist")
