"""The commands ``stc fuzz`` and ``stc fuzz replay``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from safetensors_conformance.cli.common import sandbox_options, shared_option
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.programs.sandbox import SandboxError
from safetensors_conformance.worker.worker import Limits
from safetensors_reference import rule_book
from safetensors_reference.main import SecondsRange, UnusableError
from safetensors_reference.rules.book import TEXT_ANSWERS
from safetensors_reports.text import plural, visible, visible_lines

from .engines.atheris import engine as atheris
from .engines.campaign import STAGES, Tally
from .engines.run import ENGINES, STEPS, FuzzConfig, Run, RunError
from .finding import REPLAYS, Finding, FindingError, load, reason, write
from .findings.replay import exit_status
from .findings.replay import replay as replay_finding

INTERRUPTED = 130
DEFAULT_EXECS = 20_000
MAX_JOBS = 64
TIME_LIMIT = "Time limit for each answer, in seconds."


class EngineChoice(click.Choice[str]):
    """Choice of an engine. For the former engine ``hypothesis``, the error names its replacement."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "hypothesis":
            self.fail(
                "hypothesis is no longer an engine; in your own tests, draw inputs with "
                "safetensors_fuzz.strategies.files()",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


@click.group(invoke_without_command=True, subcommand_metavar="[replay ...]")
@shared_option(
    "--impl",
    "impls",
    help="Implementation to test, in the same form as for stc run. Can be given several times.  [default: "
    "reference]",
)
@click.option(
    "--steps",
    default="read",
    show_default=True,
    help=f"Steps to run, separated by commas: {','.join(STEPS)}.",
)
@click.option(
    "--max-execs",
    type=click.IntRange(1),
    help=f"Number of inputs to run.  [default: {DEFAULT_EXECS:,}; unlimited with --time]",
)
@click.option("--time", "seconds", type=SecondsRange(0.1), help="Stop after this many seconds.")
@click.option(
    "--engine",
    type=EngineChoice(ENGINES),
    default="outcome",
    show_default=True,
    help="Engine that generates the inputs. The atheris engine runs only the proving path of the reference.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1, MAX_JOBS),
    help="Number of processes, each with a different seed.  [default: 1; one per core with --time and no "
    "--max-execs]",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the random generator. The same seed generates the same inputs.",
)
@shared_option(
    "--profile",
    help="Profile that decides disputed behaviour.  [default: none; only undisputed requirements count]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write each finding to this folder, with its input, a description, a diagram and a test.",
)
@click.option(
    "--corpus",
    type=click.Path(file_okay=False, path_type=Path),
    help="Start from the inputs in this folder, and add inputs that show new behaviour.",
)
@click.option(
    "--triage",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that lists known signatures to omit, in the same format as for stc diff.",
)
@shared_option("--time-limit", default=2.0, metavar=None, help=TIME_LIMIT)
@shared_option(
    "--memory-limit",
    type=click.IntRange(16),
    metavar=None,
    help="Memory limit in MiB, on top of the memory that the implementation uses after startup.",
)
@sandbox_options
@click.pass_context
def fuzz(
    context: click.Context,
    /,
    impls: tuple[str, ...],
    steps: str,
    max_execs: int | None,
    seconds: float | None,
    jobs: int | None,
    output: Path | None,
    time_limit: float,
    memory_limit: int,
    env: tuple[str, ...],
    sandbox: bool,
    sandbox_net: bool,
    **options: Any,
) -> None:
    """Generate inputs from the rules of the format, and report wrong answers.

    Every implementation runs in a worker with limits, so crashes, hangs and excessive memory use are findings
    too. The command shrinks the input of each wrong answer and confirms the answer three times in fresh
    processes. It groups wrong answers by signature, i.e. by the fault in the input and the outcome of each
    implementation, and reports each signature only once. If the format leaves a choice open, every answer is
    right.

    \b
    stc fuzz --impl mylib -o findings
    stc fuzz --impl safetensors --impl mlx --time 300 -o findings
    stc fuzz --impl safetensors:numpy --steps slice,write --max-execs 5000
    stc fuzz --steps prove,check        self-checks of the reference
    Exit status: 0 no findings, 1 findings, 2 cannot run, 130 interrupted.
    """
    confinement = _confinement(env, sandbox, sandbox_net)
    if context.invoked_subcommand is not None:
        return
    if max_execs is None and seconds is None:
        max_execs = DEFAULT_EXECS
    if jobs is None:
        # With several jobs, the same seed generates different inputs. A run with a time limit is not
        # reproducible anyway, so several jobs are the default only for such a run.
        jobs = 1 if max_execs is not None else min(os.cpu_count() or 1, MAX_JOBS)
    config = FuzzConfig(
        impls=impls or ("reference",),
        steps=tuple(dict.fromkeys(step.strip() for step in steps.split(",") if step.strip())),
        max_execs=max_execs,
        seconds=seconds,
        limits=Limits(time_limit, memory_limit << 20, confinement),
        jobs=jobs,
        **options,
    )
    tally = Tally()
    places: dict[str, Path] = {}
    interrupted = False
    try:
        _run(config, output, tally, places)
    except (RunError, OSError) as err:
        click.echo(f"Error: {visible_lines(str(err))}", err=True)
        if not tally.findings:
            raise SystemExit(2) from err
    except KeyboardInterrupt:
        interrupted = True
        click.echo("interrupted; results so far:", err=True)
    for line in report(config, tally, places):
        click.echo(line)
    raise SystemExit(INTERRUPTED if interrupted else bool(tally.findings))


def _confinement(env: tuple[str, ...], sandbox: bool, net: bool) -> Confinement:
    try:
        return Confinement.of(env, sandbox=sandbox, net=net)
    except (ValueError, SandboxError) as err:
        raise click.UsageError(str(err)) from err


def _run(config: FuzzConfig, output: Path | None, tally: Tally, places: dict[str, Path]) -> None:
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
            # report the error before the run instead of after the first finding
            with tempfile.TemporaryFile(dir=output):
                pass
        except OSError as err:
            raise RunError(f"-o {output}: {err.strerror or err}; give a writable folder") from err
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"))

    def keep(finding: Finding) -> None:
        if output is None:
            return
        try:
            places[finding.signature] = write(finding, output)
        except (FindingError, OSError) as err:  # the report at the end still lists this finding
            message = f"Error: cannot write {finding.slug}: {visible(str(err), 300)}"
            console.print(message, markup=False, highlight=False, soft_wrap=True)

    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)

        def show(now: Tally) -> None:
            rate = now.execs / now.seconds if now.seconds else 0
            progress.update(
                task,
                description=f"{plural(now.execs, 'input')} · {rate:,.0f}/s · "
                f"{plural(now.tuples, 'outcome tuple')} · {plural(len(now.rules), 'broken rule')} · "
                f"{plural(len(now.findings), 'finding')}",
            )

        if config.engine == "atheris":
            atheris.run(config, keep, show, tally)
        else:
            Run(config, keep, show, tally).do()


def report(config: FuzzConfig, tally: Tally, places: dict[str, Path]) -> list[str]:
    rate = tally.execs / tally.seconds if tally.seconds else 0
    done = f"{plural(tally.execs, 'input')} in {tally.seconds:.1f} s ({rate:,.0f}/s)"
    lines = [f"{done} · engine {config.engine} · seed {config.seed}"]
    if tally.execs and any(tally.stages.values()):
        share = {stage: f"{100 * tally.stages[stage] / tally.execs:.0f} %" for stage in STAGES}
        lines.append(
            f"  passed JSON {share['json']} · passed the schema {share['schema']} · valid "
            f"{share['accepted']} · {plural(len(tally.rules), 'broken rule')} · "
            f"{plural(tally.tuples, 'outcome tuple')}"
        )
    lines += [f"  {count:>9,}  {vector}" for vector, count in tally.outcomes.most_common(12)]
    if config.note:
        lines.append(f"  {config.note}")
    if config.corpus is not None:
        lines.append(f"  {plural(tally.kept, 'input')} kept in {config.corpus} as starting points")
    known = f", {len(tally.known):,} known omitted" if tally.known else ""
    lines.append(f"{plural(len(tally.findings), 'finding')}{known}")
    for signature, finding in tally.findings.items():
        where = f"  {places[signature]}" if signature in places else ""
        lines.append(
            f"  {finding.verdict:<13} {visible(signature, 160)}  {plural(finding.size, 'byte')}{where}"
        )
    lines += [
        f"  unstable, omitted: {visible(signature, 160)}: {count} of 3 fresh processes gave the same answer"
        for signature, count in tally.unstable.items()
    ]
    if tally.findings and not places:
        lines.append("add -o FOLDER to keep the input, description, diagram and test of each finding")
    return lines


@fuzz.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
@shared_option(
    "--impl",
    "impls",
    help="Implementation to run. Can be given several times.  [default: the known implementations that the "
    "finding names]",
)
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=REPLAYS,
    show_default=True,
    help="Number of attempts. Each attempt runs in a fresh process.",
)
@shared_option("--profile", help=f"Profile of the reference: {TEXT_ANSWERS}.")
@shared_option("--time-limit", metavar=None, help=TIME_LIMIT)
@sandbox_options
def replay(
    folder: Path,
    impls: tuple[str, ...],
    times: int,
    profile: str | None,
    time_limit: float,
    env: tuple[str, ...],
    sandbox: bool,
    sandbox_net: bool,
) -> None:
    """Reproduce the finding in FOLDER, and report whether the answer is still wrong.

    A finding may come from an untrusted source, so it must not choose the programs to run. Without --impl,
    the command runs only those implementations in the finding that stc impl list shows. Programs,
    Python adapters (cmd:, exit:, py:) and versions that are not installed are run only if --impl names them.
    The command prints the names of the implementations before it starts them.

    \b
    stc fuzz replay findings/off-hole-1a2b3c4d
    stc fuzz replay findings/off-hole-1a2b3c4d --impl mlx==0.31.1 --impl mlx
    Exit status: 0 the answer is now as expected, 1 it is still wrong, 2 cannot run.
    """
    limits = Limits(time_limit, confinement=_confinement(env, sandbox, sandbox_net))
    try:
        finding = load(folder)
    except FindingError as err:
        raise UnusableError(visible(str(err), 600)) from err
    click.echo(f"{visible(finding.slug)} · {visible(finding.step, 40)} · {visible(finding.verdict, 80)}")
    for rule_id in finding.rules[:1]:
        rule = rule_book().rules.get(rule_id)
        click.echo(f"  rule      {rule_id}" + (f" ({rule.level}): {rule.statement}" if rule else ""))
    why = reason(finding)
    if why is not None:
        click.echo(f"  {'because' if finding.rules else 'rule':<9} {visible(why[1], 300)}")
    click.echo(f"  expected  {visible(finding.expected, 300)}")
    if not impls and not finding.got:
        raise UnusableError(f"{finding.slug} refers to no known implementation; give --impl SELECTOR")
    answers = replay_finding(
        finding,
        impls,
        times=times,
        limits=limits,
        profile=profile,
        say=lambda selector: click.echo(f"  runs      {visible(selector, 1000)}"),
    )
    for answer in answers:
        name = visible(answer.selector + (f" {answer.version}" if answer.version else ""))
        click.echo(f"  {name}: {answer.state.upper()}\n    got     {visible(answer.got, 300)}")
        before = finding.got.get(answer.selector)
        if before is not None:
            version = visible(finding.versions.get(answer.selector, ""))
            click.echo(f"    before  {visible(before, 300)}" + (f" ({version})" if version else ""))
    raise SystemExit(exit_status(answers))
