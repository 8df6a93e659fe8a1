"""``stc check``: checks files and reports every broken rule together with the bytes that break it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ..files.names import is_index, is_remote
from ..files.progress import ProgressBar
from ..files.walk import expand_paths
from ..rules.book import PROFILES, TEXT_ANSWERS, ProfileName
from ..rules.faults import shown_name, without_name
from ..source import UnreadableError
from .digests import DigestResult, sha256_of, state_of
from .output import (
    final_line,
    print_brief,
    print_brief_model,
    print_line,
    print_model,
    print_result,
    unread_model_line,
    unreadable_line,
)
from .result import FolderModels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..files.names import FileInput
    from .digests import DigestList
    from .result import CheckResult, ModelResult, Status
    from .sarif import SarifLog
    from .statement import CheckRecord

MAX_FAULTS = 20
INTERRUPTED = 130

EXIT_STATUS = {"valid": 0, "invalid": 1, "unreadable": 2}
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each file, one per line.")
@click.option(
    "--sarif",
    "sarif_path",
    type=_FILE,
    metavar="FILE",
    help="Also write all results to FILE in the SARIF 2.1.0 format for code scanning services.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="hardened",
    show_default=True,
    help=f"Profile to use where readers may differ; {TEXT_ANSWERS}.",
)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help=f"Print every fault instead of only the first {MAX_FAULTS} faults per file.",
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print one line for each file with faults and nothing for valid files.",
)
@click.option(
    "--digests",
    "digests_path",
    type=_FILE,
    metavar="FILE",
    help="Compare the SHA-256 of every file with FILE, a list in the format of sha256sum. This option "
    "reads whole files.",
)
@click.option(
    "--intoto",
    "intoto_path",
    type=_FILE,
    metavar="FILE",
    help="Also write an unsigned in-toto statement with the SHA-256 of each file to FILE.",
)
@click.option(
    "--cyclonedx",
    "cyclonedx_path",
    type=_FILE,
    metavar="FILE",
    help="Also write a CycloneDX bill of materials with the SHA-256 of each file to FILE.",
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
    stc check model.safetensors        check one file
    stc check models/llama             check every file and every model below a directory
    stc check hf://org/model           check a repository on the Hub; needs the remote extra

    PATH is a file, a pattern such as 'models/**/*.safetensors', a directory, hf://ORG/MODEL[@REVISION][/FOLDER]
    or the https:// address of a file. If PATH is a directory, every *.safetensors and
    *.safetensors.index*.json file below it is checked. An index (*.index.json) is checked together with its
    shards.

    For every fault, stc check prints the broken rule, the fault, its position and the bytes around it. It
    reads the length prefix and the header, but never the data buffer. After checking several files, it also
    prints the number of valid, invalid and unreadable files on standard error.

    If a directory contains an index, or numbered files such as model-00001-of-00003.safetensors, stc check
    also checks these files together as one model. It reports missing shards, a wrong total size, tensors that
    are missing, misplaced or duplicated, and files left over from an earlier save. For each model, one line
    shows whether it is whole.

    \b
    Exit status:
      0    all files are valid, all models are whole and all digests match the list
      1    at least one file or model has a fault, or a digest does not match
      2    at least one file could not be read, or an output file could not be written
      130  interrupted (Ctrl-C)
    """
    written = {"--sarif": sarif_path, "--intoto": intoto_path, "--cyclonedx": cyclonedx_path}
    _check_options(paths, written, digests_path)
    session = Session(cast("ProfileName", profile), as_json, quiet, None if show_all else MAX_FAULTS)
    # Most runs write neither a log nor a record, so those modules are imported only here.
    if sarif_path is not None:
        from .sarif import SarifLog

        session.log = SarifLog(profile)
    if digests_path is not None:
        session.digests = _digests(digests_path, paths)
    if intoto_path is not None or cyclonedx_path is not None:
        from .statement import CheckRecord

        session.checked = CheckRecord(session.profile)
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
    # A statement about some of the files would look like a statement about all of them.
    if session.checked is not None and not interrupted:
        _write_checked(session.checked, intoto_path, cyclonedx_path)
    raise SystemExit(status)


def _check_options(paths: tuple[str, ...], written: dict[str, Path | None], digests: Path | None) -> None:
    for option, path in written.items():
        # Without this check, a typing mistake could overwrite a model with the log.
        if path is not None and (path.suffix == ".safetensors" or is_index(path.name)):
            kind = "an index" if is_index(path.name) else "a model file"
            raise click.UsageError(f"{option} {shown_name(str(path))}: would overwrite {kind}")
    remote = next((path for path in paths if is_remote(path)), None)
    if remote is not None:
        used = {"--digests": digests, "--intoto": written["--intoto"], "--cyclonedx": written["--cyclonedx"]}
        for option, path in used.items():
            if path is not None:
                text = "this option reads whole files, so it works only for local files"
                raise click.UsageError(f"{option} with {shown_name(remote)}: {text}")
    if written["--cyclonedx"] is not None:
        try:
            import cyclonedx.output  # noqa: F401 - fail before reading files
        except ImportError as err:
            from .bom import NEEDED

            raise click.UsageError(f"--cyclonedx {NEEDED}") from err


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


@dataclass
class Session:
    """Options and totals of one run of ``stc check``."""

    profile: ProfileName
    as_json: bool = False
    quiet: bool = False
    limit: int | None = None  # maximum number of faults to print per file
    log: SarifLog | None = None
    digests: DigestList | None = None
    checked: CheckRecord | None = None
    statuses: Counter[Status] = field(default_factory=Counter)
    models: Counter[Status] = field(default_factory=Counter)

    def run(self, paths: Sequence[str]) -> None:
        with ProgressBar(() if any(map(is_remote, paths)) else paths) as bar:
            for folder, items in expand_paths(paths):
                models = FolderModels(folder, self.profile)
                for item in items:
                    self._file(item, models, bar)
                    bar.advance()
                for model in models.judge():
                    self._model(model, bar)
            if self.digests is not None:
                for result in self.digests.rest():
                    self._digest(result, bar)

    @property
    def exit_status(self) -> int:
        status = max(EXIT_STATUS[s] for s in (*self.statuses, *self.models, "valid"))
        answers = Counter() if self.digests is None else self.digests.answers
        if answers["unreadable"]:
            return 2
        return max(status, int(answers.total() > answers["as listed"]))

    def _file(self, item: FileInput, models: FolderModels, bar: ProgressBar) -> None:
        hashing = self.digests is not None or self.checked is not None
        state = state_of(item.address) if hashing else None
        result = models.check(item)
        self.statuses[result.status] += 1
        if self.log is not None:
            self.log.add(result)
        if self.as_json or not self.quiet or result.status != "valid":
            with bar.hidden(to_stderr=result.status == "unreadable"):
                if self.as_json:
                    click.echo(result.to_json())
                elif result.status == "unreadable":
                    click.echo(unreadable_line(result), err=True)
                elif self.quiet:
                    print_brief(print_line, result)
                else:
                    print_result(print_line, result, self.limit)
        if hashing and not item.problem:
            self._hash(result, state, bar)

    def _hash(self, result: CheckResult, state: tuple[int, int, int, int] | None, bar: ProgressBar) -> None:
        found = why = None
        try:
            found = sha256_of(result.name, state)
        except UnreadableError as err:
            why = without_name(str(err), result.name)
        if self.checked is not None:
            self.checked.add_file(result, found)
            if why is not None and result.status != "unreadable" and self.digests is None:
                self._digest(DigestResult(result.name, "unreadable", why=why), bar)
                self.statuses["unreadable"] += 1
        if self.digests is not None:
            self._digest(self.digests.compare(result.name, found, why), bar)

    def _digest(self, result: DigestResult, bar: ProgressBar) -> None:
        wrong = result.answer != "as listed"
        if wrong and self.log is not None:
            self.log.add_digest(result)
        if wrong and self.checked is not None:
            self.checked.failed.append(result.name)
        if not self.as_json and not wrong:
            return
        unreadable = result.answer == "unreadable"
        with bar.hidden(to_stderr=unreadable):
            if self.as_json:
                click.echo(result.to_json())
            else:
                text = shown_name(f"{result}")
                click.echo(f"{shown_name(result.name)}: {text}{' (IO_ERROR)' * unreadable}", err=unreadable)

    def _model(self, result: ModelResult, bar: ProgressBar) -> None:
        self.models[result.status] += 1
        if self.log is not None:
            self.log.add_model(result)
        if self.checked is not None:
            self.checked.add_model(result)
        # With --quiet, do not repeat faults that were already printed for the files.
        own = any(finding.kind == "fault" for finding in result.model_only)
        if self.quiet and not self.as_json and not own and result.status != "unreadable":
            return
        with bar.hidden(to_stderr=result.status == "unreadable"):
            if self.as_json:
                click.echo(result.to_json())
            elif result.status == "unreadable":
                click.echo(unread_model_line(result), err=True)
            elif self.quiet:
                print_brief_model(print_line, result)
            else:
                print_model(print_line, result, self.limit)
