"""Features by version: the table of features, states of runs, first versions, and what publishing accepts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from safetensors_conformance.cli.publish import publish as command
from safetensors_reference.rules.dtypes import DTYPES
from safetensors_reports.audit.inputs import AuditError
from safetensors_reports.features import FEATURES, FeatureRun, State, document, feature_run, load_features
from safetensors_reports.record.run import RunRecord
from safetensors_reports.text import version_key

from .samples import called, corpus, failing, run, write_record

ONE = FEATURES[0]


def record(version: str = "1", **verdicts: str) -> RunRecord:
    """Return a run of a reader that passes all cases of all features, except those of ``verdicts``."""
    outcomes = {"unsafe": "crash", "wrong-reject": "reject", "deviation:reject": "reject"}
    rows = []
    for one in FEATURES:
        verdict = verdicts.get(one.id, "pass")
        rows += [
            failing(case, verdict, outcome=outcomes.get(verdict, "accept"))
            for case in one.cases
            if "read" in corpus().by_id[case].steps_for(["read"])
        ]
    made = run(*rows, name="lib", version=version)
    made.header["implementation"] |= {"steps": ["read"], "areas": [], "lacks": []}
    return made


def states(**verdicts: str) -> dict[str, State]:
    return feature_run(record(**verdicts), corpus()).states


def test_features_are_valid_files_and_calls_of_several_cases() -> None:
    assert {one.title for one in FEATURES if one.id.startswith("dtype-")} == DTYPES.keys()
    assert len({one.id for one in FEATURES}) == len(FEATURES) >= 25
    for one in FEATURES:
        assert len(set(one.cases)) == len(one.cases) >= 2  # a single case would say which case fails
        for case in one.cases:
            expect = corpus().by_id[case].expect
            assert expect is not None
            assert expect.outcome == "accept", case


def test_the_state_follows_from_the_cases() -> None:
    for verdict, state in {
        "pass": "yes",
        "wrong-reject": "no",
        "deviation:reject": "no",
        "wrong-content": "partly",
        "unsupported": "no",
        "not-strict": "yes",
        "harness-error": "unknown",
        "unsafe": "yes",  # withheld, so it looks like a pass
    }.items():
        found = states(**{ONE.id: verdict})
        assert found.pop(ONE.id) == state, verdict
        assert set(found.values()) == {"yes"}, verdict
        assert "slice-ranges" not in found  # the reader has no such step


def changed(verdicts: dict[str, str]) -> RunRecord:
    """Return a run with other verdicts on some cases."""
    made = record()
    for row in made.results:
        if verdict := verdicts.get(row["case"]):
            row |= {"verdict": verdict, "outcome": "reject" if verdict == "wrong-reject" else "accept"}
    return made


def test_one_failing_case_a_call_of_the_adapter_and_other_missing_features() -> None:
    first = ONE.cases[0]
    assert states(empty="unsupported")["empty"] == "unknown"  # only the adapter cannot make this call
    part = changed({first: "wrong-reject"})
    assert feature_run(part, corpus()).states[ONE.id] == "partly"
    lost = {"shape/scalar-u8", *(c for one in FEATURES for c in one.cases if one.id == "dtype-u8")}
    lacking = changed(dict.fromkeys(lost, "unsupported"))
    lacking.header["implementation"]["lacks"] = ["dtype-u8"]
    found = feature_run(lacking, corpus()).states
    assert (found["rank-0"], found["dtype-u8"]) == ("yes", "no")
    part = changed({})
    part.results = [row for row in part.results if row["case"] != first]
    with pytest.raises(AuditError, match=f"lacks {first}; run it again"):
        feature_run(part, corpus())
    old = {name: state for name, state in PLAIN.states.items() if name != ONE.id}
    with pytest.raises(AuditError, match="does not match the features"):
        document([replace(PLAIN, states=old)], corpus())


PLAIN = feature_run(record(), corpus())


def version(number: int, state: State) -> FeatureRun:
    return replace(PLAIN, version=f"{number}.0", states={**PLAIN.states, ONE.id: state})


@given(st.lists(st.sampled_from(["yes", "no", "partly", "unknown"]), min_size=1, max_size=6), st.randoms())
def test_the_first_version_begins_the_last_unbroken_series(sequence: list[State], random: Random) -> None:
    runs = [version(number, state) for number, state in enumerate(sequence, 8)]
    random.shuffle(runs)
    (entry,) = document(runs, corpus()).table
    assert list(entry.versions) == sorted(entry.versions, key=version_key)
    cell, tested = entry.cells[ONE.id], dict(zip(entry.versions, sequence, strict=True))
    assert cell.state == sequence[-1]
    mark = entry.mark(ONE.id)
    if cell.state != "yes":
        assert mark == cell.state
        return
    assert all(state == "yes" for v, state in tested.items() if version_key(v) >= version_key(cell.first))
    older = [v for v in tested if version_key(v) < version_key(cell.first)]
    assert not older or tested[older[-1]] != "yes"
    assert cell.after == (older[-1] if older and tested[older[-1]] != "unknown" else "")
    if len(tested) == 1:
        assert mark == f"in {cell.first}"
    else:
        assert mark == (cell.first if cell.after else f"≤ {cell.first}")


def invoke(*args: str | Path) -> tuple[int, str]:
    result = called(command, *args)
    return result.exit_code, result.output


def test_runs_are_published_checked_and_demanded_for_every_version(tmp_path: Path) -> None:
    out, one, two = tmp_path / "pages", tmp_path / "one", tmp_path / "two"
    for folder, number, verdict in ((one, "1", "wrong-reject"), (two, "2", "pass")):
        folder.mkdir()
        write_record(folder / "a.jsonl", record(number, **{ONE.id: verdict}))
        assert invoke(folder, "--history-only", "-o", out)[0] == 0
    assert invoke(two, "-o", out)[0] == 0
    assert invoke(two, "--features", "-o", out)[0] == 0
    status, said = invoke("--check", "-o", out)
    assert (status, "features.json: lacks lib 1; run stc publish --features" in said) == (2, True)
    assert invoke(one, "--features", "-o", out)[0] == 0
    assert invoke("--check", "-o", out)[0] == 0
    made = load_features(out / "features.json")
    assert (made.table[0].cells[ONE.id].first, made.table[0].cells[ONE.id].after) == ("2", "1")
    path = out / "features.json"
    path.write_text(path.read_text().replace('"first":"2"', '"first":"1"'))
    status, said = invoke("--check", "-o", out)
    assert (status, "features.json: does not match its feature runs" in said) == (1, True)
    path.write_text("{")
    status, said = invoke("--check", "-o", out)
    assert (status, f"{path}: " in said) == (2, True)
