"""``stc site``: write everything that is published as static files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from safetensors_corpus.cli.common import folder_option, load
from safetensors_reference.main import UnusableError
from safetensors_reference.rules.cli import docs_folder
from safetensors_reports.audit.inputs import AuditError
from safetensors_reports.site.data import Program
from safetensors_reports.site.data import load as load_data

from ..implementations.descriptor import KINDS, descriptors
from .common import reported_as


def programs() -> list[Program]:
    return [
        Program(d.name, d.title, KINDS[d.kind], d.language, d.homepage, d.issues, d.note)
        for d in descriptors().values()
    ]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def site() -> None:
    """Write the website: rules, cases, programs, releases, reports and documents as static files."""


@site.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("site"),
    show_default=True,
    metavar="DIR",
    help="Folder to write to; an older site in it is replaced.",
)
@click.option(
    "--repository",
    default="",
    metavar="URL",
    help="URL of the repository, used to link to files that are not pages. Without it, those files are shown "
    "as plain names.",
)
@folder_option
def build(output: Path, repository: str, root: Path | None) -> None:
    """Write the site from committed files. This takes half a minute and needs no network and no runs.

    The pages and the search work on a web server and without one (open index.html). The command
    needs `pip install "safetensors-conformance[site]"` and a checkout.

    \b
    Examples
      stc site build
      stc site build -o public --repository https://github.com/OWNER/NAME

    \b
    Exit status: 0 if the site was written, 2 if an input is missing or unusable.
    """
    docs = docs_folder()
    if docs is None:
        raise UnusableError("this is not a checkout of the project")
    if find_spec("furo") is None or find_spec("myst_parser") is None:
        raise UnusableError(
            'Sphinx, MyST and Furo are needed; run: pip install "safetensors-conformance[site]"'
        )
    if repository and not repository.startswith("https://"):
        raise click.UsageError("--repository must be a URL that begins with https://")
    from safetensors_reports.site.generator import SiteError, build_site

    with reported_as(UnusableError, SiteError, AuditError, OSError):
        data = load_data(docs.parent, load(root), programs(), repository)
        number = build_site(data, output)
    click.echo(f"{number:,} pages: {output / 'index.html'}")
