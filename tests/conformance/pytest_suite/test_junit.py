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

    element, said = found[f"test_read[{TWICE}-{selector}]"]
    assert said == {
        "rules": "HDR-09",
        "area": "header",
        "level": "must",
        "cwe": "694 436",
        "verdict": "wrong-accept",
    }
    assert element.find("failure") is not None

    # A failure in the baseline counts neither as passed nor as failed.
    element, said = found[f"test_read[{HOLE}-{selector}]"]
    assert (said["cwe"], said["verdict"]) == ("1288 436", "wrong-accept")
    skipped = element.find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "pytest.xfail",
        "message": "known failure, wrong-accept: holes are not looked for, https://example.org/issue/1",
    }
    assert element.find("failure") is None

    # A valid file: nothing is to be rejected, so there is no weakness to name.
    element, said = found[f"test_read[{VALID}-{selector}]"]
    assert "cwe" not in said
    assert (said["area"], said["verdict"]) == ("framing", "pass")
    assert element.find("failure") is None


def test_every_property_is_what_the_corpus_says(few: Path, tmp_path: Path) -> None:
    found = reported(few, tmp_path, "--impl=reference", "--profile=hardened")
    named = [name for name in found if name.startswith("test_read[")]
    assert len(named) >= 4
    for name in named:
        case = committed().by_id[name.removeprefix("test_read[").removesuffix("-reference]")]
        said = found[name][1]
        properties = said["rules"], said["area"], said["level"]
        assert properties == (" ".join(case.rules), case.id.split("/")[0], case.level)
        if "leading-whitespace" in case.id:  # a choice: the weaknesses of all its options
            assert (said["cwe"], said["area"]) == ("1286 436", "header")
            assert said["verdict"]
    assert any("leading-whitespace" in name for name in named)
