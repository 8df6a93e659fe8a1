"""``stc corpus build``, ``copy``, ``verify``, ``stats``, ``release`` and ``packages``."""

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
from safetensors_reference.main import UnusableError
from safetensors_reference.text import plural

from ..document import MANIFEST, read_document
from ..manifest import load_manifest, load_reasons
from ..packed import corpus_root
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
from ..publish.stats import coverage_errors, statistics, stored_bytes
from .common import HELP, exit_if_unusable, folder_option, load, matches


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on standard error. Yields a function that marks one item as finished."""
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name[-50:])


@click.command(context_settings=HELP)
@click.option("--check", is_flag=True, help="Write nothing; fail if a committed file is out of date.")
@click.option(
    "--allow-removal",
    is_flag=True,
    help="Allow the build to remove case ids (only before they are published).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Output folder.  [default: the project's corpus/]",
)
def build(check: bool, allow_removal: bool, output: Path | None) -> None:
    """Write the case files and corpus.json. Every run writes the same bytes.

    \b
    Exit status: 0 built or up to date, 1 out of date (--check), 2 a case contradicts the rules.
    """
    with exit_if_unusable(output or ""):
        root = output or corpus_root()
        built = builder.build()
    if check:
        lines = builder.differences(built, root)
        for line in lines:
            click.echo(line)
        if lines:
            click.echo(f"out of date: {plural(len(lines), 'file')}; run: stc corpus build")
            raise SystemExit(1)
        click.echo(f"corpus is up to date: {built.cases} cases, {len(built.files)} files")
        return
    lost = builder.lost_ids(built, root)
    if lost and not allow_removal:
        names = ", ".join(lost[:5]) + (" …" if len(lost) > 5 else "")
        raise click.ClickException(
            f"{len(lost)} case ids would disappear ({names}); ids are permanent, so withdraw the cases "
            "instead"
        )
    with exit_if_unusable(root):
        written, removed = builder.write(built, root)
    click.echo(
        f"{plural(built.cases, 'case')} in {root}: {plural(written, 'file')} written, {removed} removed"
    )


@click.command(context_settings=HELP)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("pattern", default="")
@click.option("--recipes", is_flag=True, help="Also create the files that recipes describe.")
@click.option(
    "--large", is_flag=True, help="With --recipes, also create files above 256 MiB (holes stay sparse)."
)
@click.option("--force", is_flag=True, help="Copy into a folder that is not empty, and keep its other files.")
@folder_option
def copy(folder: Path, pattern: str, recipes: bool, large: bool, force: bool, root: Path | None) -> None:
    """Copy the corpus into a folder to vendor it.

    Writes corpus.json, its schema and the case files to DIR. PATTERN selects the cases whose id, rules or
    choice contain it; corpus.json then lists only these cases. To resume an interrupted copy, use --force.

    \b
    Exit status: 0 copied, 1 DIR is not empty or the copy was interrupted, 2 error.
    """
    if large and not recipes:
        raise click.UsageError("--large requires --recipes")
    with exit_if_unusable(folder):
        manifest = load_manifest(root)
    target = folder.resolve()
    if target == manifest.root.resolve() or target in manifest.root.resolve().parents:
        raise click.UsageError(f"{folder} contains the corpus that would be copied")
    with exit_if_unusable(folder):
        if folder.exists() and any(folder.iterdir()) and not force:
            raise click.ClickException(f"{folder} is not empty; empty it or use --force")
    chosen = {c.id for c in manifest.cases if matches(c, pattern)} if pattern else None
    if chosen is not None and not chosen:
        raise UnusableError(f"no case matches {pattern!r}")
    with exit_if_unusable(folder):
        plan = plan_copy(manifest.root, chosen, recipes=recipes, large=large)
        _execute(plan, folder)
    files = plural(len(plan.stored), "file")
    if recipes:
        total = sum(case["input"]["size"] for case in plan.made)
        files += f", {plural(len(plan.made), 'recipe file')} of {byte_count(total)} in total"
    cases = len(manifest.cases) if chosen is None else len(chosen)
    click.echo(f"{folder}: {plural(cases, 'case')} of corpus {manifest.version}, {files}; see its README.txt")
    if plan.left_out:
        click.echo(f"skipped because they are above 256 MiB (use --large): {', '.join(plan.left_out)}")


def _execute(plan: CopyPlan, folder: Path) -> None:
    """Copy with a progress bar. On Ctrl-C, exit with a message that says how many files are missing."""
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
            state = f"the corpus is complete except for {plural(missing, 'recipe file')}"
        else:
            state = f"{missing} of {plan.steps} files are missing, including corpus.json"
        raise click.ClickException(
            f"stopped: {state}; to resume, run the command again with --force"
        ) from None


@click.command(context_settings=HELP)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--heavy", is_flag=True, help="Also check the recipes of heavy cases (slow).")
def verify(folder: Path | None, heavy: bool) -> None:
    """Check a copy of the corpus for changed, missing and extra files.

    DIR is a folder with a corpus.json; by default, it is the corpus of this installation. Validates the
    manifest against its schema, and checks the size and SHA-256 of every file. Expands recipes in memory to
    check their digests, and compares the files in recipes/ with their recipes.

    \b
    Exit status: 0 intact, 1 problems (one line each), 2 no usable corpus.json.
    """
    with exit_if_unusable(folder or ""):
        root = folder or corpus_root()
        raw = read_document(root / MANIFEST).raw
    cases = raw.get("cases")
    total = len(cases) if isinstance(cases, list) else 0
    with _progress("verifying", total) as tick:
        issues = list(problems(root, raw, heavy=heavy, tick=tick))
    for problem in issues:
        click.echo(problem)
    if issues:
        click.echo(f"{root}: {plural(len(issues), 'problem')}")
        raise SystemExit(1)
    left = 0 if heavy else sum(case["heavy"] and case["status"] == "active" for case in raw["cases"])
    note = f"; {plural(left, 'heavy recipe')} not checked (use --heavy)" if left else ""
    click.echo(f"{root}: corpus {raw['corpus_version']} is intact, {plural(total, 'case')}{note}")


@click.command(context_settings=HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--check", is_flag=True, help="Compare the rule coverage with coverage.toml, and print discrepancies."
)
@folder_option
def stats(as_json: bool, check: bool, root: Path | None) -> None:
    """Count the cases and show which rules they cover.

    A rule is covered from both sides if at least one case requires acceptance and at least one requires
    rejection. In a case with a choice, each option counts. coverage.toml gives the reason for each missing
    side.

    \b
    Exit status: 0 success; 1 if a side of a must-rule is neither covered nor explained, or is both (--check).
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
            errors.append(f"corpus.json and the rule book differ ({', '.join(late)}); run: stc corpus build")
        for error in errors:
            click.echo(error)
        if errors:
            click.echo(f"{len(errors)} contradictions between rules, cases and coverage.toml")
            raise SystemExit(1)
        click.echo("every side of every must-rule is covered or explained")
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
        f"stored {byte_count(numbers['stored_bytes'])}, including {numbers['files']:,} files with "
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
        gap = "neither accept nor reject" if len(row["sides"]) == 2 else f"no {row['sides'][0]}"
        yield from _wrapped(f"  {rule} ({row['level']}) {gap}: ", "; ".join(reasons))


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
    help="Previous release: its corpus.json, its folder or its archive. Without it, every case is new.",
)
@folder_option
def release(dist: Path, since: Path | None, root: Path | None) -> None:
    """Pack a release: the archive, the checksums and the list of changes.

    Writes safetensors-corpus-VERSION.tar, corpus.json, changes.json and SHA256SUMS to DIST. Writes all of
    these files or none. Every run writes the same bytes. Fails if the corpus is out of date, if case ids of
    OLD are missing, or if the corpus differs from OLD but has the same version.

    \b
    Exit status: 0 packed, or DIST already contains this release; 1 refused; 2 read or write error.
    """
    try:
        with exit_if_unusable(dist):
            root = root or corpus_root()
            check_target(dist)
            old = read_version(since) if since else None
            if lines := builder.differences(builder.build(), root):
                first = " ".join(lines[0].split())
                raise ReleaseError(
                    f"out of date: {plural(len(lines), 'file')} ({first}, …); run: stc corpus build"
                )
            files = release_files(root, _license(root), old)
            written = write_release(files, dist)
    except ReleaseError as err:
        raise click.ClickException(str(err)) from err
    if not written:
        click.echo(f"{dist} already contains this release")
        return
    for name, data in files.items():
        click.echo(f"{dist / name}  {byte_count(len(data))}")
    changes = json.loads(files[CHANGES])
    baseline = f"since {old.number}" if isinstance(old, Version) else "first release"
    added = plural(len(changes["added"]), "case")
    click.echo(f"corpus {changes['new']['corpus_version']}, {baseline}: {added} added")


@click.command(context_settings=HELP)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Output folder, which must be new or empty.",
)
@click.option("--go-module", default=GO_MODULE, show_default=True, help="Module path of the Go package.")
@folder_option
def packages(output: Path, go_module: str, root: Path | None) -> None:
    """Package the corpus for cargo, npm, Go and Python.

    Each package contains all cases, their files and a small API. Writes a .crate, a .tgz, a .zip and a wheel.
    Writes all of these files or none. Every run writes the same bytes. Does not publish anything.

    \b
    Exit status: 0 written, or the folder already contains them; 1 refused; 2 read or write error.
    """
    try:
        with exit_if_unusable(output):
            root = root or corpus_root()
            check_target(output)
            made = make_packages(root, _license(root), go_module)
            written = write_release({package.name: package.data for package in made}, output)
    except ReleaseError as err:
        raise click.ClickException(str(err)) from err
    for package in made:
        click.echo(f"{package.registry:<10} {output / package.name}  {byte_count(len(package.data))}")
    if not written:
        click.echo(f"{output} already contains these packages")


def _license(root: Path) -> bytes:
    # The licence is beside the corpus in a checkout, and inside it in an unpacked release.
    for folder in (root, root.resolve().parent):
        if (folder / "LICENSE").is_file():
            return (folder / "LICENSE").read_bytes()
    raise ReleaseError(f"there is no LICENSE in {root} or beside it; make releases from a checkout")
