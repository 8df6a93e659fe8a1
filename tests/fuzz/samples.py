"""Findings for tests: made of corpus cases or of files under construction."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.author.file import FileBuilder
from safetensors_fuzz.finding import ENTRY, Finding
from safetensors_reference import explain

FAKES = Path(__file__).parent / "fakes.py"
ACCEPTS_ALL = f"py:{FAKES}:AcceptsAll"
READING = Path(__file__).parent / "reading_fakes.py"
OTHER_METADATA = f"py:{READING}:OtherMetadata"


@cache
def corpus() -> Manifest:
    """The committed corpus."""
    return load_manifest()


def of_case(case_id: str, selector: str = ACCEPTS_ALL, **changes: Any) -> Finding:
    """Return a finding whose input and expectation are those of a read case without a choice."""
    case = corpus().by_id[case_id]
    expect = case.expect
    assert expect is not None
    expectation: dict[str, Any] = {"outcome": expect.outcome}
    expectation |= {"codes": list(expect.codes)} if expect.codes else {"content": expect.content}
    return finding(case.read_input(), case.rules, expectation, selector, **changes)


def of_builder(
    builder: FileBuilder, rules: tuple[str, ...], *codes: str, selector: str = ACCEPTS_ALL, **changes: Any
) -> Finding:
    """Return a finding of what a builder was told: a refusal with codes, or else its content."""
    expectation: dict[str, Any] = {"outcome": "reject", "codes": list(codes)}
    if not codes:
        expectation = {"outcome": "accept", "content": builder.content()}
    return finding(builder.render(), rules, expectation, selector, **changes)


def finding(
    data: bytes, rules: tuple[str, ...], expectation: dict[str, Any], selector: str, **changes: Any
) -> Finding:
    """Return a finding of one file."""
    faults = explain(data).faults
    reject = expectation["outcome"] == "reject"
    details: dict[str, Any] = {
        "step": "read",
        "verdict": "wrong-accept" if reject else "wrong-content",
        "signature": "a subject: one accepts, another refuses",
        "rules": rules,
        "codes": tuple(sorted(expectation.get("codes", ()))),
        "expected": f"reject ({', '.join(expectation['codes'])})" if reject else "accept, 2 tensors",
        "got": {selector: "accept, 0 tensors"},
        "versions": {selector: "1.0"},
        "files": {ENTRY: data},
        "expectation": expectation,
        "where": (faults[0].start, faults[0].end) if faults else None,
        "engine": "tuple",
        "seed": 3,
        "execs": 1234,
        "size_found": 4000,
        "replays": 3,
    }
    return Finding(**{**details, **changes})


def hole() -> Finding:
    """A hole between two tensors, accepted by a reader that accepts everything."""
    return of_case("layout/hole-between-two")


def two_tensors() -> FileBuilder:
    """A valid file of two tensors with metadata."""
    builder = FileBuilder()
    builder.metadata({"k": "v"})
    builder.tensor("a", "F32", [2])
    builder.tensor("b", "U8", [3])
    return builder
