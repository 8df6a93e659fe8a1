"""``stc corpus build``, ``copy``, ``verify``, ``stats`` and ``release``: the corpus as a whole."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from safetensors_reference import rule_book

from ..document import MANIFEST, read_document
from ..manifest import corpus_root, load_manifest
from ..publish import build as builder
from ..publish.copy import CopyPlan, execute, plan_copy, problems
from ..publish.packages import GO_MODULE
from ..publish.packages import packages as make_packages
from ..publish.release import (
    CHANGES,
    ReleaseError,
    Version,
    check_target,
    read_version,
    release_files,
    write_release,
)
from ..publish.show import byte_count
from ..publish.stats import coverage_errors, load_reasons, statistics, stored_bytes
from .common import HELP, UnusableError, exit_if_unusable, folder_option, load, matches


@contextmanager
def _progress(doing: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on standard error; the function given is called with the name of each thing done."""
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name[-50:])


@click.command(context_settings=HELP)
@click.option("--check", is_flag=True, help="Write nothing; fail when a committed file is not current.")
@click.option(
    "--allow-removal", is_flag=True, help="Let case ids disappear (only before they are published)."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to build into.  [default: the project's corpus/]",
)
def build(check: bool, allow_removal: bool, output: Path | None) -> None:
    """Write the case files and corpus.json, byte-identical on every run.

    \b
    Exit status: 0 built or current, 1 not current (with --check), 2 a case contradicts the rules.
    """
    root = output or corpus_root()
    with exit_if_unusable(root):
        built = builder.build()
    if check:
        lines = builder.differences(built, root)
        for line in lines:
            click.echo(line)
        if lines:
            click.echo(f"{len(lines)} files are not current; run: stc corpus build")
            raise SystemExit(1)
        click.echo(f"corpus is current: {built.cases} cases, {len(built.files)} files")
        return
    lost = builder.lost_ids(built, root)
    if lost and not allow_removal:
        names = ", ".join(lost[:5]) + (" …" if len(lost) > 5 else "")
        raise click.ClickException(
            f"{len(lost)} case ids would disappear ({names}); ids are permanent, withdraw the case instead"
        )
    with exit_if_unusable(root):
        written, removed = builder.write(built, root)
    click.echo(f"{built.cases} cases in {root}: {written} files written, {removed} removed")


@click.command(context_settings=HELP)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("pattern", default="")
@click.option("--recipes", is_flag=True, help="Also make the files that are described by recipes.")
@click.option("--large", is_flag=True, help="With --recipes: those above 256 MiB too (holes stay sparse).")
@click.option("--force", is_flag=True, help="Go on in a folder that is not empty; other files stay.")
@folder_option
def copy(folder: Path, pattern: str, recipes: bool, large: bool, force: bool, root: Path | None) -> None:
    """Copy the corpus into a folder, to vendor it.

    DIR gets corpus.json, its schema and the files. PATTERN takes only the cases whose id, rule or choice
    contains it; corpus.json then lists only those. A copy that was stopped goes on with --force.

    \b
    Exit status: 0 copied, 1 DIR is not empty or the copy was stopped, 2 it cannot be made.
    """
    if large and not recipes:
        raise click.UsageError("--large says which recipe files to make; give --recipes too")
    with exit_if_unusable(folder):
        manifest = load_manifest(root)
    target = folder.resolve()
    if target == manifest.root.resolve() or target in manifest.root.resolve().parents:
        raise click.UsageError(f"{folder} holds the corpus that is to be copied")
    with exit_if_unusable(folder):
        if folder.exists() and any(folder.iterdir()) and not force:
            raise click.ClickException(f"{folder} is not empty; empty it, or go on there with --force")
    chosen = {c.id for c in manifest.cases if matches(c, pattern)} if pattern else None
    if chosen is not None and not chosen:
        raise UnusableError(f"no case matches {pattern!r}")
    with exit_if_unusable(folder):
        plan = plan_copy(manifest.root, chosen, recipes=recipes, large=large)
        _perform(plan, folder)
    files = f"{len(plan.stored)} files"
    if recipes:
        total = sum(case["input"]["size"] for case in plan.made)
        files += f", {len(plan.made)} recipe files of {byte_count(total)}"
    cases = len(manifest.cases) if chosen is None else len(chosen)
    click.echo(f"{folder}: {cases} cases of corpus {manifest.version}, {files}; see README.txt there")
    if plan.left_out:
        click.echo(f"not made, above 256 MiB (--large makes them): {', '.join(plan.left_out)}")


def _perform(plan: CopyPlan, folder: Path) -> None:
    """Copy with a progress bar on standard error. Ctrl-C ends in one line that says what is missing."""
    done: list[str] = []
    try:
        with _progress("copying", plan.steps) as tick:

            def finished(name: str) -> None:
                done.append(name)
                tick(name)

            execute(plan, folder, finished)
    except KeyboardInterrupt:
        missing = plan.steps - len(done)
        if MANIFEST in done:
            state = f"the corpus is complete, {missing} recipe files are missing"
        else:
            state = f"{missing} of {plan.steps} files are missing, corpus.json among them"
        raise click.ClickException(f"stopped: {state}; run the command again with --force") from None


@click.command(context_settings=HELP)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--heavy", is_flag=True, help="Also make and digest the recipes of heavy cases (slow).")
def verify(folder: Path | None, heavy: bool) -> None:
    """Check a copy of the corpus: digests, missing and extra files.

    DIR is a folder with corpus.json, by default the corpus of this program. The manifest is held against its
    schema, and every file against size and SHA-256. Recipes are made in memory and
    digested; files in recipes/ are compared with their recipe.

    \b
    Exit status: 0 intact, 1 problems (one line each), 2 there is no usable corpus.json.
    """
    root = folder or corpus_root()
    with exit_if_unusable(root):
        raw = read_document(root / MANIFEST).raw
    cases = raw.get("cases")
    total = len(cases) if isinstance(cases, list) else 0
    with _progress("verifying", total) as tick:
        found = list(problems(root, raw, heavy=heavy, tick=tick))
    for problem in found:
        click.echo(problem)
    if found:
        click.echo(f"{root}: {len(found)} problems")
        raise SystemExit(1)
    left = 0 if heavy else sum(case["heavy"] and case["status"] == "active" for case in raw["cases"])
    note = f"; {left} heavy recipes not made (--heavy makes them)" if left else ""
    click.echo(f"{root}: corpus {raw['corpus_version']} is intact, {total} cases{note}")


@click.command(context_settings=HELP)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--check",
    is_flag=True,
    help="Hold the rules covered against coverage.toml, strict both ways, and print contradictions.",
)
@folder_option
def stats(as_json: bool, check: bool, root: Path | None) -> None:
    """Count the cases, and say which rules they cover.

    A rule is covered from both sides when one case that carries it demands accept and another one reject
    (of a choice: under any option). For each missing side coverage.toml gives the reason.

    \b
    Exit status: 0; 1 with --check when a side of a must-rule is neither covered nor explained, or both.
    """
    manifest = load(root)
    raw = manifest.raw
    try:
        reasons = load_reasons()
    except (OSError, ValueError) as err:
        raise UnusableError(f"coverage.toml: {err}") from err
    if check:
        errors = coverage_errors(raw, reasons)
        if root is None and (
            late := sorted(rule_book().rules.keys() ^ {rule["id"] for rule in raw["rules"]})
        ):
            errors.append(f"corpus.json is of other rules than the rule book ({', '.join(late)}): build it")
        for error in errors:
            click.echo(error)
        if errors:
            click.echo(f"{len(errors)} contradictions between rules, cases and coverage.toml")
            raise SystemExit(1)
        click.echo("every side of every must-rule is covered or has its reason")
        return
    with exit_if_unusable(manifest.root):
        numbers = {**statistics(raw, reasons), "stored_bytes": stored_bytes(manifest.root)}
    for line in [json.dumps(numbers, indent=1)] if as_json else _lines(numbers):
        click.echo(line)


def _lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    withdrawn = f", {numbers['not_active']} withdrawn or superseded" if numbers["not_active"] else ""
    notes = f"{numbers['heavy']} heavy{withdrawn}"
    yield f"corpus {numbers['corpus_version']}: {numbers['cases']:,} cases ({notes})"
    yield (
        f"stored {byte_count(numbers['stored_bytes'])}, of these {numbers['files']:,} files with "
        f"{numbers['file_bytes']:,} bytes; {numbers['recipes']} recipes"
    )
    for name in ("area", "kind", "level", "importance", "outcome", "choice"):
        counts = sorted(numbers[name].items(), key=lambda item: -item[1])
        text = " · ".join(f"{key} {count:,}" for key, count in counts)
        yield from _wrapped(f"  {name:<11}", text)
    rules = numbers["rules"]
    yield (
        f"rules: {len(rules['both'])} covered from both sides, {len(rules['one'])} from one, "
        f"{len(rules['none'])} from none"
    )
    for rule, row in rules["missing"].items():
        reasons = dict.fromkeys(row["reasons"].get(side, "no reason given") for side in row["sides"])
        what = "neither accept nor reject" if len(row["sides"]) == 2 else f"no {row['sides'][0]}"
        yield from _wrapped(f"  {rule} ({row['level']}) {what}: ", "; ".join(reasons))


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, 110, initial_indent=label, subsequent_indent="             ", break_on_hyphens=False
    )


@click.command(context_settings=HELP)
@click.argument("dist", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--since",
    metavar="OLD",
    type=click.Path(path_type=Path),
    help="The release before: its corpus.json, folder or archive. Without it everything is new.",
)
@folder_option
def release(dist: Path, since: Path | None, root: Path | None) -> None:
    """Pack a release: archive, checksums and list of changes.

    DIST gets safetensors-corpus-VERSION.tar, corpus.json, changes.json and SHA256SUMS, byte-identical on
    every build and all at once. Nothing is packed when the corpus is not current, when ids of OLD
    disappeared, or when the corpus differs from OLD under the same version.

    \b
    Exit status: 0 packed, or DIST holds this release already; 1 refused; 2 cannot be read or written.
    """
    root = root or corpus_root()
    try:
        with exit_if_unusable(dist):
            check_target(dist)
            old = read_version(since) if since else None
            _current(root)
            files = release_files(root, _license(root), old)
            fresh = write_release(files, dist)
    except ReleaseError as err:
        raise click.ClickException(str(err)) from err
    if not fresh:
        click.echo(f"{dist} holds this release already")
        return
    for name, data in files.items():
        click.echo(f"{dist / name}  {byte_count(len(data))}")
    changes = json.loads(files[CHANGES])
    what = f"since {old.number}" if isinstance(old, Version) else "first release"
    click.echo(f"corpus {changes['new']['corpus_version']}, {what}: {len(changes['added'])} cases added")


@click.command(context_settings=HELP)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the packages, new or empty.",
)
@click.option("--go-module", default=GO_MODULE, show_default=True, help="Path of the module in Go.")
@folder_option
def packages(output: Path, go_module: str, root: Path | None) -> None:
    """Make packages of the corpus for cargo, npm, Go and Python.

    Each holds all cases, their files and a few lines to get at them. DIR gets a .crate, a .tgz, a .zip and a
    wheel, byte-identical on every build and all at once. Nothing is published.

    \b
    Exit status: 0 made, or DIR holds them already; 1 refused; 2 cannot be read or written.
    """
    root = root or corpus_root()
    try:
        with exit_if_unusable(output):
            check_target(output)
            made = make_packages(root, _license(root), go_module)
            fresh = write_release({one.name: one.data for one in made}, output)
    except ReleaseError as err:
        raise click.ClickException(str(err)) from err
    for one in made:
        click.echo(f"{one.registry:<10} {output / one.name}  {byte_count(len(one.data))}")
    if not fresh:
        click.echo(f"{output} holds them already")


def _current(root: Path) -> None:
    lines = builder.differences(builder.build(), root)
    if lines:
        first = " ".join(lines[0].split())
        raise ReleaseError(f"{len(lines)} files are not current ({first}, …); run: stc corpus build")


def _license(root: Path) -> bytes:
    """Return the licence: beside the corpus in a checkout, inside of an unpacked release."""
    for folder in (root, root.resolve().parent):
        if (folder / "LICENSE").is_file():
            return (folder / "LICENSE").read_bytes()
    raise ReleaseError(f"there is no LICENSE in {root} or beside it; make releases from a checkout")
