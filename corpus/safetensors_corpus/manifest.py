"""Typed access to ``corpus.json`` and to the inputs of its cases."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from safetensors_reference import rule_book
from safetensors_reference.source import read_whole

from . import recipe
from .document import MANIFEST, CaseTable, Document, ManifestError, read_document, unusable
from .model import CaseRow
from .packed import corpus_root, temporary_folder

LARGEST_IN_MEMORY = 256 << 20
"""Maximum size in bytes of an input that is read into memory."""
ROOT_MARK = b"@ROOT@"
"""Placeholder in template files for the absolute path of the directory."""
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
"""Codes of faults that a reader detects only if it computes sizes or compares ranges."""


def read_stored(path: Path, size: int, sha256: str) -> bytes:
    """Read a stored file. Raises OSError, and ManifestError if its digest differs from the manifest."""
    data = read_whole(path, size)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ManifestError(f"{path} differs from the manifest; run: stc corpus verify")
    return data


@dataclass(frozen=True)
class Expectation:
    """The expectation of a case or an option: accept with ``content``, or reject with ``codes``.

    ``content`` contains ``tensors`` and ``metadata``. It contains only ``tensor_count`` if a list would
    exceed the budget of the tested reader. ``properties`` are further requirements for a written file.
    """

    outcome: str
    content: dict[str, Any] | None
    codes: tuple[str, ...]
    properties: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Expectation:
        """Build an expectation from the JSON of the manifest, and expand the strings given in parts."""
        content = raw.get("content")
        if content is not None and "tensors" in content:
            tensors = [{**row, "name": recipe.text_of(row["name"])} for row in content["tensors"]]
            metadata = content.get("metadata")
            content = {"tensors": tensors, "metadata": None if metadata is None else recipe.map_of(metadata)}
        return cls(raw["outcome"], content, tuple(raw.get("codes", ())), tuple(raw.get("properties", ())))


COMBINED = "surroundings"
"""Area whose cases combine features of other areas."""
ANY_VALID_FILE = "FRM-11"
"""Rule that requires readers to accept every valid file. Cases that combine features list it first."""
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
"""Maps each family of rules to the area of its cases."""

_AREAS_OF_FILES = frozenset(AREA_OF_RULES.values())


def claims_rule(areas: Collection[str], rule: str) -> bool:
    """Return whether a rule applies to a program that claims these areas.

    An empty collection claims all areas. Rules on writing, calls and indexes do not belong to an area of
    files, so they always apply. If a program does not claim any area of files, all rules on files apply.
    """
    area = AREA_OF_RULES.get(rule[:3])
    return area is None or area in areas or _AREAS_OF_FILES.isdisjoint(areas)


@dataclass(frozen=True)
class DirectoryFile:
    """A file of a directory input: its stored source or its recipe, and its path in the directory."""

    source: Path
    path: str
    sha256: str
    size: int
    template: bool
    recipe: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Input:
    """The input of a case: a stored ``file``, a ``recipe``, or ``files`` of a directory with an ``entry``.

    The entry is the file to open, and ``file`` is its source. All fields are empty for a case without an
    input.
    """

    file: Path | None = None
    recipe: tuple[dict[str, Any], ...] = ()
    sha256: str = ""
    size: int = 0
    files: tuple[DirectoryFile, ...] = ()
    entry: str = ""


@dataclass(frozen=True, kw_only=True)
class Case(CaseRow):
    """An input with one purpose, and the expected outcome.

    A case has either ``expect`` or, for a ``choice``, ``options``. ``action`` describes what to do in
    addition to opening and reading the input. ``budget`` limits the cost (``seconds``, ``peak_bytes``,
    ``read_bytes``). ``heavy`` cases have large inputs and run only on request.
    """

    input: Input
    choice: str | None
    expect: Expectation | None
    options: dict[str, Expectation]

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def area(self) -> str:
        return self.id.split("/", 1)[0]

    def is_claimed(self, areas: Collection[str]) -> bool:
        """Return whether the case applies to a program that claims these areas.

        An empty collection claims all areas. The program must also claim the area of the first rule, because
        failures are attributed to that rule. A file whose only faults are in sizes and ranges also needs
        ``layout``, whatever its area is, because a program that only lists headers does not compute them.
        Cases with valid files that combine features or have unusual paths apply to every program.
        """
        combined = self.area == COMBINED
        valid = self.expect is not None and self.expect.outcome == "accept"
        if not areas or (valid and (combined or self.kind == "placed")):
            return True
        ranges = self.kind == "read" and self.expect is not None and self.expect.codes[:1]
        return (
            (AREA_OF_RULES.get(self.rules[0][:3]) if combined else self.area) in areas
            and claims_rule(areas, self.rules[0])
            and ("layout" in areas or not (ranges and ranges[0] in LAYOUT_CODES))
        )

    def steps_for(self, steps: Collection[str], areas: Collection[str] = ()) -> list[str]:
        """Return the steps of the case to run on a program that has ``steps`` and claims ``areas``.

        If a reader has no ``open`` step, the harness reads a small file to measure the cost of opening it.
        The harness does not do this for large files or for cases that request a single tensor.
        """
        if not self.is_claimed(areas):
            return []
        common = [step for step in self.steps if step in steps]
        small = self.size <= LARGEST_IN_MEMORY and self.action is None
        if not common and "read" in steps and self.kind == "resource" and "open" in self.steps and small:
            return ["read"]
        return common

    @property
    def sha256(self) -> str:
        """Digest of the input. The digest of a recipe excludes its ``zeros`` parts."""
        return self.input.sha256

    @property
    def size(self) -> int:
        return self.input.size

    @property
    def path(self) -> Path:
        """The input file. A recipe is expanded only once per process. Raises ManifestError."""
        if self.input.file is not None:
            return self.input.file
        if not self.input.recipe:
            raise ManifestError(f"case {self.id} has no input file")
        target = _MADE.get(self.id)
        if target is None or not target.exists():
            target = temporary_folder() / (self.id.replace("/", "--") + ".safetensors")
            self.copy_to(target)
            _MADE[self.id] = target
        return target

    def discard(self) -> None:
        """Remove the expanded recipe. ``path`` expands it again."""
        if self.id in _MADE:
            _MADE.pop(self.id).unlink(missing_ok=True)

    def read_input(self) -> bytes:
        """Return the bytes of the input. Raises ManifestError if they differ from the manifest."""
        if self.size > LARGEST_IN_MEMORY:
            raise ManifestError(f"input of {self.id} has {self.size:,} bytes, which is too large for memory")
        try:
            data = read_whole(self.path, self.size)
        except OSError as err:
            raise ManifestError(f"corpus file of {self.id}: {err}; run: stc corpus build") from err
        holes = any("zeros" in part for part in self.input.recipe)
        if not holes and hashlib.sha256(data).hexdigest() != self.sha256:
            raise ManifestError(f"corpus file {self.path} differs from the manifest; run: stc corpus build")
        return data

    def set_up(self, folder: Path) -> Path:
        """Copy the input into ``folder``, and return the path for the implementation.

        For a directory, returns the path of the file to open. For a case without an input, returns a path
        that does not exist. Raises ManifestError and OSError.
        """
        if self.input.files:
            for item in self.input.files:
                target = folder / item.path
                target.parent.mkdir(parents=True, exist_ok=True)
                if item.recipe:
                    _make_parts(self.id, item.recipe, item.size, item.sha256, target)
                    continue
                data = read_stored(item.source, item.size, item.sha256)
                if item.template:
                    data = data.replace(ROOT_MARK, str(folder.resolve()).encode())
                _write(target, data)
            return folder / self.input.entry
        target = folder / "file.safetensors"
        if self.input.recipe or self.input.file is not None:
            self.copy_to(target)
        return target

    @property
    def demands(self) -> tuple[Expectation, ...]:
        """The expectation of the case, or the expectations of all options of its choice."""
        return (self.expect,) if self.expect is not None else tuple(self.options.values())

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The distinct fault codes of all expectations."""
        return tuple(dict.fromkeys(code for demand in self.demands for code in demand.codes))

    @cached_property
    def counted(self) -> bool:
        """Whether the case expects only a number of tensors."""
        return any(e.content is not None and "tensor_count" in e.content for e in self.demands)

    def copy_to(self, target: Path | str) -> None:
        """Copy a single-file input to ``target`` and preserve its holes. Raises ManifestError and OSError."""
        if self.input.recipe:
            _make_parts(self.id, self.input.recipe, self.size, self.sha256, target)
        else:
            _write(target, self.read_input())


_MADE: dict[str, Path] = {}


def _create(path: Path | str) -> int:
    """Open a file for writing in a folder to which a running program could add links or FIFOs."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _write(path: Path | str, data: bytes) -> None:
    left, made = memoryview(data), _create(path)
    try:  # for thousands of files, os.write is faster than a file object
        while left:
            left = left[os.write(made, left) :]
    finally:
        os.close(made)


def _make_parts(
    case: str, parts: tuple[dict[str, Any], ...], size: int, sha256: str, target: Path | str
) -> None:
    # The size of the parts was already checked when the manifest was read.
    try:
        with os.fdopen(_create(target), "wb") as file:
            made = recipe.write(parts, file)
    except OSError as err:
        raise ManifestError(f"input of {case} ({size:,} bytes) cannot be created: {err}") from err
    if made != (size, sha256):
        Path(target).unlink(missing_ok=True)
        raise ManifestError(f"the recipe of {case} does not produce the file of the manifest")


@dataclass(frozen=True)
class Manifest:
    """The corpus: its active ``cases``, and the ``document``, which also contains the inactive cases."""

    version: str
    root: Path
    cases: tuple[Case, ...]
    document: Document

    @property
    def digest(self) -> str:
        return self.document.digest

    @property
    def raw(self) -> dict[str, Any]:
        """The parsed JSON of the whole manifest."""
        return self.document.raw

    @cached_property
    def by_id(self) -> dict[str, Case]:
        return {case.id: case for case in self.cases}

    @cached_property
    def reading(self) -> tuple[Case, ...]:
        """The cases of kind ``read`` that are not heavy."""
        return tuple(case for case in self.cases if case.kind == "read" and not case.heavy)


def load_manifest(path: Path | None = None) -> Manifest:
    """Load and validate a manifest; by default, the one in this package. Raises ManifestError.

    The manifest of this package is cached until its file changes. It is validated only if it differs from the
    manifest that the build wrote.
    """
    root = corpus_root() if path is None else Path(path)
    if root == corpus_root():
        with suppress(OSError):
            status = (root / MANIFEST).stat()
            return _own(root, status.st_ino, status.st_mtime_ns, status.st_size)
    return _load(read_document(root))


@lru_cache(maxsize=1)
def _own(root: Path, *_signature: int) -> Manifest:
    document = read_document(root)
    # An attacker who can change both the manifest and its digest can also change this program.
    return _load(document, trusted=document.as_built)


def _load(document: Document, *, trusted: bool = False) -> Manifest:
    # The path must be absolute, because an implementation may change the working directory.
    root = document.path.parent.absolute()
    rows = CaseTable.of(document, trusted=trusted)
    try:
        cases = [_case(row, root) for row in rows.cases if row.status == "active"]
    except (ValueError, KeyError, TypeError) as err:  # invalid parts of a string
        raise unusable(document.path, f"{type(err).__name__}: {err}") from err
    for case in cases:
        if case.choice is not None and case.choice not in rule_book().choices:
            raise unusable(document.path, f"case {case.id} names the unknown choice {case.choice!r}")
    return Manifest(rows.corpus_version, root, tuple(cases), document)


def _case(row: CaseRow, root: Path) -> Case:
    fields, expect = vars(row), row.expect
    options = {k: Expectation.from_json(v) for k, v in expect.get("options", {}).items()}
    fields["expect"] = None if options else Expectation.from_json(expect)
    fields["input"] = _input(row.input, root)
    return Case(**fields, choice=expect.get("choice"), options=options)


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


SIDES = ("accept", "reject")


@dataclass(frozen=True)
class RuleCoverage:
    """The sides of a rule that active cases cover under any option. ``reasons`` explains missing sides."""

    id: str
    level: str
    cases: int
    sides: tuple[str, ...]
    reasons: dict[str, str]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(side for side in SIDES if side not in self.sides)


def active(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [case for case in raw["cases"] if case["status"] == "active"]


def load_reasons() -> dict[str, dict[str, str]]:
    """Load ``coverage.toml``, which maps rules and sides (or ``both``) to the reason for the missing side."""
    path = Path(__file__).with_name("coverage.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def rule_coverage(raw: Mapping[str, Any], reasons: dict[str, dict[str, str]]) -> list[RuleCoverage]:
    sides: dict[str, set[str]] = {}
    carried: Counter[str] = Counter()
    for case in active(raw):
        carried.update(case["rules"])
        expect = case["expect"]
        demands = expect["options"].values() if "choice" in expect else [expect]
        for rule in case["rules"]:
            sides.setdefault(rule, set()).update(demand["outcome"] for demand in demands)
    out = []
    for rule in raw["rules"]:
        covered, given = sides.get(rule["id"], set()), reasons.get(rule["id"], {})
        out.append(
            RuleCoverage(
                rule["id"],
                rule["level"],
                carried[rule["id"]],
                tuple(side for side in SIDES if side in covered),
                dict.fromkeys(SIDES, given["both"]) if set(given) == {"both"} else dict(given),
            )
        )
    return out
