"""The matrix case x variant: which deliberately broken implementation is failed by which cases.

Every case has to be failed by at least one variant, or it proves nothing; every variant has to fail at least
one case, or a case is missing. The result is committed as ``matrix.json`` beside ``corpus.json``.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..judging.answer import Answer
from ..manifest import Case, Manifest, corpus_root, load_manifest
from ..perform import failure, perform
from .variant import Panic, Variant, all_variants

FILE = "matrix.json"
SECONDS = 10.0
"""Time for one case with one variant, long enough for a busy machine; a broken one may run for ever."""


@dataclass(frozen=True)
class Row:
    """One variant and the ids of the cases that it fails."""

    name: str
    kind: str
    about: str
    fails: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """All variants with the cases that they fail. ``cases`` maps the id of each case to its kind."""

    rows: tuple[Row, ...]
    cases: dict[str, str]

    @cached_property
    def failed_by(self) -> dict[str, list[str]]:
        """The names of the variants that fail a case, by the id of the case."""
        found: dict[str, list[str]] = {case: [] for case in self.cases}
        for row in self.rows:
            for case in row.fails:
                found.setdefault(case, []).append(row.name)
        return found

    @property
    def unproven(self) -> list[str]:
        """Cases that no variant fails."""
        return [case for case in self.cases if not self.failed_by[case]]

    @property
    def harmless(self) -> list[str]:
        """Variants that fail no case."""
        return [row.name for row in self.rows if not row.fails]

    def text(self) -> str:
        """Return the file: one variant on a line, so that a change of one case is a small difference."""
        counts = dict(sorted(Counter(self.cases.values()).items()))
        rows = ",\n".join(f"  {json.dumps(vars(row), ensure_ascii=False)}" for row in self.rows)
        return (
            f'{{\n"cases": {json.dumps(counts)},\n"variants": [\n{rows}\n],\n'
            f'"cases without a failing variant": {json.dumps(self.unproven)}\n}}\n'
        )


def kinds() -> set[str]:
    """Return the kinds of case for which there are broken implementations."""
    return {variant.kind for variant in light_variants()}


def light_variants() -> tuple[Variant, ...]:
    """Return the variants that the matrix is about: those that light cases can catch."""
    return tuple(variant for variant in all_variants() if not variant.heavy)


def cases_for(manifest: Manifest, kind: str) -> list[Case]:
    """Return the cases that variants of a kind are run on: all but the heavy ones."""
    return [case for case in manifest.cases if case.kind == kind and not case.heavy]


def fails(variant: Variant, cases: Iterable[Case], folder: Path) -> list[str]:
    """Return the ids of the cases that a variant fails, sorted. ``folder`` is for inputs that are changed."""
    implementation = variant.make()
    return sorted(case.id for case in cases if why(implementation, case, folder) is not None)


def why(implementation: object, case: Case, folder: Path) -> str | None:
    """Say why an implementation fails a case; None when its answer is permitted."""
    if case.kind in ("read", "slice"):
        return failure(case, _performed(case, implementation, folder))
    # The other kinds write, so each performance gets a folder of its own.
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return failure(case, _performed(case, implementation, Path(own)))


def _performed(case: Case, implementation: object, folder: Path) -> Answer:
    try:
        with _time_limit():
            return perform(case, implementation, folder)
    except Panic as err:
        return Answer("crash", message=str(err))


def _late(_signum: int, _frame: object) -> None:
    raise TimeoutError(f"no answer after {SECONDS:g} s")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TimeoutError in this thread when the time for one case is over."""
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
    variants: Sequence[Variant] | None = None,
    jobs: int = 1,
    done: Callable[[], object] = lambda: None,
) -> Matrix:
    """Run every variant on every case of its kind. ``done`` is called after each variant.

    With several ``jobs`` the variants are found again by name in each process, so they must be registered.
    """
    variants = light_variants() if variants is None else variants
    known = kinds()
    cases = {
        c.id: c.kind for c in sorted(manifest.cases, key=lambda c: c.id) if c.kind in known and not c.heavy
    }
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
    return Matrix(tuple(rows), cases)


def _counted(row: Row, done: Callable[[], object]) -> Row:
    done()
    return row


def _row(variant: Variant, manifest: Manifest) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        found = fails(variant, cases_for(manifest, variant.kind), Path(folder))
    return Row(variant.name, variant.kind, variant.about, tuple(found))


_OPENED: list[Manifest] = []


def _open_corpus(root: Path) -> None:
    _OPENED[:] = [load_manifest(root)]


def _row_by_name(name: str) -> Row:
    return _row(next(variant for variant in all_variants() if variant.name == name), _OPENED[0])


def load(path: Path | None = None) -> tuple[Row, ...]:
    """Return the rows of the committed matrix. Raises OSError and ValueError."""
    raw: dict[str, Any] = json.loads((path or corpus_root() / FILE).read_text(encoding="utf-8"))
    try:
        return tuple(Row(r["name"], r["kind"], r["about"], tuple(r["fails"])) for r in raw["variants"])
    except (KeyError, TypeError) as err:
        raise ValueError(f"not a matrix ({type(err).__name__}: {err})") from err


def committed(manifest: Manifest, path: Path | None = None) -> Matrix:
    """Return the committed matrix over the cases of a manifest. Raises OSError and ValueError."""
    cases = {
        c.id: c.kind for c in sorted(manifest.cases, key=lambda c: c.id) if c.kind in kinds() and not c.heavy
    }
    return Matrix(load(path), cases)
