"""The command ``python -m benchmarks device``."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from safetensors_conformance.programs.launcher import checked_names
from safetensors_reference.main import SecondsRange
from safetensors_reference.rules.errors import AccessError, SafetensorsError
from safetensors_reference.writing.atomic import NotSavedError, write_file

from .. import ROOT
from . import document as documents
from . import limits_run, loaders, machine, page_cache, picture, tables
from .client import without_paths
from .figures import Document
from .files import KINDS
from .session import FileRun, OutOfTimeError, Settings

_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, and the files in it have a folder of their own
_LIMITS_AT_MOST = 180.0
_BUDGET = 560.0
"""Seconds of a run with --write, so that it ends within ten minutes."""
PAGE = ROOT / "docs" / "device-bench.md"
REPORT = ROOT / "reports" / "published" / "device"
_BEGIN, _END = "<!-- goals -->\n", "<!-- end of goals -->\n"
_FAILED = "failed: "
"""Beginning of the reason that is recorded for a run that failed."""
_PRIVATE = {"folder", "report", "name", "render", "as_json", "paths", "write"}
"""Options that do not describe the measurement, or that contain folder names of the machine."""


def _pairs(
    ctx: click.Context,  # noqa: ARG001 - click's signature
    param: click.Parameter,  # noqa: ARG001
    values: tuple[str, ...],
) -> tuple[tuple[str, str], ...]:
    """Return the pairs (name, value) of options in the form NAME=VALUE. Raises click.BadParameter."""
    out = []
    for value in values:
        name, _, rest = value.partition("=")
        if not name or not rest:
            raise click.BadParameter(f"{value!r}: expected NAME=VALUE")
        out.append((name, rest))
    return tuple(out)


def _names(
    ctx: click.Context,  # noqa: ARG001 - as above
    param: click.Parameter,  # noqa: ARG001
    values: tuple[str, ...],
) -> tuple[str, ...]:
    """Check that the named variables are set, and return their names. Raises click.BadParameter."""
    try:
        return checked_names(values)
    except ValueError as err:
        raise click.BadParameter(str(err)) from err


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--device", default="cuda:0", show_default=True, help="Device, such as cuda:0, or cpu for a trial run."
)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder for the test files. [default: in memory]"
)
@click.option("--file", "kinds", type=click.Choice(KINDS), multiple=True, help="[default: all]")
@click.option(
    "--megabytes", type=click.IntRange(1), help="Size of the large and llm files. [default: 8000; cpu: 64]"
)
@click.option("--small", type=click.IntRange(1), default=20_000, show_default=True, help="Its tensors.")
@click.option(
    "--loader",
    "wanted",
    multiple=True,
    help="Measure only this loader and the reference. Can be given several times.",
)
@click.option("--skip", multiple=True, help="Do not measure this loader. Can be given several times.")
@click.option(
    "--add",
    multiple=True,
    callback=_pairs,
    help="Also measure MODULE:FUNCTION(path, device). Form: NAME=MODULE:FUNCTION.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    callback=_pairs,
    help="Put DIR first on the import path of loader NAME. Form: NAME=DIR.",
)
@click.option(
    "--env",
    multiple=True,
    callback=_names,
    metavar="NAME",
    help="Also pass this environment variable to the loaders.",
)
@click.option(
    "--sweep", is_flag=True, help="Also measure the reference with other numbers of threads and chunk sizes."
)
@click.option(
    "--warm", type=click.IntRange(1), default=5, show_default=True, help="Number of loads after the first."
)
@click.option("--cold", is_flag=True, help="Evict the file from the page cache before each load.")
@click.option(
    "--limits/--no-limits", "with_limits", default=True, help="Measure the limits of the machine first."
)
@click.option(
    "--limit",
    type=SecondsRange(1),
    default=120,
    show_default=True,
    help="Time limit for each load, in seconds.",
)
@click.option("--budget", type=SecondsRange(1), help="Start nothing new after this many seconds.")
@click.option("--check-all", type=click.IntRange(0), default=512, show_default=True, help="Megabytes.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Write JSON, Markdown and SVG files to this folder."
)
@click.option("--name", default=documents.NAME, show_default=True, help="Base name of these files.")
@click.option(
    "--render",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Show the results of earlier runs from these JSON files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead of tables.")
@click.option(
    "--write",
    is_flag=True,
    help="Compare every byte, and write the report and the table of goals that are committed.",
)
def device(**options: Any) -> None:
    """Load files onto a device with the reference and other loaders, and measure the machine's limits.

    Every loader runs in its own process, and the loaders take turns. Results are checked outside the timed
    part: byte by byte for files up to --check-all, and by a sum of every page and some samples for larger
    files. The report lists loaders that are missing or fail, with the reason. Ctrl-C keeps the results so
    far, and --report writes them after each round. The exit status is 1 if the reference failed or its
    tensors were wrong.
    """
    if options["write"]:
        options |= {"report": REPORT, "check_all": 1 << 40, "budget": options["budget"] or _BUDGET}
    report: Path | None = options["report"]
    name: str = options["name"]
    try:
        if options["render"]:
            document = documents.merged([documents.read(path) for path in options["render"]])
        else:
            document = _measure(options, report, name)
        # Show the results even if the files cannot be written.
        if options["as_json"]:
            click.echo(documents.text(document), nl=False)
        else:
            tables.show(document, Console(width=None if sys.stdout.isatty() else 200))
        if report is not None:
            _write(document, report, name)
        if options["write"]:
            _write_goals(document)
    except (documents.DocumentError, SafetensorsError) as err:
        raise click.ClickException(str(err)) from err
    except OSError as err:
        raise click.ClickException(f"{err.filename or report}: {err.strerror or err}") from err
    if document["stopped"] == "interrupted":
        click.get_current_context().exit(130)
    if str(document["stopped"]).startswith(_FAILED) or any(
        _reference_failed(file) for file in document["files"]
    ):
        click.get_current_context().exit(1)


def _reference_failed(file: Document) -> bool:
    failed = {"wrong", "missing", "failed", "timeout"}
    return any(e["name"] == loaders.REFERENCE and e["status"] in failed for e in file["loaders"])


def _write(document: Document, folder: Path, name: str) -> None:
    """Write JSON, Markdown and SVG files. Raises OSError or NotSavedError."""
    folder.mkdir(parents=True, exist_ok=True)
    documents.save(document, folder, name)
    (folder / f"{name}.svg").write_text(picture.draw(document), "utf-8")
    (folder / f"{name}.md").write_text(tables.markdown(document, f"{name}.svg"), "utf-8")


def _write_goals(document: Document) -> None:
    """Replace the goals in the page about this benchmark. Raises NotSavedError or OSError."""
    page = PAGE.read_text("utf-8")
    before, rest = page.split(_BEGIN)
    after = rest.partition(_END)[2]
    write_file(PAGE, ["".join([before, _BEGIN, tables.goal_section(document), _END, after]).encode()])


def _measure(options: dict[str, Any], report: Path | None, name: str) -> Document:
    began = time.monotonic()
    where = _device(options["device"])
    kinds = options["kinds"] or KINDS
    megabytes = options["megabytes"] or (64 if where == "cpu" else 8000)
    chosen = _chosen(options)
    kept = {name: value for name, value in options.items() if name not in _PRIVATE}
    document = documents.new(where, {**kept, "megabytes": megabytes, "kinds": list(kinds)})
    mib = document["machine"].get("gpu_memory_mib")

    def changed() -> None:
        if report is not None:
            documents.save(document, report, name)

    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
    folder = _folder(options, megabytes * 10**6, kinds, chosen)
    with tempfile.TemporaryDirectory(prefix="stc-bench-", dir=folder) as made:
        settings = Settings(
            device=where,
            folder=Path(made),
            size=megabytes * 10**6,
            count=options["small"],
            loaders=chosen,
            targets=dict(options["add"]),
            paths=options["paths"],
            warm=options["warm"],
            cold=options["cold"],
            limit=options["limit"],
            check_all=options["check_all"] * 10**6,
            deadline=began + options["budget"] if options["budget"] else float("inf"),
            env=options["env"],
            free=int(mib) << 20 if mib and str(mib).isdigit() else None,
        )
        # If an external time limit ends the run, show the results as after Ctrl-C.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            _files(kinds, settings, document, changed, options["with_limits"])
            document["complete"] = document["stopped"] is None
        except KeyboardInterrupt:
            document["stopped"] = "interrupted"
        except OutOfTimeError:
            document["stopped"] = f"the time budget of {options['budget']:g} seconds was used up"
        except (NotSavedError, OSError) as err:
            document["stopped"] = _FAILED + without_paths(str(err))
            _say(document["stopped"])
        finally:
            signal.signal(signal.SIGTERM, before)
    for entry in (e for file in document["files"] for e in file["loaders"] if e["status"] == "not run"):
        entry["reason"] = document["stopped"] or "the run ended before this benchmark started"
    return document


def _device(name: str) -> str:
    """Return the name of a device that exists. Raises click.UsageError."""
    if name == "cpu":
        return name
    try:
        import torch  # noqa: F401
    except ImportError as err:
        text = 'needs torch: pip install -c constraints.txt -e ".[official,torch]"'
        raise click.ClickException(text) from err
    from safetensors_reference.device.engine import open_engine

    try:
        return str(open_engine(name).device)
    except AccessError as err:
        raise click.UsageError(f"--device: {err}; use --device cpu for a trial run") from err


def _files(
    kinds: Sequence[str], settings: Settings, document: Document, changed: Any, with_limits: bool
) -> None:
    for kind in kinds:
        run = FileRun(kind, settings, document, changed, _say)
        try:
            run.make()
            if with_limits and not document["limits"]:
                _limits(run, settings, document)
            run.run()
        except page_cache.PageCacheError as err:
            document["stopped"] = without_paths(str(err))
            _say(f"{kind}: {err}")
        finally:
            run.remove()
            changed()


def _limits(run: FileRun, settings: Settings, document: Document) -> None:
    page_cache.warm(run.file.path)
    for row in limits_run.run(run.file.path, settings.device, _LIMITS_AT_MOST):
        if not document["limits"]:
            # The link to the device sleeps until a process has started CUDA.
            document["machine"] = machine.describe(settings.device)
        document["limits"].append(row)
        values = row.get("gb_per_s") or row.get("seconds") or row.get("reason")
        _say(f"limit: {row['what']}, {row['setting']}: {values}")


def _chosen(options: dict[str, Any]) -> list[loaders.Loader]:
    """Return the selected loaders. Raises click.UsageError."""
    known = {loader.name: loader for loader in loaders.LOADERS}
    known |= {name: loaders.added(name, target) for name, target in options["add"]}
    if options["sweep"]:
        known |= {loader.name: loader for loader in loaders.sweep()}
    names = [name for name, _ in options["add"]]
    for name in names:
        if names.count(name) > 1 or loaders.is_reference(name) or name in {x.name for x in loaders.LOADERS}:
            raise click.UsageError(
                f"--add {name}: a loader with this name already exists; choose another name"
            )
    if loaders.REFERENCE in options["skip"]:
        raise click.UsageError("--skip reference: all other loaders are compared with the reference")
    for name, _ in options["paths"]:
        if not any(loader == name or loader.startswith(f"{name}-") for loader in known):
            raise click.UsageError(
                f"--path {name}: there is no loader with this name; available loaders: {', '.join(known)}"
            )
    for name in (*options["wanted"], *options["skip"]):
        if name not in known:
            raise click.UsageError(f"there is no loader {name!r}; available loaders: {', '.join(known)}")
    wanted = {loaders.REFERENCE, *options["wanted"]} if options["wanted"] else set(known)
    # Include a loader that was added, and the sweep, even if --loader does not name them.
    wanted |= {name for name, _ in options["add"]} | {n for n in known if loaders.is_reference(n)}
    return [loader for name, loader in known.items() if name in wanted - set(options["skip"])]


def _folder(
    options: dict[str, Any], size: int, kinds: Sequence[str], chosen: Sequence[loaders.Loader]
) -> Path:
    """Return a folder with enough free space. Raises click.UsageError."""
    largest = max(size if kind != "small" else options["small"] * 12_500 for kind in kinds)
    need = int(largest * (2.1 if any(loader.twin for loader in chosen) else 1.05))
    if options["folder"] is not None:
        folder: Path = options["folder"]
        if not folder.is_dir():
            raise click.UsageError(f"--folder {folder} is not a folder")
        free = shutil.disk_usage(folder).free
        if free < need:
            text = (
                f"--folder {folder} has {free / 1e9:.1f} GB of free space, but {need / 1e9:.1f} GB are needed"
            )
            raise click.UsageError(f"{text}; choose another folder or a smaller --megabytes")
        return folder
    candidates = [Path(tempfile.gettempdir())] if options["cold"] else [_MEMORY, Path(tempfile.gettempdir())]
    for folder in candidates:
        if folder.is_dir() and shutil.disk_usage(folder).free >= need:
            return folder
    raise click.UsageError(
        f"{need / 1e9:.1f} GB of free space are needed; give --folder or a smaller --megabytes"
    )


def _say(text: str) -> None:
    click.echo(text, err=True)
