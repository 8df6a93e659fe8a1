"""``python -m proof.documents``: fuzz the suite's parsers of untrusted documents."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from safetensors_conformance.programs.launcher import child_variables
from safetensors_reference.main import SecondsRange
from safetensors_reports.text import plural, visible

from .document_targets import TARGETS
from .target import MAX_LEN, WATCHED

INPUT_SECONDS = 20
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_LAST = re.compile(r"^#(\d+)", re.MULTILINE)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(WATCHED)), metavar="[NAME]...")
@click.option("--time", "seconds", type=SecondsRange(), help="Time limit in seconds for each document type.")
@click.option(
    "--max-execs",
    type=click.IntRange(min=1),
    help="Number of inputs for each document type.  [default: 20,000]",
)
@click.option(
    "--seed",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="The same seed produces the same inputs.",
)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for failing inputs."
)
def documents(
    names: tuple[str, ...], seconds: float | None, max_execs: int | None, seed: int, output: Path | None
) -> None:
    """Fuzz the suite's parsers of untrusted documents.

    NAME is index (of a sharded model), slice (the text in brackets after a tensor name), manifest
    (corpus.json; each of its cases is set up), record (the lines of a run, which are read and reported) or
    answer (the lines of a tested program). The default is all of them. The suite must accept each document or
    reject it with the documented error, and must not change anything outside its folder.

    \b
    Examples:
      python -m proof.documents
      python -m proof.documents manifest --time 3600 -o found

    Exit status: 0 no input failed, 1 an input failed, 2 the command cannot run.
    """
    found = 0
    with tempfile.TemporaryDirectory(prefix="stc-documents-") as folder:
        for name in dict.fromkeys(names or WATCHED):
            runs = max_execs or (None if seconds else 20_000)
            status, text = _run(name, Path(folder) / name, seconds, runs, seed, output)
            counts = _EXECUTED.findall(text) or _LAST.findall(text) or ["0"]
            told = "0 findings" if status == 0 else "1 finding"
            click.echo(f"{name}: {plural(int(counts[-1]), 'input')}, {told}")
            if status and "Test unit written" not in text:
                raise click.ClickException(visible(text[-1500:], 1500))
            if status:
                found = 1
                for line in _shown(text):
                    click.echo(f"  {visible(line, 300)}")
    raise SystemExit(found)


def _shown(text: str) -> list[str]:
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.strip().startswith("===")), None)
    if at is None:
        return lines[-20:]
    return [line for line in lines[at:] if not line.startswith(("INFO:", "#"))][:40]


def _run(
    name: str, folder: Path, seconds: float | None, runs: int | None, seed: int, output: Path | None
) -> tuple[int, str]:
    work, seeds = folder / "work", folder / "seeds"
    work.mkdir(parents=True)
    seeds.mkdir()
    kept = output or folder / "found"
    kept.mkdir(parents=True, exist_ok=True)
    (folder / "other").mkdir()
    for number, data in enumerate(TARGETS[name](folder / "other").seeds()):
        (seeds / f"{number:02}").write_bytes(data)
    flags = [
        f"-seed={seed}",
        f"-max_len={MAX_LEN}",
        f"-timeout={INPUT_SECONDS}",
        "-print_final_stats=1",
        f"-artifact_prefix={kept}/{name}-",
        *([f"-runs={runs}"] if runs else []),
        *([f"-max_total_time={round(seconds)}"] if seconds else []),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "proof.documents.target", name, str(work), *flags, str(seeds)],
        capture_output=True,
        env=child_variables(),
        check=False,
    )
    return done.returncode, (done.stderr + done.stdout).decode("utf-8", "replace")


if __name__ == "__main__":
    documents(prog_name="python -m proof.documents")
