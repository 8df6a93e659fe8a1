"""Findings, files and runs for tests of fuzzing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.engines.campaign import Campaign, Settings, Tally
from safetensors_fuzz.finding import ENTRY, Finding
from safetensors_fuzz.loop.subjects import Slots, Subject
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


def built(*tensors: Sequence[Any], metadata: dict[str, str] | None = None, **how: Any) -> FileBuilder:
    """Return the builder of a file with these tensors, each a name, a dtype, a shape and perhaps data."""
    builder = FileBuilder(**how)
    if metadata is not None:
        builder.metadata(metadata)
    for row in tensors:
        builder.tensor(*row)
    return builder


def two_tensors(**how: Any) -> FileBuilder:
    return built(("a", "F32", [2]), ("b", "U8", [3]), metadata={"k": "v"}, **how)


def raw(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return len(text).to_bytes(8, "little") + text + data


def invoke(command: click.Command, *args: str | Path) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refuse(_: bytes) -> dict[str, Any]:
    raise Refused("no")


def fuzzed(*subjects: Subject, start: Sequence[bytes] = (), **settings: Any) -> tuple[Tally, list[Finding]]:
    """Run a campaign over files, with ``start`` first, and return its tally and its findings."""
    kept: list[Finding] = []
    try:
        campaign = Campaign(subjects, Settings(**{"shrink_seconds": 0.5, **settings}), keep=kept.append)
        return campaign.run(start), kept
    finally:
        for subject in subjects:
            subject.close()


def fuzzed_with(subject: Subject, data: bytes, **settings: Any) -> tuple[Tally, list[Finding]]:
    """Run one file without shrinking it."""
    kept: list[Finding] = []
    campaign = Campaign([subject], Settings(shrink_seconds=0, **settings), keep=kept.append)
    with Slots(1) as slots:
        campaign.run_one(data, slots)
    return campaign.tally, kept
