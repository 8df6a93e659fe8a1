"""JUnit XML of the suite: properties of each test case."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ..suite_runs import corpus_of, suite, suite_here
from ..support import REPOSITORY, committed

SELECTION = ("hole-between-two", "name-twice-dtypes", "one-tensor", "leading-whitespace", "missing-shard")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of the cases under test."""
    ids = [case.id for case in committed().cases]
    wanted = [i for i in ids if any(word in i for word in SELECTION)]
    return corpus_of(tmp_path_factory.mktemp("corpus"), *wanted)


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
        found[element.attrib["name"]] = (element, dict(rows))
    return found


@pytest.mark.parametrize("parallel", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_cases_carry_rules_area_level_weakness_and_verdict(
    few: Path, tmp_path: Path, parallel: tuple[str, ...]
) -> None:
    selector = f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter"
    found = reported(few, tmp_path, f"--impl={selector}", *parallel)

    element, said = found[f"test_read[layout/hole-between-two-{selector}]"]
    assert said == {
        "rules": "OFF-07",
        "area": "layout",
        "level": "must",
        "cwe": "1288 436",
        "verdict": "wrong-accept",
    }
    assert element.find("failure") is not None

    element, said = found[f"test_read[header/name-twice-dtypes-{selector}]"]
    assert (said["cwe"], said["verdict"]) == ("694 436", "wrong-accept")

    # A valid file: nothing is to be refused, so there is no weakness to name.
    element, said = found[f"test_read[framing/one-tensor-{selector}]"]
    assert "cwe" not in said
    assert (said["area"], said["verdict"]) == ("framing", "pass")
    assert element.find("failure") is None


@pytest.mark.parametrize("parallel", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_known_failure_is_skipped_and_says_why(
    few: Path, tmp_path: Path, parallel: tuple[str, ...]
) -> None:
    """A failure in the baseline counts neither as passed nor as failed."""
    selector = f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter"
    baseline = tmp_path / "known.toml"
    baseline.write_text(
        f'implementation = "{selector}"\n[[expected]]\ncase = "layout/hole-between-two"\n'
        'read = "wrong-accept"\n'
        'why = "holes are not looked for"\nissue = "https://example.org/issue/1"\nreview_by = 2999-01-01\n'
    )
    found = reported(few, tmp_path, f"--impl={selector}", f"--baseline={baseline}", *parallel)
    element, said = found[f"test_read[layout/hole-between-two-{selector}]"]
    assert said["verdict"] == "wrong-accept"
    skipped = element.find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "pytest.xfail",
        "message": "known failure, wrong-accept: holes are not looked for, https://example.org/issue/1",
    }
    assert element.find("failure") is None
    # Others of that run are told as they are.
    assert found[f"test_read[header/name-twice-dtypes-{selector}]"][0].find("failure") is not None


def test_a_choice_names_the_weaknesses_of_all_its_options(few: Path, tmp_path: Path) -> None:
    found = reported(few, tmp_path, "--impl=reference", "--profile=hardened")
    mine = {name: said for name, (_, said) in found.items() if "header/leading-whitespace" in name}
    assert mine
    for said in mine.values():
        assert said["cwe"] == "1286 436"
        assert said["area"] == "header"
        assert said["verdict"]


def test_every_property_is_what_the_corpus_says(few: Path, tmp_path: Path) -> None:
    found = reported(few, tmp_path, "--impl=reference")
    named = [name for name in found if name.startswith("test_read[")]
    assert len(named) >= 4
    for name in named:
        case = committed().by_id[name.removeprefix("test_read[").removesuffix("-reference]")]
        said = found[name][1]
        assert (said["rules"], said["area"], said["level"]) == (
            " ".join(case.rules),
            case.id.split("/")[0],
            case.level,
        )
