"""The reader under mutation: which of its modules decide, and how a mutant of it is loaded."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from .operators import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READER = "safetensors_reference"
ALIAS = "safetensors_reference_mutant"

DECIDING = (
    "rules.book",
    "source",
    "rules.dtypes",
    "header.model",
    "header.json_text",
    "header.entries",
    "header.layout",
    "header.entry_table",
    "header.explain",
)
"""Modules that decide verdict, fault code and content, each after those that it imports."""
SHARED = ("rules.errors", "rules.faults", "header.texts")
"""Modules that carry what the others decided; they are used as they are."""

SKIP: Mapping[str, tuple[str, ...]] = {
    # The rule book is data with tests of its own; of this module only the header cap decides.
    "rules.book": ("*",),
    # Case files are handed over as bytes; which forms of input are taken is no matter of files.
    "source": (
        "_has_descriptor",
        "_read_all",
        "read_whole",
        "MemorySource.__init__",
        "UnreadableError",
        "Source",
        "FileSource",
        "PathSource",
        "shorter",
        "open_source",
    ),
    # The proving path's view of a header, and conveniences of the programming interface.
    "header.model": ("ParsedEntries", "rows", "TensorInfo.bits", "Header.in_offset_order"),
    # Texts and drawings for people.
    "header.entries": ("describe",),
    "header.layout": ("show_shape", "draw_layout"),
    "header.explain": ("InvalidFileError", "_Explainer._byte"),
}
"""Functions and classes that are not mutated."""


def sources() -> dict[str, str]:
    """Return module name -> source text of every module that decides."""
    root = files(READER)
    places = {name: f"{name.replace('.', '/')}.py" for name in DECIDING}
    return {name: root.joinpath(place).read_text(encoding="utf-8") for name, place in places.items()}


def reader_mutants() -> list[Mutant]:
    """Return all mutants of the strict reader, by module and place."""
    return mutants_of(sources(), SKIP)


@cache
def _sound_code(name: str) -> CodeType:
    return compile(sources()[name], f"<{name}>", "exec")


def warm() -> None:
    """Compile and import everything that a mutant needs, before the first fork."""
    for name in DECIDING:
        _sound_code(name)
        import_module(f"{READER}.{name}")
    import_module(f"{READER}.rules.book").rule_book()


def load_reader(mutant: Mutant | None) -> Callable[[bytes, str], Any]:
    """Load the reader with the fault of ``mutant`` (None: the sound one) and return its ``explain``.

    The modules live under another package name, so the reader of this process stays sound.
    """
    for parent in {ALIAS, *(f"{ALIAS}.{name}".rpartition(".")[0] for name in (*SHARED, *DECIDING))}:
        package = ModuleType(parent)
        package.__path__ = []
        sys.modules[parent] = package
    for name in (*SHARED, *DECIDING):
        # The rule book takes longest to load, so its module is replaced only when the fault is in it.
        if name in SHARED or (name == "rules.book" and (mutant is None or mutant.module != name)):
            sys.modules[f"{ALIAS}.{name}"] = import_module(f"{READER}.{name}")
            continue
        faulty = mutant is not None and mutant.module == name
        module = ModuleType(f"{ALIAS}.{name}")
        module.__package__ = module.__name__.rpartition(".")[0]
        sys.modules[module.__name__] = module
        exec(mutant.compiled() if mutant and faulty else _sound_code(name), module.__dict__)  # noqa: S102
    explain = sys.modules[f"{ALIAS}.header.explain"].explain
    assert callable(explain)
    return explain  # type: ignore[no-any-return]
