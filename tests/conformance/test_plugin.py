"""``pytest conformance`` as its users run it: a process of its own, against fakes and real readers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from safetensors_corpus.manifest import corpus_root

from .support import HERE, REPOSITORY, SUITE, fake, stdio


def suite(
    *arguments: str, cwd: Path = REPOSITORY, target: Path | None = SUITE
) -> subprocess.CompletedProcess[str]:
    """Run the suite and return what it printed and its exit status."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--color=no"]
    argv += [str(target)] if target is not None else ["--pyargs", "safetensors_conformance"]
    return subprocess.run(
        [*argv, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Option that selects a small corpus: framing, one choice, and a few cases of other areas."""
    root = corpus_root()
    manifest = json.loads((root / "corpus.json").read_bytes())
    wanted = (
        "framing/",
        "header/leading-whitespace",
        "layout/hole-between",
        "layout/two-dtypes",
        "metadata/map-",
        "metadata/null",
    )
    manifest["cases"] = [c for c in manifest["cases"] if c["id"].startswith(wanted)]
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "corpus.json").write_text(json.dumps(manifest), encoding="utf-8")
    shutil.copytree(root / "files", folder / "files")
    assert 50 < len(manifest["cases"]) < 250
    return f"--corpus={folder}"


def records(folder: Path, slug: str) -> list[dict[str, object]]:
    """Return the lines of a run record."""
    lines = (folder / f"{slug}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_reference_passes_without_any_third_party_reader(tmp_path: Path) -> None:
    run = suite(f"--report={tmp_path}")
    assert run.returncode == 0, run.stdout
    assert "wrong-accept 0" in run.stdout
    rows = records(tmp_path, "reference")
    assert rows[0]["type"] == "header"
    assert rows[-1]["type"] == "footer"
    assert rows[-1]["complete"] is True
    assert rows[-1]["not_run"] == 0
    assert "reference" in (tmp_path / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("profile", ["text", "official", "hardened"])
def test_the_reference_passes_each_profile(profile: str) -> None:
    run = suite(f"--profile={profile}")
    assert run.returncode == 0, run.stdout


def test_parallel_workers_give_the_same_result(small: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert suite(small, f"--report={one}").returncode == 0
    assert suite(small, "-n", "2", f"--report={two}").returncode == 0

    def verdicts(folder: Path) -> set[tuple[object, ...]]:
        rows = records(folder, "reference")
        assert [r["type"] for r in rows].count("header") == 1
        return {(r.get("case"), r.get("step"), r.get("choice"), r["verdict"]) for r in rows if "verdict" in r}

    assert verdicts(one) == verdicts(two)


def test_the_official_library_is_green_with_its_baseline_and_red_without() -> None:
    pytest.importorskip("safetensors")
    with_baseline = suite("--impl=safetensors")
    assert with_baseline.returncode == 0, with_baseline.stdout
    assert "xfailed" in with_baseline.stdout
    without = suite("--impl=safetensors", "--no-baseline")
    assert without.returncode == 1
    assert "header/name-twice-last-fits" in without.stdout
    assert "WRONG-ACCEPT" in without.stdout


def test_a_failure_shows_rule_expectation_bytes_and_how_to_see_it_again(small: str) -> None:
    run = suite(small, f"--impl={fake('LiesAboutContent')}", "--no-smoke", "-k", "one-tensor")
    assert run.returncode == 1
    for words in ("WRONG-CONTENT", "DAT-06 (must)", "expected  accept", "other bytes than the file holds"):
        assert words in run.stdout
    assert "again     stc run --impl" in run.stdout
    assert "00000000  " in run.stdout


def test_an_unknown_implementation_is_refused_before_anything_runs() -> None:
    run = suite("--impl=safetensor")
    assert run.returncode == 4
    assert "did you mean safetensors" in run.stderr
    assert "Traceback" not in run.stdout + run.stderr


@pytest.mark.parametrize("selector", ["py:no_such_module:Reader", stdio("no-start")])
def test_an_implementation_that_does_not_start_fails_once_and_the_rest_is_not_run(
    small: str, selector: str
) -> None:
    run = suite(small, f"--impl={selector}", "--impl=reference")
    assert run.returncode == 1
    assert run.stdout.count("cannot start") >= 1
    assert "1 failed" in run.stdout
    assert "reference 2026" in run.stdout
    assert "Traceback" not in run.stdout


def test_a_problem_is_no_success_when_the_smoke_item_is_left_out(small: str) -> None:
    run = suite(small, "--impl=py:no_such_module:Reader", "-k", "hole-between-two")
    assert run.returncode == 1
    assert "problem: cannot start" in run.stdout


@pytest.mark.parametrize("name", ["AlwaysAccepts", "AlwaysRejects"])
def test_an_adapter_that_fails_the_basic_files_is_told_from_a_reader_that_fails(
    small: str, name: str
) -> None:
    run = suite(small, f"--impl={fake(name)}")
    assert run.returncode == 1
    assert "is probably wrong" in run.stdout
    assert "1 failed" in run.stdout
    anyway = suite(small, f"--impl={fake(name)}", "--no-smoke")
    assert "is probably wrong" not in anyway.stdout
    assert anyway.returncode == 1
    verdict = "wrong-accept" if name == "AlwaysAccepts" else "wrong-reject"
    assert f"{verdict} 0" not in anyway.stdout


def test_contradicting_answers_to_one_choice_fail(small: str) -> None:
    run = suite(small, f"--impl={fake('Flaps')}", "-k", "leading")
    assert run.returncode == 1
    assert "no single option of leading-whitespace explains" in run.stdout


def test_a_lazy_reader_is_warned_about_and_fails_only_when_asked(small: str) -> None:
    run = suite(small, f"--impl={fake('Lazy')}")
    assert run.returncode == 0, run.stdout
    assert "late-reject 0" not in run.stdout
    assert suite(small, f"--impl={fake('Lazy')}", "--fail-on-should").returncode == 1


def test_several_implementations_are_compared(small: str) -> None:
    run = suite(small, "--impl=reference", f"--impl={fake('LosesMetadata')}", "--no-smoke", "-k", "test_read")
    assert run.returncode == 1
    at_content, at_verdict = run.stdout.find("content splits"), run.stdout.find("verdict splits")
    assert 0 <= at_content < at_verdict
    assert "LosesMetadata" in run.stdout[at_content:]


def test_crash_hang_and_hunger_fail_their_case_only(small: str, tmp_path: Path) -> None:
    for name in ("Crashes", "Hangs", "EatsMemory"):
        folder = tmp_path / name
        limits = ("--time-limit=0.5", "--memory-limit=256")
        run = suite(small, f"--impl={fake(name)}", "--no-smoke", *limits, f"--report={folder}")
        assert run.returncode == 1
        (record,) = folder.glob("*.jsonl")
        rows = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
        unsafe = {r["case"] for r in rows if r.get("verdict") == "unsafe"}
        assert unsafe == {"framing/one-tensor"}
        assert rows[-1]["not_run"] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "make one with: stc baseline update"),
        ("[[expected]\ncase = ", "is it truncated"),
        ("[[expected]]\ncase = 'layout/no-such-case'\nread = 'wrong-reject'\n", "matches no case"),
        ("[[expected]]\ncase = 'framing/one-tensor'\nread = 'wrong-reject'\n", "passes now"),
    ],
)
def test_a_bad_baseline_fails_once_and_the_cases_still_run(
    small: str, tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "baseline.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    run = suite(small, "--impl=reference", f"--baseline={path}")
    assert run.returncode == 1
    assert words in run.stdout
    assert "1 failed" in run.stdout
    assert "not run 0" in run.stdout


def test_a_baseline_is_made_from_a_full_run_and_not_from_a_part(small: str, tmp_path: Path) -> None:
    path = tmp_path / "fake.toml"
    options = [f"--impl={fake('LiesAboutContent')}", "--no-smoke", f"--baseline={path}"]
    part = suite(small, *options, "--update-baseline", "-k", "layout")
    assert "from a full run only" in part.stdout
    assert not path.exists()
    full = suite(small, *options, "--update-baseline")
    assert full.returncode == 0, full.stdout
    assert "1 added" in full.stdout
    assert "need an issue and a review_by date" in full.stdout
    refused = suite(small, *options)
    assert refused.returncode == 1
    assert "needs a review_by date and an issue" in refused.stdout
    text = path.read_text(encoding="utf-8")
    text = text.replace('issue = ""', 'issue = "https://example.org/1"')
    path.write_text(text.replace("# review_by = YYYY-MM-DD", "review_by = 2099-01-01"), encoding="utf-8")
    assert suite(small, *options).returncode == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "build it with"), (b'{"schema_version": 1, "cases"', "not a usable manifest")],
)
def test_an_unusable_corpus_is_one_clear_message(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "corpus.json").write_bytes(content)
    run = suite(f"--corpus={tmp_path}")
    assert run.returncode != 0
    assert words in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_the_plugin_stays_out_of_other_peoples_runs(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import sys\n"
        "def test_x():\n"
        "    heavy = ['safetensors_conformance.pytest_suite', 'safetensors_corpus', 'jsonschema', 'rich']\n"
        "    assert [m for m in heavy if m in sys.modules] == []\n",
        encoding="utf-8",
    )
    run = suite(cwd=tmp_path, target=tmp_path)
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_options_of_a_project_are_its_own(tmp_path: Path) -> None:
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
    assert "1 passed" in suite(cwd=tmp_path, target=tmp_path).stdout
    both = suite(
        str(tmp_path), "--device=theirs2", "--stc-device=cpu", "--stc-report=out",
        "-k", "one-tensor or test_x", cwd=tmp_path,
    )  # fmt: skip
    assert both.returncode == 0, both.stdout + both.stderr
    assert "device" in {row.get("step") for row in records(tmp_path / "out", "reference")}
    assert "--stc-device=NAME" in suite("--help", cwd=tmp_path, target=tmp_path).stdout
    assert " --device=NAME" in suite("--help").stdout


def test_the_suite_runs_by_package_name(tmp_path: Path) -> None:
    run = suite("-k", "framing/one-tensor", cwd=tmp_path, target=None)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


SURROGATES = f"py:{Path(__file__).with_name('bytes_fakes.py')}:Surrogates"
"""Names, words and failures with lone surrogates, and numbers beyond 64 bits."""


@pytest.mark.parametrize("selector", [SURROGATES, f"cmd:{sys.executable} {HERE / 'bytes_fakes.py'} raw"])
def test_whatever_a_reader_answers_travels_between_processes(
    small: str, tmp_path: Path, selector: str
) -> None:
    """What pytest-xdist sends is texts in UTF-8 and numbers of 64 bits."""
    found: dict[str, tuple[object, ...]] = {}
    for name, more in {"alone": (), "parallel": ("-n", "2")}.items():
        folder, xml = tmp_path / name, tmp_path / f"{name}.xml"
        run = suite(
            small, f"--impl={selector}", "--no-smoke", *more, f"--report={folder}", f"--junitxml={xml}"
        )
        assert run.returncode == 1, run.stdout + run.stderr
        assert "INTERNALERROR" not in run.stdout + run.stderr
        (record,) = folder.glob("*.jsonl")
        rows = [json.loads(line) for line in record.read_bytes().decode("ascii").splitlines()]
        told = {
            (r["case"], r["step"], r["verdict"], r["detail"], json.dumps(r["content"]))
            for r in rows
            if r["type"] == "result"
        }
        texts = {
            case.attrib["name"]: "".join(f.text or "" for f in case.iter("failure"))
            for case in ET.parse(xml).iter("testcase")
        }
        # Each process shows the first cases of a cause in full, so that the texts are not the same.
        failed = {case: bool(text) for case, text in texts.items()}
        found[name] = (told, failed, rows[-1]["not_run"], rows[-1]["complete"])
        if selector == SURROGATES:
            assert str(10**30) in json.dumps(rows)
            assert "\\udc80" in json.dumps(rows)
            assert any("refused: \\ud800 and \\xff" in text for text in texts.values())
    assert found["alone"] == found["parallel"]
    assert found["alone"][2:] == (0, True)


def test_a_command_line_that_is_no_utf_8_is_refused_where_it_cannot_travel(small: str) -> None:
    selector = "--impl=py:no_such_module:A\udcff"
    alone = suite(small, selector, "-k", "smoke")
    assert (alone.returncode, "cannot start" in alone.stdout) == (1, True)
    parallel = suite(small, selector, "-k", "smoke", "-n", "2")
    assert parallel.returncode == 4
    assert "is no UTF-8, which pytest-xdist cannot pass on" in parallel.stderr
    assert "INTERNALERROR" not in parallel.stdout + parallel.stderr
