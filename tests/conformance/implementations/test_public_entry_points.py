"""An adapter calls the entry point of the library's users, or its descriptor states how the two differ.

An adapter that joins parts of a library can leave out a check that stands between them, and then a row
accuses a reader that nobody has. Adapters that call a private name, a function of a shared library or a
module without its package are therefore run beside the public entry point, over a sample of the corpus, where
both are installed.
"""

from __future__ import annotations

import random
import re
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from safetensors_conformance.implementations.descriptor import HERE, Entry, LocatedDescriptor, descriptors
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.worker.worker import Limits, make_worker
from safetensors_corpus import Case

from ..support import committed, there

ENTRIES = [(d, e) for d in descriptors().values() for e in d.entries]
COMPARED = [(d, e) for d, e in ENTRIES if e.public and e.public.adapter]
LEAST = 300
"""Files of a sample, or all that there are of its kind."""
INSIDE = re.compile(
    r"(?<!\bself)(?<!\bcls)(?<!\bthis)\._[A-Za-z0-9]\w*|(['\"])_[A-Za-z0-9]\w*\1"
    r"|\bimport\b(\s*\([^)]*|[^\n]*)\b_[A-Za-z0-9]\w*"
    r"|\b(cut_out|spec_from_file_location|(Py|C)DLL|(py|c)dll|pathToFileURL)\b"
)
"""Private names of others, and names that lead past the public names of a library."""
HARMLESS = {("huggingface_hub/adapter.py", "._http")}
"""File and private name with which nothing is read: one gives the library its own HTTP client back."""


def test_what_is_called_inside_of_a_library_is_compared_with_its_public_entry_point() -> None:
    silent, seen = [], set()
    for known, entry in ENTRIES:
        # The adapter, or the program around a reader built by hand, which may lie elsewhere.
        file = entry.adapter.partition(":")[0] or f"{known.folder.name}/program.py"
        text = (HERE / file).read_text("utf-8") if (HERE / file).exists() else ""
        found = {way[0] for way in INSIDE.finditer(text) if (file, way[0]) not in HARMLESS}
        seen |= found
        if found and not entry.public:
            silent.append(f"{file}: {known.selector(entry)} uses {', '.join(sorted(found))}")
    advice = "call the public entry point whole, or name it in [entry.public] (docs/add-an-implementation.md)"
    assert silent == [], advice
    more = "getattr(lib, '_read')\nfrom lib import (\n    read,\n    _inner)\nCDLL(spec_from_file_location)"
    assert len(INSIDE.findall(more)) == 4
    assert {"cut_out", "pathToFileURL", "import _safetensors_io", "._read_safetensors"} <= seen
    assert COMPARED  # over enough files
    for known, entry in COMPARED:
        assert entry.public
        assert (HERE / entry.public.adapter.partition(":")[0]).exists(), known.name
        indexes = sum(case.kind == "index" for case in committed().cases)
        assert entry.public.sample >= LEAST or entry.public.sample == indexes, known.name


def sample(entry: Entry, step: str) -> list[Case]:
    """Return cases that the entry claims to judge, the same in every run."""
    manifest = committed()
    cases = manifest.reading if step != "index" else [c for c in manifest.cases if c.kind == "index"]
    claimed = [case for case in cases if case.is_claimed(frozenset(entry.areas))]
    return random.Random(0).sample(claimed, min(len(claimed), LEAST))


def accepted(target: Target, cases: list[tuple[str, Case]]) -> set[str]:
    """Return the ids of the cases whose input a reader accepts in a step."""
    out = set()
    with closing(make_worker(target, Limits(seconds=20))) as worker:
        worker.start()
        for step, case in cases:
            with tempfile.TemporaryDirectory() as folder:
                result = worker.ask(step, str(case.set_up(Path(folder))))
            assert result.outcome != "harness-error", result.message
            out |= {case.id} if result.outcome == "accept" else set()
    return out


@pytest.mark.nightly
@pytest.mark.parametrize(("known", "entry"), COMPARED, ids=[d.selector(e) for d, e in COMPARED])
def test_an_adapter_differs_from_the_public_entry_point_as_stated(
    known: LocatedDescriptor, entry: Entry
) -> None:
    assert entry.public
    assert entry.whole
    ours, theirs = (resolve(f"{known.selector(e)}=={known.version}") for e in (entry, entry.whole))
    for target in (ours, theirs):
        if not there(target):
            pytest.skip(f"not installed here: stc impl sync {target.selector}")
    with closing(make_worker(theirs, Limits(seconds=60))) as worker:
        steps = worker.start().steps
    cases = [(step, case) for step in steps for case in sample(entry, step)]
    taken, public = accepted(ours, cases), accepted(theirs, cases)
    stated = (entry.public.sample, entry.public.refuses, entry.public.accepts)
    only = sorted(taken - public)[:10], sorted(public - taken)[:10]
    assert stated == (len(cases), len(taken - public), len(public - taken)), only
