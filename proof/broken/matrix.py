"""The matrix of cases and variants: which cases each deliberately broken implementation fails.

A case that no variant fails proves nothing, and a variant that fails no case reveals a missing case. The
result is committed as ``matrix.json``.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
import sys
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from proof.planted import Planted
from safetensors_cases.surroundings import sets
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.judging.answer import Answer
from safetensors_corpus.manifest import COMBINED, Case, Manifest, load_manifest

from .variant import Panic, all_variants

FILE = Path(__file__).with_name("matrix.json")
SECONDS = 10.0
"""Time limit in seconds for one case with one variant.

It is long enough for a busy machine. A limit is necessary because a broken variant may never return.
"""


ENOUGH = 3
"""Number of topics of cases that a variant must fail."""
FOLDED = 3
"""Smallest number of cases that one prefix may represent in the file."""


topics = cache(sets.topics)


def topic(case: str) -> str:
    """Return the covering set of a case, or the id of a case that belongs to no covering set."""
    area, _, name = case.partition("/")
    words = name.split("-") if area == COMBINED else []
    beginnings = ("-".join(words[:end]) for end in range(len(words), 0, -1))
    return next((beginning for beginning in beginnings if beginning in topics()), case)


@dataclass(frozen=True)
class Row:
    """A variant and the ids of the cases that it fails."""

    name: str
    kind: str
    about: str
    fails: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """All variants and the cases that they fail.

    ``cases`` maps the id of each case to its kind.
    """

    rows: tuple[Row, ...]
    cases: dict[str, str]

    @cached_property
    def failed_by(self) -> dict[str, list[str]]:
        """Map from the id of each case to the names of the variants that fail it."""
        found: dict[str, list[str]] = {case: [] for case in self.cases}
        for row in self.rows:
            for case in row.fails:
                found.setdefault(case, []).append(row.name)
        return found

    @property
    def unproven(self) -> list[str]:
        return [case for case in self.cases if not self.failed_by[case]]

    @cached_property
    def thin(self) -> dict[str, int]:
        """Variants that fail cases of fewer than ``ENOUGH`` topics, and the numbers of these topics."""
        counts = {row.name: len({topic(case) for case in row.fails}) for row in self.rows}
        return {name: count for name, count in counts.items() if count < ENOUGH}

    @property
    def harmless(self) -> list[str]:
        return [row.name for row in self.rows if not row.fails]

    def text(self) -> str:
        """Return the text of the file, with one variant per line for small diffs.

        If a variant fails all cases with a common prefix, the prefix and a star represent them.
        """
        counts = dict(sorted(Counter(self.cases.values()).items()))
        known = _beginnings(self.cases)
        folded = (vars(row) | {"fails": _folded(row.fails, known)} for row in self.rows)
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in folded)
        return (
            f'{{\n"cases": {json.dumps(counts)},\n"variants": [\n{rows}\n],\n'
            f'"cases without a failing variant": {json.dumps(self.unproven)}\n}}\n'
        )


def _beginnings(cases: Iterable[str]) -> Counter[str]:
    return Counter(match for case in cases for match in _begins(case))


def _begins(case: str) -> Iterator[str]:
    return (case[: match.end()] for match in re.finditer("[-/]", case))


def _folded(fails: Sequence[str], known: Mapping[str, int]) -> list[str]:
    """Return the ids, with a common prefix in place of ``FOLDED`` or more ids if it matches no other case."""
    own = _beginnings(fails)
    spelled = (
        next((f"{begin}*" for begin in _begins(case) if own[begin] == known[begin] >= FOLDED), case)
        for case in fails
    )
    return list(dict.fromkeys(spelled))


def _unfolded(fails: Iterable[str], cases: Sequence[str]) -> tuple[str, ...]:
    found: set[str] = set()
    for text in fails:
        if not text.endswith("*"):
            found.add(text)
            continue
        first = bisect_left(cases, text[:-1])
        found.update(cases[first : bisect_left(cases, text[:-1] + chr(0x10FFFF))])
    return tuple(sorted(found))


def kinds() -> set[str]:
    return {variant.kind for variant in light_variants()}


def light_variants() -> tuple[Planted, ...]:
    return tuple(variant for variant in all_variants() if not variant.heavy)


def cases_for(manifest: Manifest, kind: str) -> list[Case]:
    return [case for case in manifest.cases if case.kind == kind and not case.heavy]


def fails(variant: Planted, cases: Iterable[Case], folder: Path) -> list[str]:
    """Return the sorted ids of the cases that a variant fails. ``folder`` is for inputs that are changed."""
    implementation = variant.make()
    return sorted(case.id for case in cases if why(implementation, case, folder) is not None)


def why(implementation: object, case: Case, folder: Path) -> str | None:
    if case.kind in ("read", "slice"):
        return mismatch(case, _performed(case, implementation, folder))
    # Cases of other kinds write files, so each run gets its own folder.
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return mismatch(case, _performed(case, implementation, Path(own)))


def _performed(case: Case, implementation: object, folder: Path) -> Answer:
    try:
        with _time_limit():
            return run_case(case, implementation, folder)
    except Panic as err:
        return Answer("crash", message=str(err))


def _late(_signum: int, _frame: object) -> None:
    raise TimeoutError(f"no answer after {SECONDS:g} s")


@contextmanager
def _time_limit() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def compute(
    manifest: Manifest,
    *,
    variants: Sequence[Planted] | None = None,
    jobs: int = 1,
    done: Callable[[], object] = lambda: None,
) -> Matrix:
    """Run every variant on every case of its kind. ``done`` is called after each variant.

    If ``jobs`` is greater than 1, each process looks up the variants by name, so they must be registered.
    """
    variants = light_variants() if variants is None else variants
    rows = []
    if jobs == 1:
        found = (_row(variant, manifest) for variant in variants)
        rows = [_counted(row, done) for row in found]
    else:
        method = "fork" if sys.platform == "linux" else "spawn"
        context = multiprocessing.get_context(method)
        root = manifest.root
        with ProcessPoolExecutor(jobs, context, _open_corpus, (root,)) as pool:
            rows = [_counted(row, done) for row in pool.map(_row_by_name, [v.name for v in variants])]
    return Matrix(tuple(rows), _run(manifest))


def _counted(row: Row, done: Callable[[], object]) -> Row:
    done()
    return row


def _row(variant: Planted, manifest: Manifest) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        found = fails(variant, cases_for(manifest, variant.kind), Path(folder))
    return Row(variant.name, variant.kind, variant.about, tuple(found))


_OPENED: list[Manifest] = []


def _open_corpus(root: Path) -> None:
    _OPENED[:] = [load_manifest(root)]


def _row_by_name(name: str) -> Row:
    return _row(next(variant for variant in all_variants() if variant.name == name), _OPENED[0])


def load(cases: Iterable[str], path: Path | None = None) -> tuple[Row, ...]:
    """Return the rows of the committed matrix. Raises OSError and ValueError.

    Args:
        cases: ids of the cases in the matrix.
        path: path of the matrix; None for the project's matrix.
    """
    raw: dict[str, Any] = json.loads((path or FILE).read_text(encoding="utf-8"))
    known = sorted(cases)
    try:
        return tuple(
            Row(r["name"], r["kind"], r["about"], _unfolded(r["fails"], known)) for r in raw["variants"]
        )
    except (AttributeError, KeyError, TypeError) as err:
        raise ValueError(f"not a matrix ({type(err).__name__}: {err})") from err


def committed(manifest: Manifest, path: Path | None = None) -> Matrix:
    """Return the committed matrix for the cases of a manifest. Raises OSError and ValueError."""
    cases = _run(manifest)
    return Matrix(load(cases, path), cases)


def _run(manifest: Manifest) -> dict[str, str]:
    known = kinds()
    return {
        c.id: c.kind for c in sorted(manifest.cases, key=lambda c: c.id) if c.kind in known and not c.heavy
    }
