"""``stc check``: checks files and reports every broken rule together with the bytes that break it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..files.names import FileInput, is_index, is_remote
from ..files.walk import ProgressBar, expand_paths
from ..header.explain import draw_layout
from ..header.likeness import CUT_SHORT
from ..main import INTERRUPTED
from ..model.index import IndexNote
from ..rules.book import PROFILES, TEXT_ANSWERS, ProfileName, rule_book
from ..rules.faults import Fault, render_path
from ..source import Source, UnreadableError, open_source
from ..text import hexview, plural, printable, shorten, shown_name
from .digests import Answer, DigestList, DigestResult, HubDigests, State, digest_of, state_of
from .digests import final_line as digests_line
from .result import CheckResult, FolderModels, ModelResult

if TYPE_CHECKING:
    from ..model.judge import Status
    from .sarif import SarifLog
    from .statement import CheckRecord

MAX_FAULTS = 20
MAX_NOTES = 3
EXIT_STATUS: dict[Status, int] = {"valid": 0, "invalid": 1, "unreadable": 2}
_FILE = click.Path(dir_okay=False, path_type=Path)


class _DigestSource(click.Path):
    """A file, or the word ``hub`` even if the current folder contains a folder with this name."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not value:
            self.fail("the name of the file is empty", param, ctx)
        return Path(value) if value == "hub" else super().convert(value, param, ctx)


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
    "--alignment",
    type=click.IntRange(1, 1 << 40),
    metavar="N",
    help="Also report how many tensors and bytes are aligned to N bytes.",
)
@click.option(
    "--digests",
    "digests_path",
    type=_DigestSource(dir_okay=False, path_type=Path),
    metavar="FILE|hub",
    help="Compare the SHA-256 of every file with the digest listed in FILE, which must have the format of "
    "sha256sum output. With 'hub', compare files in a Hub cache with the digests in the names of their "
    "blobs. This option reads whole files.",
)
@click.option(
    "--intoto",
    "intoto_path",
    type=_FILE,
    metavar="FILE",
    help="Also write to FILE an unsigned in-toto statement with the SHA-256 of each file.",
)
@click.option(
    "--cyclonedx",
    "cyclonedx_path",
    type=_FILE,
    metavar="FILE",
    help="Also write to FILE a CycloneDX bill of materials with the SHA-256 of each file.",
)
def check(
    paths: tuple[str, ...],
    as_json: bool,
    sarif_path: Path | None,
    profile: str,
    show_all: bool,
    quiet: bool,
    alignment: int | None,
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

    stc check reads the length prefix and the header of a file, but never the data buffer. For every fault, it
    prints the broken rule, the fault, its position and the bytes around it. After checking several files, it
    also prints the number of valid, invalid and unreadable files on standard error.

    If a directory contains an index, or numbered files such as model-00001-of-00003.safetensors, stc check
    also checks these files together as one model. Possible faults of a model are missing shards, a wrong
    total size, tensors that are missing, misplaced or duplicated, and files left over from an earlier save. A
    model without any of these faults is reported as whole.

    \b
    Exit status:
      0    all files are valid, all models are whole and all digests match the list
      1    at least one file or model has a fault, or a digest does not match
      2    at least one file could not be read, or an output file could not be written
      130  interrupted (Ctrl-C)
    """
    whole = {"--digests": digests_path, "--intoto": intoto_path, "--cyclonedx": cyclonedx_path}
    _check_options(paths, sarif_path, whole)
    limit = None if show_all else MAX_FAULTS
    session = Session(cast("ProfileName", profile), as_json, quiet, limit, alignment)
    # Most runs write neither a log nor a record, so those modules are imported only here.
    if sarif_path is not None:
        from .sarif import SarifLog

        session.log = SarifLog(profile)
    if digests_path is not None:
        session.digests = _load_digests(digests_path, paths)
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
        click.echo(digests_line(session.answers), err=True)
    status = INTERRUPTED if interrupted else session.exit_status
    if sarif_path is not None and session.log is not None:
        _write(sarif_path, session.log.to_text(status))
    # A statement about some of the files would look like a statement about all of them.
    if session.checked is not None and not interrupted:
        from .statement import bom_text, statement_text

        for path, make in ((intoto_path, statement_text), (cyclonedx_path, bom_text)):
            if path is not None:
                try:
                    _write(path, make(session.checked))
                except ValueError as err:
                    click.echo(f"{shown_name(str(path))}: not written: {err} (IO_ERROR)", err=True)
                    raise SystemExit(2) from err
    raise SystemExit(status)


def _check_options(paths: tuple[str, ...], sarif: Path | None, whole: dict[str, Path | None]) -> None:
    for option, path in {"--sarif": sarif, **whole}.items():
        # Without this check, a typo could cause the log to overwrite a model.
        if path is None or option == "--digests":
            continue
        if path.suffix == ".safetensors" or is_index(path.name):
            kind = "an index" if is_index(path.name) else "a model file"
            raise click.UsageError(f"{option} {shown_name(str(path))}: would overwrite {kind}")
    remote = next(filter(is_remote, paths), None)
    used = [option for option, path in whole.items() if path is not None]
    if remote is not None and used:
        text = "this option reads whole files, so it works only for local files"
        raise click.UsageError(f"{used[0]} with {shown_name(remote)}: {text}")
    if whole["--cyclonedx"] is not None:
        try:
            import cyclonedx.output  # noqa: F401 - fail before reading files
        except ImportError as err:
            text = "needs the sbom extra: pip install 'safetensors-conformance[sbom]'"
            raise click.UsageError(f"--cyclonedx {text}") from err


def _load_digests(path: Path, paths: tuple[str, ...]) -> DigestList | HubDigests:
    from .digests import DigestList, DigestListError, HubDigests

    if str(path) == "hub":
        return HubDigests()
    try:
        return DigestList(path, [name for name in paths if Path(name).is_dir()])
    except DigestListError as err:
        raise click.UsageError(f"--digests {shown_name(str(path))}: {err}") from err
    except UnreadableError as err:
        click.echo(f"--digests {shown_name(str(err))} (IO_ERROR)", err=True)
        raise SystemExit(2) from err


def _write(path: Path, text: str) -> None:
    from ..writing.atomic import NotSavedError, write_report

    try:
        write_report(path, text)
    except NotSavedError as err:
        click.echo(f"{shown_name(str(err))} (IO_ERROR)", err=True)
        raise SystemExit(2) from err


@dataclass
class Session:
    """Options and totals of one run of ``stc check``."""

    profile: ProfileName
    as_json: bool
    quiet: bool
    limit: int | None  # maximum number of faults to print per file
    alignment: int | None = None
    log: SarifLog | None = None
    digests: DigestList | HubDigests | None = None
    checked: CheckRecord | None = None
    statuses: Counter[Status] = field(default_factory=Counter)
    models: Counter[Status] = field(default_factory=Counter)
    compared: Counter[Status] = field(default_factory=Counter)
    answers: Counter[Answer] = field(default_factory=Counter)

    def run(self, paths: Sequence[str]) -> None:
        with ProgressBar(() if any(map(is_remote, paths)) else paths) as bar:
            for folder, items in expand_paths(paths):
                models = FolderModels(folder, self.profile, self.alignment)
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
        return max(EXIT_STATUS[s] for s in ("valid", *self.statuses, *self.models, *self.compared))

    def _file(self, item: FileInput, models: FolderModels, bar: ProgressBar) -> None:
        hashing = self.digests is not None or self.checked is not None
        state = state_of(item.address) if hashing else None
        result = models.check(item)
        self.statuses[result.status] += 1
        if self.log is not None:
            self.log.add(result)
        if self.as_json or not self.quiet or result.status != "valid":
            lines = brief_file_lines(result) if self.quiet else file_lines(result, self.limit)
            self._print(result, lines, bar)
        if hashing and not item.problem:
            self._hash(result, state, bar)

    def _hash(self, result: CheckResult, state: State | None, bar: ProgressBar) -> None:
        found, why = digest_of(result.name, state)
        if self.checked is not None:
            self.checked.add_file(result, found)
            if why is not None and result.status != "unreadable" and self.digests is None:
                self._digest(DigestResult(result.name, "unreadable", why=why), bar)
                self.statuses["unreadable"] += 1
        if self.digests is not None:
            self._digest(self.digests.compare(result.name, found, why), bar)

    def _digest(self, result: DigestResult, bar: ProgressBar) -> None:
        self.compared[result.status] += 1
        self.answers[result.answer] += 1
        if result.status != "valid":
            if self.log is not None:
                self.log.add_digest(result)
            if self.checked is not None:
                self.checked.failed.append(result.name)
        if self.as_json or result.status != "valid":
            code = " (IO_ERROR)" if result.status == "unreadable" else ""
            self._print(result, [f"{shown_name(result.name)}: {shown_name(result)}{code}"], bar)

    def _model(self, result: ModelResult, bar: ProgressBar) -> None:
        self.models[result.status] += 1
        for record in (self.log, self.checked):
            if record is not None:
                record.add_model(result)
        # With --quiet, do not repeat faults that were already printed for the files.
        own = any(finding.kind == "fault" for finding in result.model_only)
        if self.as_json or not self.quiet or own or result.status == "unreadable":
            lines = brief_model_lines(result) if self.quiet else model_lines(result, self.limit)
            self._print(result, lines, bar)

    def _print(
        self, result: CheckResult | ModelResult | DigestResult, lines: Iterable[str], bar: ProgressBar
    ) -> None:
        unreadable = result.status == "unreadable"
        color = False if os.environ.get("NO_COLOR") else True if os.environ.get("FORCE_COLOR") else None
        with bar.hidden(to_stderr=unreadable):
            for line in [result.to_json()] if self.as_json else lines:
                click.echo(line, err=unreadable and not self.as_json, color=color)


def brief_file_lines(result: CheckResult) -> Iterator[str]:
    if result.error is not None:
        yield f"{shorten(printable(result.error), 1000)} ({result.code})"
    else:
        codes = Counter(fault.code for fault in result.faults)
        count = plural(len(result.faults), "fault")
        yield f"{shown_name(result.name)}: {count}: {_counted(codes)}{result.hint}"


def file_lines(result: CheckResult, limit: int | None) -> Iterator[str]:
    if result.error is not None:
        yield from brief_file_lines(result)
        return
    name, faults = shown_name(result.name), result.faults
    for fault in result.tolerated:
        text = f"{printable(fault.message)} ({fault.rule}, tolerated by profile {result.profile})"
        yield f"{name}: note: {text}"
    yield from _note_lines(name, result.notes)
    if not faults:
        shards = "" if result.index is None else f" in {plural(len(result.index.shards), 'shard')}"
        sizes = plural(result.tensors or 0, "tensor"), plural(result.data_size or 0, "byte")
        text = f"valid, {sizes[0]}{shards}, {sizes[1]} of data"
        stats = result.alignment
        # Unaligned data is legal (OFF-11) but usually unwanted, so it is mentioned only where it occurs.
        if stats is not None and stats.unaligned:
            text += f"; {stats}"
        if stats is not None and stats.share is not None:
            text += f"; {stats.share}"
        yield f"{name}: {text}"
        return
    yield click.style(f"{name}: {plural(len(faults), 'fault')}{result.hint}", bold=True)
    more = "more"
    if limit is not None and result.looks_like is not None and result.looks_like.kind == CUT_SHORT:
        each = "tensors that extend" if len(faults) > 2 else "tensor that extends"
        limit, more = 1, f"more {each} past the end of the file"
    for fault in faults[:limit]:
        yield from _fault_lines(result.name, fault)
    if limit is not None and len(faults) > limit:
        yield f"  … and {len(faults) - limit:,} {more}; --all prints them"
    if not result.complete:
        memory = faults[-1].code == "LIM_MEMORY"
        why = "not enough memory" if memory else "the file has too many faults"
        yield f"  the reader stopped here: {why}"
    seen = result.explanation
    if seen is not None and seen.ranges and seen.data_start is not None:
        yield f"  data  {draw_layout(seen.ranges, seen.size - seen.data_start)}"


def _fault_lines(name: str, fault: Fault) -> Iterator[str]:
    last = f"..{fault.end - 1:#x}" if fault.end > fault.start else " (no bytes)"
    path = "" if fault.path is None else f"  {render_path(fault.path)}"
    yield from _rule_lines(fault.code, fault)
    yield f"    where  file {fault.start:#x}{last}{path}"
    if fault.choice is not None:
        yield f"    choice {fault.choice}: readers differ here (try stc check --profile official)"
    for line in _bytes_around(name, fault).splitlines():
        yield f"    {line}"


def _rule_lines(code: str, issue: Fault | IndexNote) -> Iterator[str]:
    rule = rule_book().rules[issue.rule]
    yield f"  {click.style(code, fg='red', bold=True)}  {printable(issue.message)}"
    yield f"    rule   {rule.id} ({rule.level}): {rule.statement}"


def _bytes_around(name: str, fault: Fault) -> str:
    try:
        opened: AbstractContextManager[Source]
        if is_remote(name):
            from ..files.stores import open_remote

            opened = nullcontext(open_remote(name))
        else:
            opened = open_source(name)
        with opened as source:
            base = max(fault.start - 16, 0) // 16 * 16
            data = source.read(base, max(min(source.size, fault.end + 16, base + 96) - base, 0))
    except UnreadableError:
        return ""
    return hexview(data, fault.start, fault.end, base=base, limit=80)


def _note_lines(name: str, notes: Iterable[IndexNote]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for note in notes:
        counts[note.rule] += 1
        if counts[note.rule] <= MAX_NOTES:
            yield f"{name}: note: {printable(note.message)} ({note.rule})"
    for rule, count in counts.items():
        if count > MAX_NOTES:
            yield f"{name}: note: … and {count - MAX_NOTES:,} more of this kind ({rule})"


def brief_model_lines(result: ModelResult) -> Iterator[str]:
    if result.status == "unreadable":
        unread = result.judgement.unread
        file, why = next(iter(unread.items()))
        more = f", and {plural(len(unread) - 1, 'more file')}" if len(unread) > 1 else ""
        text = f"{result.name}: cannot tell whether the model is whole: {file}: {why}{more}"
        yield f"{shorten(printable(text), 1000)} (IO_ERROR)"
    else:
        codes = Counter(finding.code or "" for finding in result.judgement.of("fault"))
        count = plural(codes.total(), "fault")
        yield f"{shown_name(result.name)}: model is not whole: {count}: {_counted(codes)}"


def model_lines(result: ModelResult, limit: int | None) -> Iterator[str]:
    if result.status == "unreadable":
        yield from brief_model_lines(result)
        return
    name, judged = shown_name(result.name), result.judgement
    yield from _note_lines(name, [f.issue for f in result.model_only if isinstance(f.issue, IndexNote)])
    if result.status == "valid":
        size = f"{plural(judged.tensors or 0, 'tensor')} in {plural(len(judged.shards), 'file')}"
        kind = "parts of a distributed checkpoint" if judged.partial else "whole model"
        yield f"{name}: {kind}, {size}, {plural(judged.data_size or 0, 'byte')} of data"
        return
    own = [f for f in result.model_only if f.kind == "fault"]
    inner = len(judged.of("fault")) - len(own)
    some = f"{inner:,} of them" if own else "all"
    above = f" ({some} listed above with their files)" if inner else ""
    count = plural(len(own) + inner, "fault")
    yield click.style(f"{name}: model is not whole: {count}{above}", bold=True)
    for finding in own[:limit]:
        yield from _rule_lines(finding.code or "", finding.issue)
        path = "" if finding.field is None else f"  {finding.field}"
        yield f"    where  {shown_name(finding.file)}{path}"
    if limit is not None and len(own) > limit:
        yield f"  … and {len(own) - limit:,} more; --all prints them"
    if not judged.complete:
        yield "  the model has more faults than are listed here"


def final_line(counts: Counter[Status], models: Counter[Status], *, interrupted: bool) -> str:
    """Return the counts of files and models, e.g. ``12 files: 10 valid, 1 invalid, 1 unreadable``."""
    files = f"{'interrupted after ' if interrupted else ''}{plural(counts.total(), 'file')}"
    text = f"{files}: " + ", ".join(f"{counts[status]:,} {status}" for status in EXIT_STATUS)
    if not models:
        return text
    words = zip(EXIT_STATUS, ("whole", "not whole", "unknown"), strict=True)
    counts_of_models = ", ".join(f"{models[status]:,} {word}" for status, word in words)
    return f"{text}; {plural(models.total(), 'model')}: {counts_of_models}"


def _counted(codes: Counter[str]) -> str:
    return ", ".join(code if n == 1 else f"{code} ×{n:,}" for code, n in codes.items())
