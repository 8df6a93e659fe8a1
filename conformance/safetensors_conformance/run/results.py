"""Results of a run: rows for each implementation, records on disk, the summary, and baseline updates."""

from __future__ import annotations

import datetime as dt
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock, Timeout

from safetensors_corpus import Manifest
from safetensors_reports.causes import Cause, cause_lines, causes
from safetensors_reports.causes.cause import MAX_SHOWN
from safetensors_reports.comment import markdown
from safetensors_reports.differences.compare import compare
from safetensors_reports.differences.report import diff_lines
from safetensors_reports.output import write_text
from safetensors_reports.record.charges import recharge
from safetensors_reports.record.device_checks import CHECKS, STATUSES
from safetensors_reports.record.run import RecordWriter, RunRecord, selector_of
from safetensors_reports.record.summary import summary_lines
from safetensors_reports.text import plural, visible

from ..implementations.selectors import Target
from ..outcome import Implementation, loadable
from .baseline import due_by, failing_steps, name_in_records, unexplained, update
from .options import RunOptions


def scope(implementation: Implementation, manifest: Manifest, *, heavy: bool) -> tuple[int, dict[str, int]]:
    """Return the number of cases to run, and the number of those left out by kind, by area, or as heavy."""
    chosen, left_out = 0, Counter[str]()
    for case in manifest.cases:
        if not implementation.steps_of(case):
            left_out[case.kind if case.kind != "read" else case.area] += 1
        elif case.heavy and not heavy:
            left_out["heavy"] += 1
        else:
            chosen += 1
    return chosen, dict(sorted(left_out.items()))


def header_row(implementation: Implementation, options: RunOptions, baseline: Path | None) -> dict[str, Any]:
    manifest, limits = options.manifest, options.limits
    cases, left_out = scope(implementation, manifest, heavy=options.heavy)
    return {
        "type": "header",
        "record": 1,
        "suite": version("safetensors-conformance"),
        "implementation": {
            "selector": implementation.selector,
            "name": implementation.name,
            "version": implementation.version,
            "language": implementation.language,
            "steps": list(implementation.steps),
            "areas": sorted(implementation.areas),
            "lacks": sorted(implementation.lacks),
        },
        "corpus": {
            "version": manifest.version,
            "digest": manifest.digest,
            "cases": cases,
            "left_out": left_out,
        },
        "profile": options.profile,
        **({} if options.device is None else {"device": options.device}),
        "limits": {"time_s": limits.seconds, "memory_bytes": limits.memory_bytes},
        "started": dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "baseline": None if baseline is None else name_in_records(baseline),
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def baseline_path(target: Target, given: Path | None) -> Path:
    """Return the given baseline, the project's baseline for the descriptor's version, or a local one."""
    if given is not None:
        return given
    if target.descriptor is not None and target.entry is not None:
        ours = target.descriptor.expected_failures(target.entry)
        env = target.environment
        described = target.descriptor.default_version(target.entry)
        if ours.is_file() and not target.user_provided and (env is None or env.version == described):
            return ours
    return Path(f"{target.slug}.baseline.toml")


class ReportError(Exception):
    """The report folder is unusable, or has become unusable. The message names the folder and the reason."""


class ImplementationResults:
    """Results of one implementation in one run. They are written to the record at ``path`` as they arrive."""

    def __init__(self, target: Target, path: Path | None) -> None:
        self.target = target
        self.path = path
        self.header: dict[str, Any] = {}
        self.results: list[dict[str, Any]] = []
        self.choices: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.footer: dict[str, Any] | None = None
        self._writer: RecordWriter | None = None

    def add(self, message: Mapping[str, Any]) -> None:
        """Add and write a message from a worker process. Counts it even if it raises ReportError."""
        header = message.get("header")
        rows: dict[str, list[Any]] = {
            "result": self.results,
            "choice": self.choices,
            "problem": self.problems,
        }
        try:
            if header is not None and not self.header:
                self.header = header
                if self.path is not None:
                    self._writer = RecordWriter(self.path)
                    self._writer.header(header)
            for kind, known in rows.items():
                if kind in message and (kind != "problem" or message[kind] not in known):
                    known.append(message[kind])
                    if self._writer is not None:
                        getattr(self._writer, kind)(message[kind])
        except OSError as err:
            self._abandon(err)

    def _abandon(self, err: OSError) -> NoReturn:
        path, self.path = self.path, None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        raise ReportError(f"{path}: {err.strerror or err}; the lines written so far are complete") from err

    def finish(self, manifest: Manifest) -> None:
        """Write the footer. A complete run has a result for each step of every case. Raises ReportError."""
        expected = self.header["corpus"]["cases"] if self.header else 0
        not_run = expected - self._complete_cases(manifest)
        self.footer = {
            "complete": expected > 0 and not_run == 0 and not self.problems,
            "duration_s": round(sum(row["wall_ms"] for row in self.results) / 1000, 3),
            "not_run": not_run if expected else len(manifest.cases),
        }
        if self._writer is not None:
            try:
                self._writer.footer(**self.footer)
            except OSError as err:
                self._abandon(err)

    def _complete_cases(self, manifest: Manifest) -> int:
        """Count the cases with a result for each step, except heavy ones that the run did not ask for."""
        implementation = self.header.get("implementation", {})
        steps, areas = set(implementation.get("steps", ())), set(implementation.get("areas", ()))
        heavy = "heavy" not in self.header.get("corpus", {}).get("left_out", {})
        done: dict[str, set[str]] = {}
        for row in self.results:
            done.setdefault(row["case"], set()).add(row["step"])
        complete = 0
        for name, there in done.items():
            case = manifest.by_id[name]
            wanted = case.steps_for(steps, areas)
            if "device" in steps and loadable(case) and case.is_claimed(areas):
                wanted = [*wanted, "device"]
            complete += bool(wanted) and there.issuperset(wanted) and (heavy or not case.heavy)
        return complete

    def close(self) -> None:
        """Close the record. Raises ReportError if another program removed or changed it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            intact = writer.intact
            writer.close()
            if not intact:
                raise ReportError(f"{self.path}: another program removed, replaced or changed this file")

    def record(self) -> RunRecord:
        return RunRecord(self.header, recharge(self.results), self.choices, self.problems, self.footer)


class RunResults:
    """Results of all implementations in one run. Locks ``folder``. Raises ReportError."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.folder = options.report
        self.implementations: dict[str, ImplementationResults] = {}
        self._causes: dict[str, list[Cause]] = {}
        self._written = True
        self._lock = None if self.folder is None else _locked(self.folder)

    def of(self, target: Target) -> ImplementationResults:
        if target.selector not in self.implementations:
            path = None if self.folder is None else self.folder / f"{target.slug}.jsonl"
            taken = {str(one.path).casefold() for one in self.implementations.values()}
            if path is not None and (
                str(path).casefold() in taken or selector_of(path) not in (None, target.selector)
            ):
                path = path.with_name(f"{target.slug}-{target.mark}.jsonl")
            self.implementations[target.selector] = ImplementationResults(target, path)
        return self.implementations[target.selector]

    @property
    def started(self) -> list[ImplementationResults]:
        return [one for one in self.implementations.values() if one.header]

    def finish(self) -> None:
        error: ReportError | None = None
        lost = False
        for one in self.implementations.values():
            try:
                if one.footer is None:
                    one.finish(self.options.manifest)
            except ReportError as err:
                error = error or err
            try:
                one.close()
            except ReportError as err:
                error, lost = error or err, True
        try:
            if self.folder is not None and self.implementations and not lost:
                text = markdown([x.record() for x in self.started], [self.causes(x) for x in self.started])
                write_text(self.folder / "summary.md", text)
        except OSError as err:
            error = error or ReportError(f"{self.folder}/summary.md: {err.strerror or err}")
        finally:
            self.close()
        if error is not None:
            self._written = False
            raise error

    def close(self) -> None:
        """Release the folder. Calling this repeatedly is harmless."""
        for one in self.implementations.values():
            with suppress(ReportError):
                one.close()
        if self._lock is not None:
            self._lock.release()

    def causes(self, one: ImplementationResults) -> list[Cause]:
        name = one.target.selector
        if name not in self._causes:
            self._causes[name] = causes(one.record(), self.options.manifest)
        return self._causes[name]

    def summary(self) -> list[str]:
        lines: list[str] = []
        for one in self.implementations.values():
            if one.header:
                lines.extend(summary_lines(one.record()))
                lines.extend(device_lines(one.header, one.results))
            lines.extend(f"problem: {line}" for problem in one.problems for line in problem.splitlines())
            lines.append("")
        records = [one.record() for one in self.started]
        if len(records) > 1:
            lines += [*diff_lines(compare(records)), ""]
        most = MAX_SHOWN if len(self.started) == 1 else MAX_SHOWN // 2
        limit = None if self.options.full_failures else most
        for one in self.started:
            mine = cause_lines(self.causes(one), one.header, strict=self.options.strict, limit=limit)
            label = [f"{visible(one.record().label, 80)}:"] if mine and len(self.started) > 1 else []
            lines += [*label, *mine, *([""] if mine else [])]
        if self.folder is not None and self._written:
            lines.append(f"records and summary.md were written to {self.folder}")
        return lines

    def update_baselines(self, given: Path | None, profile: str | None) -> list[str]:
        """Rewrite the baseline of each implementation that ran in full, and return a report about it."""
        lines = []
        owners: dict[Path, str] = {}
        for one in self.implementations.values():
            path = baseline_path(one.target, given)
            begun = not path.exists()
            other = owners.setdefault(path, one.target.selector)
            if other != one.target.selector:
                lines.append(
                    f"{path}: not rewritten for {one.target.selector}, because it is the baseline of {other}"
                )
                continue
            if one.footer is None or not one.footer["complete"]:
                lines.append(f"{path}: not rewritten, because only a full run can update a baseline")
                continue
            kept, added, removed = update(
                path,
                one.target.selector,
                failing_steps(one.results),
                profile,
                one.header.get("device") if "device" in one.header["implementation"]["steps"] else None,
                [row["choice"] for row in one.choices if row["verdict"] == "choice-inconsistent"],
            )
            lines.append(f"{path}: {kept} entries kept, {added} added, {removed} removed")
            if begun and added:
                lines.append(
                    f"{path}: entries without an issue count as unreported and need a review by "
                    f"{due_by(path)}"
                )
            open_entries = unexplained(path)
            if open_entries:
                lines.append(
                    f"{path}: {len(open_entries)} security entries need an issue and a review_by date "
                    f"before the baseline is accepted; the first one is {visible(open_entries[0])}"
                )
        return lines


def device_lines(header: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    name = header.get("device")
    if name is None:
        return []
    if "device" not in header["implementation"]["steps"]:
        return [f"  device {name}: not tested, because the implementation does not load onto devices"]
    mine = [row for row in rows if row["step"] == "device"]
    lines = [f"  device {name}: {plural(len(mine), 'file')}"]
    for check in CHECKS:
        seen = [found for row in mine for found in row.get("checks", ()) if found["name"] == check]
        counts = Counter(found["status"] for found in seen)
        words = [f"{counts[status]:,} {status}" for status in STATUSES if counts[status]]
        why = Counter(found["message"] for found in seen if found["status"] == "unknown").most_common(1)
        if why and why[0][0]:
            words[-1] += f" ({why[0][0]})"
        lines.append(f"    {check:<10} {' · '.join(words) or 'not reported'}")
    return lines


def _locked(folder: Path) -> FileLock:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire(timeout=0)
    except Timeout as err:
        raise ReportError(
            f"{folder}: another run is writing to this folder; give each run its own folder"
        ) from err
    except OSError as err:
        raise ReportError(f"{folder}: {err.strerror or err}") from err
    return lock
