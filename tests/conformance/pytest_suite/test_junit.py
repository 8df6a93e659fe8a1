"""JUnit XML of the suite: properties of each test case."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ..suite_runs import corpus_of, suite, suite_here
from ..support import REPOSITORY, committed

HOLE, TWICE, VALID = "layout/hole-between-two", "header/name-twice-dtypes", "framing/one-tensor"
SELECTION = (HOLE, TWICE, VALID, "header/leading-whitespace", "index/missing-shard")
BASELINE = f"""
[[expected]]
case = "{HOLE}"
read = "wrong-accept"
why = "holes are not looked for"
issue = "https://example.org/issue/1"
review_by = 2999-01-01
"""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of the cases under test."""
    return corpus_of(tmp_path_factory.mktemp("corpus"), *SELECTION)


def reported(few: Path, tmp_path: Path, *arguments: str) -> dict[str, tuple[ET.Element, dict[str, str]]]:
    """Run a small selection; returns name -> (element, its properties)."""
    path = tmp_path / "out.xml"
    run = suite if "-n" in arguments else suite_here
    done = run(f"--corpus={few}", f"--junitxml={path}", "-k", " or ".join(SELECTION), *arguments)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for element in ET.parse(path).iter("testcase"):
        rows = [(p.attrib["name"], p.attrib["value"]) for p in element.iter("property")]
        assert len(rows) == len(dict(rows)), "a property is there twice"
        assert element.attrib["classname"] == "safetensors_conformance"
        found[element.attrib["name"]] = (element, dict(rows))
    return found


@pytest.mark.parametrize(
    "parallel",
    [pytest.param((), id="alone"), pytest.param(("-n", "1"), id="xdist", marks=pytest.mark.nightly)],
)
def test_cases_carry_rules_area_level_weakness_and_verdict(
    few: Path, tmp_path: Path, parallel: tuple[str, ...]
) -> None:
    selector = f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter"
    baseline = tmp_path / "known.toml"
    baseline.write_text(f'implementation = "{selector}"\n{BASELINE}')
    found = reported(few, tmp_path, f"--impl={selector}", f"--baseline={baseline}", *parallel)
    elements = {case: found[f"test_read[{case}-{selector}]"] for case in (TWICE, HOLE, VALID)}
    assert {case: said for case, (_, said) in elements.items()} == {
        TWICE: about("HDR-09", "header") | {"cwe": "694 436", "verdict": "wrong-accept"},
        HOLE: about("OFF-07", "layout") | {"cwe": "1288 436", "verdict": "wrong-accept"},
        # A valid file: nothing is to be rejected, so there is no weakness to name.
        VALID: about(" ".join(committed().by_id[VALID].rules), "framing") | {"verdict": "pass"},
    }
    # A failure in the baseline counts neither as passed nor as failed.
    failed = [case for case, (element, _) in elements.items() if element.find("failure") is not None]
    assert failed == [TWICE]
    skipped = elements[HOLE][0].find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "pytest.xfail",
        "message": "known failure, wrong-accept: holes are not looked for, https://example.org/issue/1",
    }


def about(rules: str, area: str) -> dict[str, str]:
    return {"rules": rules, "area": area, "level": "must"}


def test_every_property_is_what_the_corpus_says(few: Path, tmp_path: Path) -> None:
    found = reported(few, tmp_path, "--impl=reference", "--profile=hardened")
    named = {
        name.removeprefix("test_read[").removesuffix("-reference]"): said
        for name, (_, said) in found.items()
        if name.startswith("test_read[")
    }
    assert len(named) >= 4
    for name, said in named.items():
        case = committed().by_id[name]
        properties = said["rules"], said["area"], said["level"]
        assert properties == (" ".join(case.rules), name.split("/")[0], case.level)
    (choice,) = {said["cwe"] for name, said in named.items() if "leading-whitespace" in name}
    assert choice == "1286 436"  # the weaknesses of all options
