"""``stc rules``: shows the rule book and generates its pages."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import click

from .book import BASES, PROFILES, Choice, Rule, rule_book
from .pages import disputed_page, header_schema_text, rules_page

PAGES = {"rules.md": rules_page, "disputed.md": disputed_page, "header.schema.json": header_schema_text}


def docs_folder() -> Path | None:
    root = Path(__file__).resolve().parents[3]
    return root / "docs" if (root / "pyproject.toml").exists() else None


@click.group()
def rules() -> None:
    """Look up the rules of the format, and generate the pages about them."""


@rules.command()
@click.option("--check", is_flag=True, help="Write nothing, and fail if a page is out of date.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write the pages to.  [default: the project's docs/]",
)
def build(check: bool, output: Path | None) -> None:
    """Write rules.md, disputed.md and header.schema.json. The output is the same on every run.

    \b
    Exit status:
      0    the pages were written, or were up to date
      1    a page is out of date (with --check)
      2    a page could not be written
    """
    folder = output or docs_folder()
    if folder is None:
        text = "this package is not in a checkout of the project; give a folder with --output"
        raise click.UsageError(text)
    stale = []
    for name, generate in PAGES.items():
        path = folder / name
        data = generate().encode()
        if path.is_file() and path.read_bytes() == data:
            continue
        stale.append(name)
        if check:
            click.echo(f"{path} is out of date; run: stc rules build")
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as err:
            click.echo(f"{path}: {err.strerror or err}", err=True)
            raise SystemExit(2) from err
        click.echo(f"wrote {path}")
    if not stale:
        click.echo(f"current: {', '.join(PAGES)} in {folder}")
    raise SystemExit(1 if check and stale else 0)


SHOWN_RULES = 10
"""Maximum number of rules to list for a word."""


@rules.command()
@click.argument("identifier", metavar="ID|WORD")
def show(identifier: str) -> None:
    """Show one rule (such as OFF-07), choice (such as metadata-null) or fault code (such as OFF_HOLE).

    For any other word, the command lists the rules that contain it.
    """
    book = rule_book()
    everything = {key.lower(): key for key in (*book.rules, *book.choices, *book.codes)}
    key = everything.get(identifier.lower())
    if key is None:
        word = identifier.lower()
        found = [r for r in book.rules.values() if word in f"{r.title} {r.statement}".lower()]
        if not found:
            near = difflib.get_close_matches(word, everything, n=3)
            hint = f"; did you mean {', '.join(everything[n] for n in near)}?" if near else ""
            raise click.UsageError(f"there is no rule, choice or code {identifier!r}{hint}")
        for rule in found[:SHOWN_RULES]:
            click.echo(f"{rule.id}  {rule.title}")
        if len(found) > SHOWN_RULES:
            click.echo(f"… {len(found) - SHOWN_RULES:,} more")
        return
    if key in book.rules:
        lines = _rule(book.rules[key])
    else:
        lines = _choice(book.choices[key]) if key in book.choices else _code(key)
    for line in lines:
        click.echo(line)


def _rule(rule: Rule) -> Iterator[str]:
    yield f"{rule.id} ({rule.level}): {rule.title}"
    yield rule.statement
    yield f"  {'basis':<9} {rule.basis}: {BASES[rule.basis]}"
    for profile in PROFILES:
        yield f"  {profile:<9} {getattr(rule, profile)}"
    for choice in rule_book().choices.values():
        if choice.rule == rule.id:
            yield f"  choice    {choice.id}"
    if rule.codes:
        yield f"  codes     {', '.join(rule.codes)}"
    yield f"  source    {rule.source}"
    yield f"  cases     stc corpus list --rule {rule.id}"


def _choice(choice: Choice) -> Iterator[str]:
    yield f"{choice.id} (choice of rule {choice.rule}): {choice.title}"
    yield choice.description
    if choice.settled:
        cases = ", ".join(choice.settled)
        yield f"  settled: no project supports a different answer; see the cases of {cases}"
    for option, meaning in choice.options.items():
        notes = ", ".join([*choice.takers(option), *(["required"] if choice.required == option else [])])
        yield f"  {option}: {meaning}{f' ({notes})' if notes else ''}"


def _code(code: str) -> Iterator[str]:
    book = rule_book()
    yield f"{code}: {book.codes[code]}"
    for rule in book.rules.values():
        if code in rule.codes:
            yield f"  {rule.id} ({rule.level}): {rule.title}"
