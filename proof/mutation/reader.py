"""The reader to be mutated: the modules that decide its answers, the loader of mutants, and the probes.

The probes are small case files under each profile, with the expectations of that profile.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from safetensors_reference import PROFILES, rule_book

from .mutants import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from safetensors_corpus import Case, Expectation

READER = "safetensors_reference"
ALIAS = "safetensors_reference_mutant"

DECIDING = (
    "rules.book",
    "source",
    "rules.dtypes",
    "header.json_text",
    "header.model",
    "header.entries",
    "header.explain",
    "header.read",
)
"""Modules that decide verdict, fault code and content, each listed after the modules that it imports."""
SHARED = ("text", "rules.errors", "rules.faults", "header.likeness")
"""Modules that only pass on the decisions of others; they are not mutated."""

SKIP: Mapping[str, tuple[str, ...]] = {
    # The rule book is data with its own tests; only its header cap affects decisions.
    "rules.book": ("*",),
    # Case files are passed as bytes, because the accepted types of input are not a property of files.
    "source": (
        "_has_descriptor",
        "_read_all",
        "read_whole",
        "Uncopied",
        "Opened",
        "Descriptor",
        "MemorySource.__init__",
        "MemorySource.close",
        "UnreadableError",
        "Source",
        "FileSource",
        "PathSource",
        "shorter",
        "open_source",
    ),
    # Conveniences of the programming interface, and text for people.
    "header.model": (
        "rows",
        "TensorInfo.bits",
        "Rows.__repr__",
        "Header.__repr__",
        "Header.in_offset_order",
        "AlignedShare",
        "aligned_share",
        "Range",
        "show_shape",
    ),
    # Storage that saves memory and has its own tests, and messages and drawings for people.
    "header.json_text": ("_IntegerCache", "Integers", "BLOCK", "_SHARED"),
    "header.entries": ("Strings", "Names", "_tag", "Texts", "describe"),
    "header.explain": ("InvalidFileError", "explain_header", "with_likeness", "draw_layout"),
    # The proving path, which never decides that a file is invalid and has its own tests.
    "header.read": (
        "PIECE",
        "_MANY_SHAPES",
        "_LONG_METADATA",
        "_METADATA_FIRST",
        "_METADATA_END",
        "_CUT",
        "_Dtype",
        "_Span",
        "_Entry",
        "_Sizes",
        "_decode",
        "_decode_metadata",
        "ProvedEntries",
        "read_header",
        "header_of",
        "examine",
        "examine_source",
        "prove",
        "_prove",
        "_split_metadata",
        "_pieces",
        "_follow",
        "_share",
        "tensor_size",
        "_counts_agree",
        "_covered",
    ),
}
"""Functions, classes and constants that are not mutated."""


def sources() -> dict[str, str]:
    """Return a map from the names of all deciding modules to their source text."""
    root = files(READER)
    places = {name: f"{name.replace('.', '/')}.py" for name in DECIDING}
    return {name: root.joinpath(place).read_text(encoding="utf-8") for name, place in places.items()}


def reader_mutants(modules: Sequence[str] = ()) -> list[Mutant]:
    return [m for m in mutants_of(sources(), SKIP) if not modules or m.module in modules]


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
    """Load the reader with the fault of ``mutant``, or without a fault for None, and return its ``explain``.

    The modules get another package name, so the reader of this process remains correct.
    """
    for parent in {ALIAS, *(f"{ALIAS}.{name}".rpartition(".")[0] for name in (*SHARED, *DECIDING))}:
        package = ModuleType(parent)
        package.__path__ = []
        sys.modules[parent] = package
    for name in (*SHARED, *DECIDING):
        # The rule book takes longest to load, so its module is replaced only if it contains the fault.
        if name in SHARED or (name == "rules.book" and (mutant is None or mutant.module != name)):
            sys.modules[f"{ALIAS}.{name}"] = import_module(f"{READER}.{name}")
            continue
        faulty = mutant is not None and mutant.module == name
        module = ModuleType(f"{ALIAS}.{name}")
        module.__package__ = module.__name__.rpartition(".")[0]
        sys.modules[module.__name__] = module
        exec(mutant.compiled() if mutant and faulty else _sound_code(name), module.__dict__)  # noqa: S102
    explain = sys.modules[f"{ALIAS}.header.read"].explain
    assert callable(explain)
    return explain  # type: ignore[no-any-return]


LARGEST = 64 * 1024
"""Largest file in bytes that mutants read, whether it is stored or generated from a recipe."""
STEPS = frozenset({"open", "read"})
"""Steps of the strict reader; a case that needs other steps says nothing about it."""


@dataclass(frozen=True)
class Probe:
    """One case file under one profile; the reader must meet one of the expectations in ``demands``."""

    id: str
    data: bytes
    profile: str
    demands: tuple[Expectation, ...]


def probes_of(cases: Iterable[Case]) -> list[Probe]:
    """Load the case files and return them as probes, with the most diverse ones first.

    Cases are grouped by topic, and each round takes the next case of each group, so that a few probes cover
    every kind of fault. Profiles matter only for choices; for all other cases, only the hardened profile
    comes early. The order depends only on the cases.
    """
    usable = sorted((c for c in cases if _usable(c)), key=lambda c: (c.size, c.id))
    groups: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in usable:
        expect = case.expect
        about = (case.rules[0], case.choice, expect and expect.outcome, expect and expect.codes[:1])
        groups[about].append(case)
    rounds = [
        case
        for turn in range(max(map(len, groups.values()), default=0))
        for case in (g[turn] for _, g in sorted(groups.items(), key=repr) if turn < len(g))
    ]
    probes = [
        Probe(case.id, data, profile, tuple(_demands(case, profile)))
        for case, data in ((case, case.read_input()) for case in rounds)
        for profile in sorted(PROFILES)
    ]
    open_choice = {case.id for case in rounds if case.choice}
    return sorted(probes, key=lambda probe: probe.id not in open_choice and probe.profile != "hardened")


def _usable(case: Case) -> bool:
    small = case.size <= LARGEST and not case.input.files
    return small and case.kind == "read" and not case.heavy and set(case.steps) <= STEPS


def _demands(case: Case, profile: str) -> Iterator[Expectation]:
    if case.choice is None:
        assert case.expect is not None
        yield case.expect
        return
    option = rule_book().choices[case.choice].expected(profile)
    if option is None:
        yield from case.options.values()
    else:
        yield case.options[option]


def objection(explanation: Any, probe: Probe) -> str | None:
    """Describe the error in a reader's answer to a probe, or return None if the answer is correct."""
    found = [_differs(explanation, demand, probe) for demand in probe.demands]
    return None if None in found else found[0]


def _differs(explanation: Any, demand: Expectation, probe: Probe) -> str | None:
    header = explanation.header
    if (header is not None) != (demand.outcome == "accept"):
        return "verdict"
    if header is not None:
        return None if _same(header, probe.data, demand.content or {}) else "content"
    codes = {fault.code for fault in explanation.faults}
    # The hardened reader must report the first code, which fits best. A tolerant profile may report a later
    # code as its first fault.
    if probe.profile == "hardened":
        return None if demand.codes[0] in codes else "codes"
    return None if codes & set(demand.codes) else "codes"


def _same(header: Any, data: bytes, content: Mapping[str, Any]) -> bool:
    if "tensors" not in content:
        return bool(len(header.tensors) == content["tensor_count"])
    body = data[header.data_start :]
    found = [
        (t.name, t.dtype, tuple(t.shape), t.nbytes, hashlib.sha256(body[t.begin : t.end]).hexdigest())
        for t in header.tensors.values()
    ]
    wanted = [
        (t["name"], t["dtype"], tuple(t["shape"]), t["nbytes"], t["sha256"]) for t in content["tensors"]
    ]
    # The reader chooses the order of the tensors (API-03).
    return bool(header.metadata == content["metadata"]) and sorted(found) == sorted(wanted)


def reader_loader(mutant: Mutant | None) -> Callable[[], Callable[[Probe], str | None]]:
    """Return the function that loads a mutant in its process and returns its probe function."""

    def load() -> Callable[[Probe], str | None]:
        explain = load_reader(mutant)
        return lambda probe: objection(explain(probe.data, probe.profile), probe)

    return load
