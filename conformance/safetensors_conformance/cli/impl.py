"""``stc impl``: the implementations that this project knows, and the environments they run in."""

from __future__ import annotations

from collections import Counter

import click

from safetensors_corpus.cli.common import in_columns, width_of_terminal
from safetensors_reports.text import visible

from ..implementations.descriptor import KINDS, Descriptor, descriptors
from ..implementations.environment import InstallError, cache_folder, environment, prepare, remove
from ..implementations.selectors import SelectorError, Target, installed_here, resolve
from ..worker.confinement import Confinement
from ..worker.pipe import make_worker
from ..worker.worker import Limits, StartError
from .common import confined


@click.group()
def impl() -> None:
    """Known implementations: list them, install them into environments of their own, try them.

    \b
    Environments lie in your cache folder (STC_CACHE chooses another) and are made
    when a run first needs them; nothing is ever installed into the interpreter that
    runs this program.
    """


@impl.command("list")
@click.option("--check", is_flag=True, help="Start each one that is installed and show version and steps.")
@click.option("--kind", type=click.Choice(tuple(KINDS)), help="Only this kind.")
@confined
def list_impls(check: bool, kind: str | None, confinement: Confinement) -> None:
    """List the names for --impl, what each is, and whether it is installed.

    A star behind the language: the official library does the parsing inside. What is called, or with
    --check what the start said, is cut to the width of a terminal; piped, it stands in full.
    """
    facts = (
        ("version", "installed", "says") if check else ("kind", "parser in", "version", "installed", "calls")
    )
    rows = [("--impl", *facts)]
    chosen = [d for d in descriptors().values() if kind in (None, d.kind)]
    for descriptor in chosen:
        for entry in descriptor.entries:
            selector = descriptor.selector(entry)
            target = resolve(selector)
            told = {
                "kind": descriptor.kind,
                "parser in": descriptor.language + ("" if descriptor.independent else "*"),
                "version": entry.version or descriptor.version or "-",
                "installed": _state(target),
                "calls": entry.about,
                "says": _start(target, confinement) if check and _installed(target) else "",
            }
            rows.append((selector, *(told[fact] for fact in facts)))
    for line in in_columns(rows, width_of_terminal()):
        click.echo(visible(line))
    languages = Counter(d.language for d in chosen)
    click.echo(
        f"{len(chosen)} implementations, {sum(len(d.entries) for d in chosen)} entry points, "
        f"{sum(d.independent and d.kind == 'reader' for d in chosen)} independent parsers that return data; "
        + ", ".join(f"{name} {count}" for name, count in languages.most_common())
    )


def _installed(target: Target) -> bool:
    return target.environment is None or target.environment.ready


def _state(target: Target) -> str:
    if target.environment is None:
        return "here"
    return "yes" if target.environment.ready else "no"


def _start(target: Target, confinement: Confinement) -> str:
    worker = make_worker(target, Limits(confinement=confinement))
    try:
        prepare(target.environment)
        who = worker.start()
    except InstallError as err:
        return f"failed: {err}"
    except StartError as err:
        return f"does not start: {err}"
    finally:
        worker.close()
    return f"{who.version}: {', '.join([*who.steps, *(['device'] if who.loads else [])])}"


@impl.command()
@click.argument("names", nargs=-1, metavar="[NAME[:ENTRY][==VERSION]]...")
@click.option("--all", "everything", is_flag=True, help="Everything that is known.")
@confined
def sync(names: tuple[str, ...], everything: bool, confinement: Confinement) -> None:
    """Install implementations into environments of their own, and start each one once.

    \b
    What is there already is left as it is; an interrupted installation is taken up
    again. Exit status: 0 all there, 1 something could not be installed or started.
    """
    if not names and not everything:
        raise click.UsageError("name what to install, or give --all; stc impl list shows what there is")
    if everything:
        names = tuple(d.selector(e) for d in descriptors().values() for e in d.entries)
    failed = 0
    for name in names:
        try:
            target = resolve(name)
            if target.descriptor is None or target.entry is None:
                raise click.UsageError(f"{name!r} is nothing that can be installed")
            state = _start(target, confinement)
        except SelectorError as err:
            state = f"failed: {err}"
        failed += state.startswith(("failed", "does not start"))
        click.echo(f"{name}: {state}")
    raise SystemExit(1 if failed else 0)


@impl.command()
@click.argument("name")
def info(name: str) -> None:
    """Show what is known about an implementation."""
    descriptor = descriptors().get(name.partition(":")[0].partition("=")[0])
    if descriptor is None:
        raise click.ClickException(f"unknown implementation {name!r}; known: {', '.join(descriptors())}")
    for line in _facts(descriptor):
        click.echo(line)


def _facts(descriptor: Descriptor) -> list[str]:
    core = "" if descriptor.independent else "; the official library does the parsing inside"
    lines = [
        f"{descriptor.name}: {descriptor.title}",
        f"kind       {descriptor.kind}: {KINDS[descriptor.kind]}",
        f"parser     {descriptor.language}{core}",
        f"homepage   {descriptor.homepage}",
        f"issues     {descriptor.issues}",
    ]
    if descriptor.manager:
        own = "in an environment of its own"
        here = "the one installed here is used" if installed_here(descriptor) else own
        lines.append(f"version    {descriptor.version} by default; {here}")
        if descriptor.oldest:
            lines.append(f"oldest     {descriptor.oldest}; the adapter does not fit what is older")
        requires = descriptor.requirements(descriptor.version, descriptor.entries[0])
        lines.append(f"installs   {descriptor.manager}: {' '.join(requires)}")
    for entry in descriptor.entries:
        lines.append(f"--impl     {descriptor.selector(entry)}: {entry.about}")
        if entry.areas:
            lines.append(f"           judged on {', '.join(entry.areas)}")
        if descriptor.manager:
            env = environment(descriptor, entry)
            lines.append(f"           {env.folder}" + ("" if env.ready else " (not made yet)"))
    if descriptor.note:
        lines.append(f"note       {descriptor.note}")
    return lines


@impl.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME[:ENTRY][==VERSION]...")
def clean(names: tuple[str, ...]) -> None:
    """Remove environments; one that is not there is no error."""
    for name in names:
        try:
            target = resolve(name, however_old=True)
        except SelectorError as err:
            raise click.UsageError(str(err)) from err
        if target.descriptor is None or target.entry is None or not target.descriptor.manager:
            raise click.UsageError(f"{name!r} has no environment of its own")
        version = name.partition("==")[2]
        env = target.environment or environment(target.descriptor, target.entry, version)
        what = env.folder.relative_to(cache_folder())
        click.echo(f"removed {what}" if remove(env) else f"nothing to remove: there is no {what}")
