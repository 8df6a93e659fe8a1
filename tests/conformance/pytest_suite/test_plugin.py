"""``pytest conformance`` with fakes and real readers, in a subprocess where that matters; its JUnit XML."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from safetensors_conformance import pytest_suite

from ..suite_runs import BASICS, corpus_of, suite, suite_here
from ..support import HERE, QUICK, REPOSITORY, device_loader, fake, stdio


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Option that selects a small corpus: a choice, and a few cases of each area about reading."""
    wanted = ("framing/length-prefix", "header/leading-whitespace", "metadata/map-key", "metadata/place-")
    folder = corpus_of(tmp_path_factory.mktemp("corpus"), *BASICS, *wanted, "metadata/null")
    return f"--corpus={folder}"


def ran(status: int, *arguments: str, **where: Any) -> str:
    """Run the suite in this process and return what it prints, if it ends with this status."""
    done = suite_here(*arguments, **where)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def records(folder: Path, selector: str) -> list[dict[str, Any]]:
    """Return the lines of the record of one of several implementations."""
    found = ([*map(json.loads, path.read_text("ascii").splitlines())] for path in folder.glob("*.jsonl"))
    (rows,) = (rows for rows in found if rows[0]["implementation"]["selector"] == selector)
    return rows


def test_the_official_library_is_green_with_its_baseline_and_red_without(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    corpus = corpus_of(tmp_path / "corpus", "header/name-twice-last")
    options = (f"--corpus={corpus}", "--impl=safetensors", "-k", "name-twice")
    green = suite_here(*options)
    assert (green.returncode, "xfailed" in green.stdout) == (0, True), green.stdout
    red = suite_here(*options, "--no-baseline", "--full-failures")
    assert red.returncode == 1
    assert re.search("header/name-twice-last-fits .* WRONG-ACCEPT", red.stdout)


def test_an_implementation_that_does_not_start_fails_once_and_the_rest_is_not_run(small: str) -> None:
    selectors = ("py:no_such_module:Reader", stdio("no-start"))
    text = ran(1, small, *(f"--impl={selector}" for selector in selectors), "--impl=reference")
    for words in (*(f"cannot start {selector!r}" for selector in selectors), "2 failed", "reference 2026"):
        assert words in text
    assert not re.search(r"\d+ skipped|Traceback", text)
    assert "problem: cannot start" in ran(1, small, f"--impl={selectors[0]}", "-k", "hole-between-two")


def test_an_adapter_that_fails_basic_files_is_told_from_a_bad_reader(small: str, tmp_path: Path) -> None:
    wrong = {fake("AlwaysAccepts"): "wrong-accept", fake("AlwaysRejects"): "wrong-reject"}
    options = [small, *(f"--impl={selector}" for selector in wrong)]
    text = ran(1, *options)
    for words in ("2 failed", *(f"the adapter of {selector!r} is probably wrong" for selector in wrong)):
        assert words in text
    limits = ("--profile=text", "--time-limit=7", "--memory-limit=256")
    assert "is probably wrong" not in ran(1, *options, "--no-smoke", f"--report={tmp_path}", *limits)
    for selector, verdict in wrong.items():
        header, *rows = records(tmp_path, selector)
        assert verdict in {row.get("verdict") for row in rows}
        assert (header["profile"], header["limits"]) == ("text", {"time_s": 7, "memory_bytes": 256 << 20})


def test_a_lazy_reader_is_warned_about_and_fails_only_when_asked(small: str) -> None:
    assert "late-reject 0" not in ran(0, small, f"--impl={fake('Lazy')}")
    ran(1, small, f"--impl={fake('Lazy')}", "--fail-on-should")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", ["--impl=safetensor"], "did you mean safetensors"),
        ("", ["--baseline={}/none.toml"], "create one with: stc baseline update"),
        ('{"schema_version": 1, "cases"', ["--corpus={}"], "not a usable manifest"),
        ("", ["--env=A=B"], "give only the name of a variable"),
    ],
)
def test_what_cannot_be_used_is_refused_first(
    tmp_path: Path, text: str, options: list[str], words: str
) -> None:
    (tmp_path / "corpus.json").write_text(text, encoding="utf-8")
    said = ran(4, *(option.format(tmp_path) for option in options))
    assert (words in said, "Traceback" in said) == (True, False)


def test_a_baseline_is_made_from_a_full_run_and_failures_without_it_are_told_in_full(
    small: str, tmp_path: Path
) -> None:
    path = tmp_path / "fake.toml"
    options = [small, f"--impl={fake('LiesAboutContent')}", "--no-smoke", f"--baseline={path}"]
    part = suite_here(*options, "--update-baseline", "-k", "layout")
    assert "only a full run can update a baseline" in part.stdout
    assert not path.exists()
    full = ran(0, *options, "--update-baseline")
    assert "1 added" in full
    assert "count as unreported and need a review by" in full
    assert "xfailed" in ran(0, *options)
    red = ran(1, *options, "--no-baseline")
    for words in ("WRONG-CONTENT", "DAT-06 (must)", "expected  accept", "other bytes than the file contains"):
        assert words in red
    assert "again     stc run --impl" in red
    assert "00000000  " in red


def test_a_contradiction_fails_unless_the_baseline_contains_it(small: str, tmp_path: Path) -> None:
    path = tmp_path / "flaps.toml"
    options = [small, f"--impl={fake('Flaps')}", "--no-smoke", f"--baseline={path}"]
    assert "no single option of leading-whitespace explains" in ran(1, *options[:-1], "-k", "leading")
    ran(0, *options, "--update-baseline")
    assert 'inconsistent = ["leading-whitespace"]' in path.read_text(encoding="utf-8")
    ran(0, *options)
    path.write_text('inconsistent = ["leading-whitespace"]\n', encoding="utf-8")
    steady = ran(1, small, f"--impl={QUICK}", f"--baseline={path}", "-k", "leading")
    assert "leading-whitespace: the answers no longer contradict each other" in steady


def test_the_plugin_stays_out_of_other_peoples_runs(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import sys\n"
        "def test_x():\n"
        "    big = 'safetensors_corpus', 'jsonschema', 'rich', 'safetensors_conformance.pytest_suite.suite'\n"
        "    assert not sys.modules.keys() & set(big)\n",
        encoding="utf-8",
    )
    run = suite(cwd=tmp_path, target=tmp_path)
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_items_have_the_names_that_pytest_selects_and_remembers(small: str, tmp_path: Path) -> None:
    """As those of parametrized functions: by part of a name, by id, and by having failed (``--lf``)."""
    reader = tmp_path / "läser.py"
    reader.write_text(
        f"import sys\nsys.path.append({str(HERE)!r})\nfrom fakes import AlwaysAccepts as Reader\n"
    )
    options = [small, f"--impl=py:{reader}:Reader", "--no-smoke", "--full-failures"]
    mine = f"py:{tmp_path}/l\\xe4ser.py:Reader"
    names = [f"test_smoke[{mine}]", f"test_baseline[{mine}]"]
    names += [f"test_{step}[framing/one-tensor-{mine}]" for step in ("open", "read")]
    listed = suite_here(*options, "--collect-only", "-k", "smoke or baseline or framing/one-tensor").stdout
    assert [line.rpartition("::")[2] for line in listed.splitlines() if "::" in line] == names

    remember = ["-pcacheprovider", "-o", f"cache_dir={tmp_path / 'cache'}", "-o", "filterwarnings=", "-rA"]
    first, again = (suite_here(*options, *remember, *more).stdout for more in ((), ("--lf",)))
    assert [" passed" in text for text in (first, again)] == [True, False]
    failed, failed_again = (re.findall("^FAILED.*", text, re.MULTILINE) for text in (first, again))
    assert len(failed) > 2
    assert failed_again == failed

    file = Path(pytest_suite.__file__).parent / "tests" / "test_corpus.py"
    by_id = suite_here(*options, "-rA", target=Path(f"{file}::{names[2]}"))
    assert "1 failed in" in by_id.stdout


def test_causes_replace_the_failures_that_they_cover_but_not_those_of_a_bad_baseline(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept.py").write_text(
        "def pytest_terminal_summary(terminalreporter):\n"
        "    print('KEPT', len(terminalreporter.stats['']), end='.')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    baseline = tmp_path / "stale.toml"
    ids = ("layout/no-such-case", "framing/one-tensor")
    baseline.write_text("".join(f"[[expected]]\ncase = '{case}'\nread = 'wrong-reject'\n" for case in ids))
    options = [small, "-pkept", f"--impl={fake('LosesMetadata')}", f"--baseline={baseline}", "--no-smoke"]
    run = suite_here(*options)
    listed = re.findall(r"^FAILED .*::(\S+)", run.stdout, re.MULTILINE)
    fails = ("test_baseline[", "test_read[framing/one-tensor-")
    assert listed == [f"{name}{fake('LosesMetadata')}]" for name in fails]
    for words in ("no-such-case: matches no case", "passes now", "not run 0"):
        assert words in run.stdout
    marks = ["short test summary", "\n3 failures with a likely cause below", "LIKELY CAUSES", "\n5 failed, "]
    places = [run.stdout.index(mark) for mark in marks]
    assert places == sorted(places)
    # Otherwise, pytest compares each failure with the reports of the setup and teardown of each item.
    assert "KEPT 0." in run.stdout


def test_options_of_a_project_are_its_own(small: str, tmp_path: Path) -> None:
    """Many projects have an option ``--device``; with theirs in the way, ours has a longer name."""
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--device', default='theirs')\n"
        "    parser.getgroup('mine').addoption('--report', action='store_true')\n",
        encoding="utf-8",
    )
    (tmp_path / "test_x.py").write_text(
        "def test_x(pytestconfig):\n"
        "    assert pytestconfig.getoption('--device') == pytestconfig.getoption('device')\n"
        "    assert pytestconfig.option.device.startswith('theirs')\n",
        encoding="utf-8",
    )
    assert "1 passed" in ran(0, cwd=tmp_path, target=tmp_path)
    ours = [f"--impl={device_loader('Arrays')}", "--stc-device=cpu", "--stc-report=out"]
    options = [str(tmp_path), small, *ours, "--device=theirs2", "-k", "framing/one-tensor or test_x"]
    ran(0, *options, cwd=tmp_path)
    assert "device" in {row.get("step") for row in records(tmp_path / "out", device_loader("Arrays"))}
    assert "--stc-device=NAME" in suite_here("--help", cwd=tmp_path, target=tmp_path).stdout
    assert " --device=NAME" in suite_here("--help").stdout


def test_settings_of_a_project_do_not_keep_the_suite_from_running(small: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --doctest-modules --strict-markers -m 'not slow'\nmarkers = slow\n"
        "python_files = *_test.py\ntestpaths = mine\nfilterwarnings = error\nxfail_strict = true\n",
        encoding="utf-8",
    )
    assert " passed" in ran(0, small, "-k", "one-tensor", cwd=tmp_path, target=None)


SURROGATES = fake("Surrogates")
"""Names, words and failures with lone surrogates, and numbers beyond 64 bits."""
RAW = stdio("raw")
"""Names that are not UTF-8, in lines that are not either."""
ANSWERING = (QUICK, SURROGATES, RAW)


@pytest.fixture(scope="module")
def alone_and_parallel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the reports of two runs, one of them in two more processes.

    Most cases are of files that must be refused: each wrong content would be looked into by three starts.
    """
    wanted = ("header/name-bytes", "header/leading-whitespace", "metadata/map-text")
    options = [f"--corpus={corpus_of(tmp_path_factory.mktemp('corpus'), *wanted)}"]
    options += ["--no-smoke", "--full-failures", *(f"--impl={selector}" for selector in ANSWERING)]
    folders = {name: tmp_path_factory.mktemp(name) for name in ("alone", "parallel")}
    for run, folder, more in zip((suite_here, suite), folders.values(), ((), ("-n", "2")), strict=True):
        done = run(*options, *more, f"--report={folder}", f"--junitxml={folder / 'out.xml'}")
        assert (done.returncode, "INTERNALERROR" in done.stdout + done.stderr) == (1, False), done.stdout
        assert re.search("content splits.*verdict splits", done.stdout, re.DOTALL)
    return folders


@pytest.mark.parametrize("selector", ANSWERING)
def test_every_answer_travels_between_processes(alone_and_parallel: dict[str, Path], selector: str) -> None:
    """Everything that pytest-xdist sends is texts in UTF-8 and numbers of 64 bits."""

    def told(folder: Path) -> tuple[object, ...]:
        rows = records(folder, selector)
        assert [row["type"] for row in rows].count("header") == 1
        assert "| implementation |" in (folder / "summary.md").read_text("utf-8")
        keys = ("case", "step", "choice", "verdict", "detail", "content")
        results = {json.dumps([row.get(key) for key in keys]) for row in rows if "verdict" in row}
        assert len(results) > 30
        cases = [c for c in ET.parse(folder / "out.xml").iter("testcase") if selector in c.attrib["name"]]
        assert {case.attrib["classname"] for case in cases} == {"safetensors_conformance"}
        texts = {case.attrib["name"]: "".join(f.text or "" for f in case.iter("failure")) for case in cases}
        properties = [sorted(tuple(p.attrib.values()) for p in case.iter("property")) for case in cases]
        # Each process shows the first cases of a cause in full, so that the texts are not the same.
        failed = {case: bool(text) for case, text in texts.items()}
        assert len(failed) > 20
        assert any(properties)
        if selector == SURROGATES:
            assert str(10**30) in json.dumps(rows)
            assert "\\udc80" in json.dumps(rows)
            assert any("refused: \\ud800 and \\xff" in text for text in texts.values())
        assert (rows[-1]["not_run"], rows[-1]["complete"]) == (0, True)
        return results, failed, sorted(properties)

    alone, parallel = map(told, alone_and_parallel.values())
    assert alone == parallel


def test_a_command_line_that_is_no_utf_8_is_refused_where_it_cannot_travel(small: str) -> None:
    selector = "--impl=py:no_such_module:A\udcff"
    assert "cannot start" in ran(1, small, selector, "-k", "smoke")
    parallel = suite(small, selector, "-k", "smoke", "-n", "2")
    assert parallel.returncode == 4
    assert "is not UTF-8, which pytest-xdist cannot transmit" in parallel.stderr
    assert "INTERNALERROR" not in parallel.stdout + parallel.stderr


def test_another_checkout_than_the_installed_one_is_told(tmp_path: Path) -> None:
    ours = Path(pytest_suite.__file__).parent / "tests" / "test_corpus.py"
    folder = tmp_path.joinpath("conformance", *ours.parts[-4:-1])
    folder.mkdir(parents=True)
    shutil.copyfile(ours, folder / ours.name)
    (folder / "test_own.py").write_text("def test(): pass\n")
    text = ran(pytest.ExitCode.NO_TESTS_COLLECTED, "-k", "no_such", target=tmp_path)
    assert f"{folder / ours.name} belongs to a different checkout" in text
    assert "different checkout" not in ran(0, "--impl=reference", target=tmp_path)


HOLE, TWICE, VALID = "layout/hole-between-two", "header/name-twice-dtypes", "framing/one-tensor"
CHOICE = "header/leading-whitespace-tab"
HOLES = """
expected = [{case = "layout/hole-between-two", read = "wrong-accept", why = "holes are not looked for"}]
issue = "https://example.org/issue/1"
review_by = 2999-01-01
"""


def test_junit_xml_has_rules_area_level_weakness_and_verdict(tmp_path: Path) -> None:
    selector = f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter"
    (tmp_path / "known.toml").write_text(HOLES)
    junit = tmp_path / "out.xml"
    options = (f"--impl={selector}", f"--baseline={tmp_path / 'known.toml'}", f"--junitxml={junit}")
    ran(1, f"--corpus={corpus_of(tmp_path / 'corpus', HOLE, TWICE, VALID, CHOICE)}", *options)
    elements = {case.attrib["name"]: case for case in ET.parse(junit).iter("testcase")}
    assert {case.attrib["classname"] for case in elements.values()} == {"safetensors_conformance"}
    found = {case: elements[f"test_read[{case}-{selector}]"] for case in (TWICE, HOLE, VALID, CHOICE)}
    # Of a valid file nothing is to be rejected. The weaknesses of a choice are those of all options.
    properties = {
        TWICE: ("area=header", "cwe=694 436", "level=must", "rules=HDR-09", "verdict=wrong-accept"),
        HOLE: ("area=layout", "cwe=1288 436", "level=must", "rules=OFF-07", "verdict=wrong-accept"),
        VALID: ("area=framing", "level=must", "rules=FRM-01 DAT-06", "verdict=pass"),
        CHOICE: ("area=header", "cwe=1286 436", "level=may", "rules=HDR-02", "verdict=choice:accept"),
    }
    for case, element in found.items():
        said = sorted("{name}={value}".format(**p.attrib) for p in element.iter("property"))
        assert tuple(said) == properties[case]
    # A failure in the baseline counts neither as passed nor as failed.
    assert [case for case, element in found.items() if element.find("failure") is not None] == [TWICE]
    skipped = found[HOLE].find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "pytest.xfail",
        "message": "known failure, wrong-accept: holes are not looked for, https://example.org/issue/1",
    }
