"""Inputs of a differential run: corpus cases or files by path, and what is known of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.author.file import dtype_features
from safetensors_reference import UnreadableError, explain, rule_book
from safetensors_reference.check.inputs import INDEX_SUFFIX, find_inputs
from safetensors_reports.differences.signatures import About

from ..run.cases import GivenFile, Input, plain

KINDS = ("read", "slice", "index")
"""Kinds of corpus case whose answers can be held against each other without an expectation."""
MAX_CODES = 6
GONE = "unreadable"
"""Subject of a file that cannot be read any more when the strict reader gets to it."""


def places_of(files: Iterable[GivenFile]) -> set[Path]:
    """Return what has to be seen to read files: each one, of an index file the folder with its shards."""
    return {file.path.parent if file.kind == "index" else file.path for file in files}


def of_files(arguments: Iterable[str]) -> tuple[list[GivenFile], list[str]]:
    """Return the files that the arguments (files, directories, patterns) lead to, and what leads nowhere.

    A file that cannot be opened is a problem here, before a refusal of it could look like an opinion.
    """
    files, problems = [], []
    for item in find_inputs(arguments):
        problem = item.problem or _unreadable(item.name)
        if problem:
            problems.append(f"{item.name}: {problem}")
            continue
        kind = "index" if item.name.endswith(INDEX_SUFFIX) else "read"
        files.append(GivenFile(item.name, kind, Path(item.name).absolute()))
    return files, problems


def _unreadable(name: str) -> str | None:
    try:
        if not Path(name).is_file():
            return "no such file" if not Path(name).exists() else "not a regular file"
        with Path(name).open("rb"):
            return None
    except OSError as err:
        return err.strerror or str(err)


def features_of(path: Path) -> Iterator[str]:
    """Yield the dtypes of a valid file as names of features; it is read when they are looked at."""
    with contextlib.suppress(UnreadableError):
        header = explain(path).header
        yield from dtype_features(t.dtype for t in header.tensors.values()) if header is not None else ()


def checked(cases: Iterable[Case]) -> tuple[list[Case], list[str]]:
    """Return the cases whose inputs are what the manifest says, and a problem for each other one.

    Also makes what is made from recipes, so that threads find it done.
    """
    good, problems = [], []
    for case in cases:
        try:
            check_input(case)
        except ManifestError as err:
            problems.append(str(err))
        else:
            good.append(case)
    return good, problems


def check_input(case: Case) -> None:
    """Make sure that the input is the one of the manifest. Raises ManifestError."""
    if case.input.recipe:
        _ = case.path  # checked when it is made
    elif case.input.file is not None and not case.input.files:
        case.read_input()


class Knowledge(Mapping[str, About]):
    """Knowledge of every input, worked out when it is asked for, since the strict reader does it."""

    def __init__(self, inputs: Iterable[Input]) -> None:
        self._inputs = {item.id: item for item in inputs}
        self._known: dict[str, About] = {}

    def __getitem__(self, input_id: str) -> About:
        if input_id not in self._known:
            self._known[input_id] = about(self._inputs[input_id])
        return self._known[input_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)


def about(item: Input) -> About:
    """Say what is special about an input: the strict reader's fault codes, else the case's rule."""
    case = item if isinstance(item, Case) else None
    if case is not None and not plain(item):
        return About(case.rules[0], _open(case.choice), case.title)
    codes, choices = _faults(item.path) if item.kind == "read" else ([], set())
    subject = "+".join(codes[:MAX_CODES]) or (case.rules[0] if case is not None else "valid")
    if case is not None:
        return About(subject, _open(case.choice), case.title)
    undisputed = not choices or any(not _open(c) for c in choices)
    return About(subject, "" if undisputed else "+".join(sorted(c for c in choices if c)))


def _faults(path: Path) -> tuple[list[str], set[str | None]]:
    """Return the distinct fault codes of a file, sorted, and the choices that its faults fall under."""
    try:
        found = explain(path)
    except UnreadableError:
        return [GONE], set()
    faults = [*found.faults, *found.tolerated]
    return sorted({f.code for f in faults}), {f.choice for f in faults}


def _open(choice: str | None) -> str:
    """Return the choice when several answers to it are legitimate, else an empty text."""
    return choice if choice and rule_book().choices[choice].required is None else ""
