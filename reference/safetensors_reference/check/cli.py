"""``stc check``: are these files valid, and if not, which rules are broken by which bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ..model.names import is_index
from ..remote import is_remote
from ..rules.book import PROFILES, TEXT_ANSWERS, ProfileName
from ..rules.faults import shown_name
from ..source import UnreadableError
from .output import final_line
from .session import Session

if TYPE_CHECKING:
    from .digests import DigestList
    from .sarif import SarifLog
    from .statement import CheckRecord

MAX_FAULTS = 20
"""Faults printed per file; --all prints the rest."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell gives it: 128 and the number of SIGINT."""

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file and line.")
@click.option(
    "--sarif",
    "sarif_path",
    type=_FILE,
    metavar="FILE",
    help="Also write all results to FILE as SARIF 2.1.0, for code scanning services.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="hardened",
    show_default=True,
    help=f"Whose answer to take where readers legitimately differ; {TEXT_ANSWERS}.",
)
@click.option(
    "--all", "show_all", is_flag=True, help=f"Print every fault, not only the first {MAX_FAULTS} of a file."
)
@click.option("-q", "--quiet", is_flag=True, help="One line for each file with faults, none for a valid one.")
@click.option(
    "--digests",
    "digests_path",
    type=_FILE,
    metavar="FILE",
    help="Hold every file against FILE, a list as sha256sum writes it; reads the files whole.",
)
@click.option(
    "--intoto",
    "intoto_path",
    type=_FILE,
    metavar="FILE",
    help="Also write to FILE an unsigned in-toto statement about the files, bound to their SHA-256.",
)
@click.option(
    "--cyclonedx",
    "cyclonedx_path",
    type=_FILE,
    metavar="FILE",
    help="Also write to FILE a CycloneDX bill of materials with the SHA-256 of the files.",
)
def check(
    paths: tuple[str, ...],
    as_json: bool,
    sarif_path: Path | None,
    profile: str,
    show_all: bool,
    quiet: bool,
    digests_path: Path | None,
    intoto_path: Path | None,
    cyclonedx_path: Path | None,
) -> None:
    """Check that files obey every rule of the safetensors format.

    \b
    stc check model.safetensors        this file
    stc check models/llama             every file below a folder, and each model of several files as one
    stc check hf://org/model           the same on the Hub; reads headers only (extra remote)

    PATH is a file, a pattern such as 'models/**/*.safetensors', or a directory, which stands for every
    *.safetensors and *.safetensors.index*.json below it. An index (*.index.json) is checked together with
    the shards it names. Or it is hf://ORG/MODEL[@REVISION][/FOLDER], or the https:// address of a file.

    Every fault is printed with its rule, what was found, where it stands, and the bytes around it. Only the
    length prefix and the header are read, never the data buffer. For several files a count follows on
    standard error.

    In a directory, the files of an index or with numbers such as model-00001-of-00003.safetensors are also
    judged as one model: missing shards, tensors that are missing, elsewhere or twice, a wrong total, and
    files left over from another save. One line says whether the model is whole.

    \b
    Exit status:
      0    all files are valid, all models whole, all digests as listed
      1    at least one is not
      2    at least one cannot be read, or a file asked for cannot be written
      130  interrupted (Ctrl-C)
    """
    written = {"--sarif": sarif_path, "--intoto": intoto_path, "--cyclonedx": cyclonedx_path}
    _check_options(paths, written, digests_path)
    session = Session(
        cast("ProfileName", profile),
        as_json,
        quiet,
        None if show_all else MAX_FAULTS,
        None if sarif_path is None else _new_log(profile),
        None if digests_path is None else _digests(digests_path, paths),
        None if intoto_path is None and cyclonedx_path is None else _new_checked(profile),
    )
    interrupted = False
    try:
        session.run(paths)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted or session.statuses.total() > 1:
        click.echo(final_line(session.statuses, session.models, interrupted=interrupted), err=True)
    if session.digests is not None and not interrupted:
        click.echo(session.digests.final_line(), err=True)
    status = INTERRUPTED if interrupted else session.exit_status
    if sarif_path is not None and session.log is not None:
        _write(sarif_path, session.log.to_text(status))
    # A statement about a part of the files would pass for one about all.
    if session.checked is not None and not interrupted:
        _write_checked(session.checked, intoto_path, cyclonedx_path)
    raise SystemExit(status)


def _check_options(paths: tuple[str, ...], written: dict[str, Path | None], digests: Path | None) -> None:
    for option, path in written.items():
        # One slip of the hand would replace a model by a log about it.
        if path is not None and (path.suffix == ".safetensors" or is_index(path.name)):
            what = "an index" if is_index(path.name) else "a model file"
            raise click.UsageError(f"{option} {shown_name(str(path))}: would be written over {what}")
    remote = next((path for path in paths if is_remote(path)), None)
    if remote is not None:
        used = {"--digests": digests, "--intoto": written["--intoto"], "--cyclonedx": written["--cyclonedx"]}
        for option, path in used.items():
            if path is not None:
                text = "digests are of whole files, which are read on this machine only"
                raise click.UsageError(f"{option} with {shown_name(remote)}: {text}")
    if written["--cyclonedx"] is not None:
        try:
            import cyclonedx.output  # noqa: F401 - to say so before files are read
        except ImportError as err:
            from .bom import NEEDED

            raise click.UsageError(f"--cyclonedx {NEEDED}") from err


def _new_log(profile: str) -> SarifLog:
    # Most runs want no log, so that they need not load what makes one.
    from .sarif import SarifLog

    return SarifLog(profile)


def _new_checked(profile: str) -> CheckRecord:
    from .statement import CheckRecord

    return CheckRecord(cast("ProfileName", profile))


def _digests(path: Path, paths: tuple[str, ...]) -> DigestList:
    from .digests import DigestList, DigestListError

    try:
        return DigestList(path, [name for name in paths if Path(name).is_dir()])
    except DigestListError as err:
        raise click.UsageError(f"--digests {shown_name(str(path))}: {err}") from err
    except UnreadableError as err:
        click.echo(f"--digests {shown_name(str(err))} (IO_ERROR)", err=True)
        raise SystemExit(2) from err


def _write_checked(checked: CheckRecord, intoto: Path | None, cyclonedx: Path | None) -> None:
    from .bom import bom_text
    from .statement import statement_text

    for path, make in ((intoto, statement_text), (cyclonedx, bom_text)):
        if path is not None:
            try:
                text = make(checked)
            except ValueError as err:
                click.echo(f"{shown_name(str(path))}: not written: {err} (IO_ERROR)", err=True)
                raise SystemExit(2) from err
            _write(path, text)


def _write(path: Path, text: str) -> None:
    from ..writing.atomic import NotSavedError
    from ..writing.report import write_report

    try:
        write_report(path, text)
    except NotSavedError as err:
        click.echo(f"{shown_name(str(err))} (IO_ERROR)", err=True)
        raise SystemExit(2) from err
