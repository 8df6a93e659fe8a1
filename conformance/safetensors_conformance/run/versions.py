"""Running several versions of one implementation over the corpus, for ``stc trend``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors_corpus import Case, Manifest
from safetensors_reports.history.misfits import misfits
from safetensors_reports.history.model import Bug, Note, VersionRun
from safetensors_reports.text import plural

from ..implementations.environment import InstallError, prepare
from ..implementations.selectors import SelectorError, Target, resolve
from ..worker.outcome import Implementation
from ..worker.worker import StartError
from .cases import GivenUpError
from .options import RunOptions
from .results import ImplementationResults, due, header_row
from .session import Session, result_rows

CLEAN = ("pass", "unsupported", "late-reject", "not-strict")


def targets_of(name: str, entry: str, versions: tuple[str, ...]) -> dict[str, Target]:
    """Return version -> target, in the order given, each version once. Raises SelectorError."""
    if entry and ":" in name:
        raise SelectorError(f"{name!r} names an entry already; leave out --entry {entry}")
    if "=" in name:
        raise SelectorError(f"{name!r}: versions stand behind the name, one by one")
    called = f"{name}:{entry}" if entry else name
    return {version: resolve(f"{called}=={version}") for version in dict.fromkeys(versions)}


def run_version(
    target: Target,
    version: str,
    options: RunOptions,
    folder: Path | None,
    cases: Callable[[Implementation], list[Case]],
    tick: Callable[[int, int], None],
) -> VersionRun:
    """Install one version if need be and run it; what keeps it from running becomes the reason.

    Args:
        target: the version.
        version: its number, as asked for.
        options: corpus, limits, profile.
        folder: where its run record is written, None for nowhere.
        cases: who -> the cases that it is to be asked about.
        tick: is told after every case how many of how many are done.
    """
    with Session(target, options.limits, options.profile, max_hangs=options.max_hangs) as session:
        try:
            prepare(target)
            who = session.start()
        except (InstallError, StartError) as err:
            return VersionRun(version, reason=str(err))
        results = ImplementationResults(target, None if folder is None else folder / f"{target.slug}.jsonl")
        results.add({"header": header_row(who, options, None)})
        chosen = cases(who)
        try:
            for number, verdict in enumerate(session.verdicts(chosen), 1):
                for row in result_rows(verdict):
                    results.add({"result": row})
                tick(number, len(chosen))
            basic = [c for c in due(who, options.manifest, heavy=False) if c.smoke]
            basic_rows = [row for verdict in session.verdicts(basic) for row in result_rows(verdict)]
        except GivenUpError as err:
            return VersionRun(version, reason=str(err))
        finally:
            results.finish(options.manifest)
    record = results.record()
    taken = {case.id for case in options.manifest.cases if case.expect is not None and case.expect.content}
    unknown = misfits(record.results, [row for row in basic_rows if row["case"] in taken])
    return VersionRun(version, record, "", tuple(_remarks(who, version, basic_rows, unknown)), unknown)


def _remarks(
    who: Implementation, version: str, basic: list[dict[str, Any]], unknown: Mapping[str, str]
) -> list[str]:
    out = []
    if who.version not in (version, "unknown"):
        out.append(f"it calls itself {who.version}")
    failed = list(dict.fromkeys(row["case"] for row in basic if row["verdict"] not in CLEAN))
    if failed:
        shown = ", ".join(failed[:3]) + (" …" if len(failed) > 3 else "")
        out.append(f"fails {len(failed)} of the most basic files ({shown}); does the adapter fit it?")
    if unknown:
        often = Counter(unknown.values()).most_common(1)[0][0]
        out.append(
            f"nothing is known of {plural(len(unknown), 'case')}: "
            f"the answer is that of an adapter that does not fit ({often[:120]})"
        )
    return out


def all_due(manifest: Manifest, *, heavy: bool) -> Callable[[Implementation], list[Case]]:
    """Return what chooses every case that an implementation has a step for."""
    return lambda who: due(who, manifest, heavy=heavy)


def some_of(cases: list[Case]) -> Callable[[Implementation], list[Case]]:
    """Return what chooses those of some cases that an implementation has a step for."""
    return lambda who: [case for case in cases if who.steps_of(case)]


def notes_of(manifest: Manifest, target: Target | None) -> Mapping[str, Note]:
    """Return what is known of every case, with the field bugs of the implementation."""
    known = target.descriptor if target is not None else None
    names = {_plain(x) for x in (known.name, known.title, known.distribution)} if known is not None else set()
    return {
        case.id: Note(
            case.title,
            case.rules,
            tuple(
                Bug(x["bug"], x.get("reference", ""), x.get("versions", ""))
                for x in case.affects
                if _plain(x.get("project", "")) in names
            ),
        )
        for case in manifest.cases
    }


def _plain(name: str) -> str:
    """Return a project's name as compared: field bugs are filed under what its makers call it."""
    return name.lower().replace("_", "-")
