"""action.yml itself: its form, what it trusts, how it installs, and its page."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from .job import ACTION, ROOT, STEPS, load

PAGE = (ROOT / "docs" / "action.md").read_text(encoding="utf-8")


def examples() -> list[str]:
    """Return the workflows that the page shows."""
    return re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def check_schema(schema: str, path: Path) -> None:
    """Call ``check-jsonschema`` in this process: it takes longer to start than to check a file."""
    program = importlib.import_module("check_jsonschema").main  # of the extra dev
    done = CliRunner().invoke(program, ["--builtin-schema", schema, str(path)])
    assert done.exit_code == 0, (path, done.output)


GITHUB = ROOT / ".github"
TEMPLATES = GITHUB / "ISSUE_TEMPLATE"
FORMS = {
    "vendor.github-actions": [ROOT / "action.yml", ROOT / "comment" / "action.yml"],
    "vendor.github-workflows": sorted(GITHUB.glob("workflows/*")),
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-config": [TEMPLATES / "config.yml"],
    "vendor.github-issue-forms": sorted({*TEMPLATES.iterdir()} - {TEMPLATES / "config.yml"}),
}


@pytest.mark.parametrize("schema", FORMS)
def test_files_for_the_service_fit_their_schemas(schema: str) -> None:
    assert FORMS[schema]
    for path in FORMS[schema]:
        check_schema(schema, path)


def test_no_expression_stands_in_a_shell_text() -> None:
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert len(scripts) >= 6
    for script in scripts:
        assert "${{" not in script
        match = re.fullmatch(
            r'exec (python3|python3 -I -S|"\$STC_WORK/venv/bin/python") "\$GITHUB_ACTION_PATH/(.+)"', script
        )
        assert match is not None, script
        assert (ROOT / match[2]).is_file()


def test_every_input_reaches_the_check_and_only_through_the_environment() -> None:
    (check,) = [step for step in STEPS if step.get("id") == "check"]
    given = {name: f"STC_{name.upper().replace('-', '_')}" for name in ACTION["inputs"]}
    del given["python-version"]
    assert check["env"] == {variable: f"${{{{ inputs.{name} }}}}" for name, variable in given.items()}
    elsewhere = [str(step) for step in STEPS if step is not check and step["name"] != "Python"]
    assert not any("inputs." in text for text in elsewhere)


def test_other_actions_are_pinned_to_commits() -> None:
    for path, count in (("action.yml", 3), ("comment/action.yml", 1)):
        assert pinned((ROOT / path).read_text()) == count


def pinned(text: str) -> int:
    """Return the number of actions of others that a text uses, each pinned to a commit."""
    lines = [use for use in re.findall(r"uses: (.+)", text) if not use.startswith("OWNER/")]
    for line in lines:
        assert re.fullmatch(r"[a-z]+/[a-z-]+(/[a-z-]+)?@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    return len(lines)


def test_only_the_comment_sees_the_token() -> None:
    seeing = [step["name"] for step in STEPS if "token" in str(step)]
    assert seeing == ["Comment on the pull request"]
    (step,) = [step for step in STEPS if step["name"] in seeing]
    # Neither the environment that the tested package is in, nor a folder that it can write to.
    assert step["run"].startswith("exec python3 -I -S ")
    assert "work" not in str(step["env"])


def test_outputs_come_from_steps_that_exist() -> None:
    ids = {step["id"] for step in STEPS if "id" in step}
    for text in [about["value"] for about in ACTION["outputs"].values()]:
        match = re.fullmatch(r"\$\{\{ steps\.([a-z]+)\.outputs\.([a-z]+) \}\}", text)
        assert match is not None
        assert match[1] in ids


def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: str = "") -> Any:
    """Return the commands that install everything, the settings of an example given."""
    kind = load("common", monkeypatch).Settings
    given = dict.fromkeys(kind.__dataclass_fields__, "") | {"work": str(tmp_path), "check": check}
    given["install"] = "-e '.[a b]' \"$(touch pwned)\"\n'--pre'"
    return load("install", monkeypatch).commands(kind(**given))


@pytest.mark.parametrize(
    ("check", "extra"),
    # No harness is installed to check files.
    [("", "[harness]"), ("models", ""), ("models\nhf://org/model", "[remote]"), ("https://x/y", "[remote]")],
)
def test_the_suite_is_installed_as_the_readme_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: str, extra: str
) -> None:
    venv, suite, own = commands(monkeypatch, tmp_path, check)
    assert venv[1:] == ["-I", "-m", "venv", f"{tmp_path}/venv"]
    assert 'pip install -c constraints.txt -e ".[dev]"' in (ROOT / "README.md").read_text()
    assert suite[-4:] == ["-c", str(ROOT / "constraints.txt"), "-e", f"{ROOT}{extra}"]
    assert own[own.index("--disable-pip-version-check") + 1 :] == ["-e", ".[a b]", "$(touch pwned)", "--pre"]


def test_the_command_that_installs_the_suite_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="pip would have to download the build backend")
    _, suite, _ = commands(monkeypatch, tmp_path)
    # The same command, without writing anything, in the environment of the tests, which has it all.
    dry = [sys.executable, *suite[1:], "--dry-run", "--no-index", "--no-build-isolation"]
    done = subprocess.run(dry, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would install safetensors-conformance" in done.stdout


def test_the_page_explains_every_input_in_the_words_of_the_action() -> None:
    rows = ["| input | meaning | default |", "| --- | --- | --- |"]
    for name, about in ACTION["inputs"].items():
        default = "(needed)" if about.get("required") else about["default"] and f"`{about['default']}`"
        rows.append(f"| `{name}` | {' '.join(about['description'].split())} | {default} |")
    table = "\n".join(rows)
    assert table in PAGE, f"docs/action.md lacks this table:\n{table}"


def test_examples_are_workflows_with_the_least_rights(tmp_path: Path) -> None:
    assert examples()
    for text in examples():
        path = tmp_path / "example.yml"
        path.write_text(text)
        check_schema("vendor.github-workflows", path)
        example = yaml.safe_load(text)
        assert example["permissions"] == {}
        job, *others = example["jobs"].values()
        (step,) = [s for s in job["steps"] if "safetensors-conformance@" in s.get("uses", "")]
        assert step["with"].keys() <= ACTION["inputs"].keys()
        rights = {"contents": "read"}
        if step["with"].get("upload-sarif"):
            rights["security-events"] = "write"
        # What can write to the pull request is in a job without the tested package.
        assert not step["with"].get("comment")
        assert job["permissions"] == rights
        for other in others:
            assert other["permissions"] == {"pull-requests": "write"}
            assert [s["uses"] for s in other["steps"]] == [step["uses"].replace("@", "/comment@")]
        assert all("timeout-minutes" in one for one in (job, *others))
        pinned(text)
        assert "pull_request_target" not in str(example)
        (checkout,) = [s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@")]
        # The files of Git LFS are wanted where files are checked.
        more = {"lfs": True} if "check" in step["with"] else {}
        assert checkout["with"] == {"persist-credentials": False, **more}
