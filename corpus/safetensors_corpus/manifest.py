"""The manifest as consumers see it: ``corpus.json`` loaded into typed values."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from safetensors_reference import rule_book
from safetensors_reference.source import read_whole

from . import recipe
from .document import MANIFEST, CaseRow, CaseTable, Document, ManifestError, read_document, unusable

LARGEST_IN_MEMORY = 256 << 20
"""Largest input in bytes that ``Case.read_input`` returns."""
ROOT_MARK = b"@ROOT@"
"""In files of a directory input marked as template: stands for the absolute path of the directory."""
LAYOUT_CODES = frozenset(
    {
        "OFF_REVERSED",
        "OFF_OUT_OF_BOUNDS",
        "OFF_SIZE_MISMATCH",
        "OFF_OVERLAP",
        "OFF_HOLE",
        "OFF_TRAILING",
        "SHP_OVERFLOW",
        "DTY_SUBBYTE",
    }
)
"""Codes of faults that show only to who computes sizes, or holds ranges against one another and the data."""


@dataclass(frozen=True)
class Expectation:
    """What one option of a case demands: ``outcome`` accept with ``content``, or reject with ``codes``.

    ``content`` holds ``tensors`` and ``metadata``, or only ``tensor_count`` where listing them would cost
    more than the reader under test may use. ``properties`` name what is demanded of a written file besides.
    """

    outcome: str
    content: dict[str, Any] | None
    codes: tuple[str, ...]
    properties: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Expectation:
        """Build from the manifest's JSON, texts that JSON cannot carry put together."""
        content = raw.get("content")
        if content is not None and "tensors" in content:
            tensors = [{**row, "name": recipe.text_of(row["name"])} for row in content["tensors"]]
            metadata = content.get("metadata")
            content = {"tensors": tensors, "metadata": None if metadata is None else recipe.map_of(metadata)}
        return cls(raw["outcome"], content, tuple(raw.get("codes", ())), tuple(raw.get("properties", ())))


COMBINED = "surroundings"
"""The area whose cases combine what the others are about."""
ANY_VALID_FILE = "FRM-11"
"""The rule that a file without fault is accepted, whatever it combines; the first one of such cases."""
AREA_OF_RULES = {
    "FRM": "framing",
    "HDR": "header",
    "ENT": "entry",
    "DTY": "dtype",
    "SHP": "shape",
    "OFF": "layout",
    "MET": "metadata",
    "DAT": "data",
}
"""Letters of a rule -> the area of its cases."""

_AREAS_OF_FILES = frozenset(AREA_OF_RULES.values())


def claims_rule(areas: Collection[str], rule: str) -> bool:
    """Tell whether a rule may be held against a program that claims to judge these areas; none claims all.

    Rules on writing, on calls and on indexes belong to no area of files. A program that claims none of those,
    but to write files or to load what an index names, limits nothing that is in a file.
    """
    area = AREA_OF_RULES.get(rule[:3])
    return area is None or area in areas or _AREAS_OF_FILES.isdisjoint(areas)


@dataclass(frozen=True)
class DirectoryFile:
    """One file of a directory input: where it lies, or what it is made of, and where it goes."""

    source: Path
    path: str
    sha256: str
    size: int
    template: bool
    recipe: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Input:
    """What is given to the implementation: a stored file, a recipe, or a directory with a file to open.

    ``file`` is the stored file, or the file to open inside ``directory``; ``recipe`` its parts otherwise.
    A case without input has none of the three.
    """

    file: Path | None = None
    recipe: tuple[dict[str, Any], ...] = ()
    sha256: str = ""
    size: int = 0
    files: tuple[DirectoryFile, ...] = ()
    entry: str = ""


@dataclass(frozen=True, kw_only=True)
class Case(CaseRow):
    """One input with one purpose.

    ``expect`` holds the expectation of a case without a choice; ``options`` those of a case of ``choice``.
    Exactly one of the two is filled. ``action`` says what is done with the input where that is more than
    opening and reading it; ``budget`` what it may cost (``seconds``, ``peak_bytes``, ``read_bytes``).
    ``heavy`` cases are made of large inputs and are run on demand only.
    """

    input: Input
    choice: str | None
    expect: Expectation | None
    options: dict[str, Expectation]

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def area(self) -> str:
        """The part of the id before the slash."""
        return self.id.split("/", 1)[0]

    def _of_any_area(self) -> bool:
        return self.area == COMBINED and self.expect is not None and self.expect.outcome == "accept"

    def is_claimed(self, areas: Collection[str]) -> bool:
        """Tell whether a program that claims to judge these areas of files judges this one; none claims all.

        The first rule is what an answer is charged to, so its area must be claimed as well. A file whose only
        fault is in its sizes and ranges asks for ``layout`` too, wherever the case is filed: a lister of
        headers does not compute them. No program may refuse what is valid in every respect.
        """
        if not areas or self._of_any_area():
            return True
        ranges = self.kind == "read" and self.expect is not None and self.expect.codes[:1]
        return (
            (AREA_OF_RULES.get(self.rules[0][:3]) if self.area == COMBINED else self.area) in areas
            and claims_rule(areas, self.rules[0])
            and ("layout" in areas or not (ranges and ranges[0] in LAYOUT_CODES))
        )

    def steps_for(self, steps: Collection[str], areas: Collection[str] = ()) -> list[str]:
        """Return the steps that are asked of a program with these steps, which claims these areas.

        A reader without a separate step for opening shows in reading what opening a small file costs. It does
        not with a large one, whose data it reads as it should, nor where one tensor of the file is asked for.
        """
        if not self.is_claimed(areas):
            return []
        found = [step for step in self.steps if step in steps]
        small = self.size <= LARGEST_IN_MEMORY and self.action is None
        if not found and "read" in steps and self.kind == "resource" and "open" in self.steps and small:
            return ["read"]
        return found

    @property
    def sha256(self) -> str:
        """Digest of the input; of a recipe without its ``zeros`` parts."""
        return self.input.sha256

    @property
    def size(self) -> int:
        """Size of the input in bytes."""
        return self.input.size

    @property
    def path(self) -> Path:
        """The input file. A recipe is made first, once per process. Raises ManifestError."""
        if self.input.file is not None:
            return self.input.file
        if self.input.recipe:
            return _made(self)
        raise ManifestError(f"case {self.id} has no input file")

    def discard(self) -> None:
        """Remove the file that was made of a recipe, if there is one; ``path`` makes it again."""
        if self.id in _MADE:
            _MADE.pop(self.id).unlink(missing_ok=True)

    def read_input(self) -> bytes:
        """Return the file's bytes. Raises ManifestError when they are not the ones of the manifest."""
        if self.size > LARGEST_IN_MEMORY:
            raise ManifestError(f"input of {self.id} is {self.size:,} bytes; too large to hold in memory")
        try:
            data = read_whole(self.path, self.size)
        except OSError as err:
            raise ManifestError(f"corpus file of {self.id}: {err}; run: stc corpus build") from err
        holes = any("zeros" in part for part in self.input.recipe)
        if not holes and hashlib.sha256(data).hexdigest() != self.sha256:
            raise ManifestError(
                f"corpus file {self.path} is not the one of the manifest; run: stc corpus build"
            )
        return data

    def set_up(self, folder: Path) -> Path:
        """Copy the input into ``folder``, for steps that change it, and return the path to hand over.

        Of a directory that is the file to open in it; a case without input gets a path that does not exist.
        Raises ManifestError and OSError.
        """
        if self.input.files:
            for item in self.input.files:
                target = folder / item.path
                target.parent.mkdir(parents=True, exist_ok=True)
                if item.recipe:
                    _make_parts(self.id, item.recipe, item.size, item.sha256, target)
                    continue
                data = read_whole(item.source, item.size)
                if hashlib.sha256(data).hexdigest() != item.sha256:
                    raise ManifestError(f"corpus file {item.source} is not the one of the manifest")
                if item.template:
                    data = data.replace(ROOT_MARK, str(folder.resolve()).encode())
                target.write_bytes(data)
            return folder / self.input.entry
        target = folder / "file.safetensors"
        if self.input.recipe or self.input.file is not None:
            self.copy_to(target)
        return target

    @property
    def demands(self) -> tuple[Expectation, ...]:
        """What is demanded: one expectation, or of a choice one under each option."""
        return (self.expect,) if self.expect is not None else tuple(self.options.values())

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """Fault codes that the author names, under any option of a choice, each once."""
        return tuple(dict.fromkeys(code for demand in self.demands for code in demand.codes))

    @cached_property
    def counted(self) -> bool:
        """True when only the number of tensors is known, so that listing them would be a waste."""
        return any(e.content is not None and "tensor_count" in e.content for e in self.demands)

    def copy_to(self, target: Path | str) -> None:
        """Make the input of one file at ``target``, holes left sparse. Raises ManifestError and OSError."""
        if self.input.recipe:
            _make(self, target)
        else:
            data = memoryview(self.read_input())
            made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:  # without a file object: thousands of them
                while data:
                    data = data[os.write(made, data) :]
            finally:
                os.close(made)


_MADE: dict[str, Path] = {}
_FOLDERS: list[Path] = []


def _made(case: Case) -> Path:
    known = _MADE.get(case.id)
    if known is not None and known.exists():
        return known
    if not _FOLDERS:
        folder = Path(tempfile.mkdtemp(prefix="safetensors-corpus-"))
        _FOLDERS.append(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = _FOLDERS[0] / (case.id.replace("/", "--") + ".safetensors")
    _make(case, target)
    _MADE[case.id] = target
    return target


def _make(case: Case, target: Path | str) -> None:
    _make_parts(case.id, case.input.recipe, case.size, case.sha256, target)


def _make_parts(
    case: str, parts: tuple[dict[str, Any], ...], size: int, sha256: str, target: Path | str
) -> None:
    """Make a file of a case out of its parts. Raises ManifestError when it is not the one expected.

    What the parts give was found bounded when the manifest was read.
    """
    try:
        made = recipe.write(parts, target)
    except OSError as err:
        raise ManifestError(f"input of {case} ({size:,} bytes) cannot be made: {err}") from err
    if made != (size, sha256):
        Path(target).unlink(missing_ok=True)
        raise ManifestError(f"the recipe of {case} does not give the file of the manifest")


@dataclass(frozen=True)
class Manifest:
    """The whole corpus. ``cases`` are the active ones; the ``document`` holds all."""

    version: str
    root: Path
    cases: tuple[Case, ...]
    document: Document

    @property
    def digest(self) -> str:
        """SHA-256 of ``corpus.json``, in hexadecimal."""
        return self.document.digest

    @property
    def raw(self) -> dict[str, Any]:
        """The JSON of all of it, read when first asked for."""
        return self.document.raw

    @cached_property
    def by_id(self) -> dict[str, Case]:
        """Cases by id."""
        return {case.id: case for case in self.cases}

    @cached_property
    def reading(self) -> tuple[Case, ...]:
        """The cases that are one file to open and read, without the heavy ones."""
        return tuple(case for case in self.cases if case.kind == "read" and not case.heavy)


def corpus_root() -> Path:
    """Folder that holds ``corpus.json``: package data in a wheel, the repository's ``corpus/`` otherwise."""
    package = Path(__file__).resolve().parent
    packaged = package / "data"
    return packaged if (packaged / MANIFEST).exists() else package.parent


def load_manifest(path: Path | None = None) -> Manifest:
    """Load a manifest (default: the one that belongs to this package), checked by ``document.faults``.

    Our own is checked only when it is not the one that was built, read once per process, and again when the
    file has changed. Raises ManifestError.
    """
    root = corpus_root() if path is None else Path(path)
    if root == corpus_root():
        with suppress(OSError):
            known = (root / MANIFEST).stat()
            return _own(root, known.st_ino, known.st_mtime_ns, known.st_size)
    return _load(read_document(root))


@lru_cache(maxsize=1)
def _own(root: Path, *_signature: int) -> Manifest:
    document = read_document(root)
    # Whoever can change both it and its digest can change this program as well.
    return _load(document, trusted=document.as_built)


def _load(document: Document, *, trusted: bool = False) -> Manifest:
    # A reader may change its folder, so what it is handed must not depend on one.
    root = document.path.parent.absolute()
    rows = CaseTable.of(document, trusted=trusted)
    try:
        cases = tuple(_case(row, root) for row in rows.cases if row.status == "active")
    except (ValueError, KeyError, TypeError) as err:  # texts in parts that are no text
        raise unusable(document.path, f"{type(err).__name__}: {err}") from err
    for case in cases:
        if case.choice is not None and case.choice not in rule_book().choices:
            raise unusable(
                document.path, f"case {case.id} names choice {case.choice!r}, which is not known here"
            )
    return Manifest(rows.corpus_version, root, cases, document)


def _case(row: CaseRow, root: Path) -> Case:
    known, expect = vars(row), row.expect
    options = {k: Expectation.from_json(v) for k, v in expect.get("options", {}).items()}
    known["expect"] = None if options else Expectation.from_json(expect)
    known["input"] = _input(row.input, root)
    return Case(**known, choice=expect.get("choice"), options=options)


def _input(raw: dict[str, Any] | None, root: Path) -> Input:
    if raw is None:
        return Input()
    if "recipe" in raw:
        return Input(recipe=tuple(raw["recipe"]), sha256=raw["sha256"], size=raw["size"])
    if "directory" not in raw:
        return Input(file=root / raw["file"], sha256=raw["sha256"], size=raw["size"])
    folder = root / raw["directory"]
    files = tuple(
        DirectoryFile(
            folder / f["path"],
            f["path"],
            f["sha256"],
            f["size"],
            f.get("template", False),
            tuple(f.get("recipe", ())),
        )
        for f in raw["files"]
    )
    opened = next(f for f in files if f.path == raw["open"])
    return Input(opened.source, (), opened.sha256, opened.size, files, opened.path)
