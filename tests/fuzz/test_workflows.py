"""The workflows: what they may do, and that every command in them exists with these options."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from safetensors_reference.main import main

FOLDER = Path(__file__).resolve().parents[2] / ".github" / "workflows"
FUZZING = ("fuzz-pull-request.yml", "fuzz-nightly.yml")
BY_DIGEST = (*FUZZING, "release.yml")
"""Workflows that install packages of others by digest; those that test take what is newest, as users do."""
READING = (*FUZZING, "tests-nightly.yml", "ci.yml")
NAMES = (*READING, "release.yml", "pages.yml")
PROGRAMS = {"stc-fuzz-target", "pip", "pytest", ".ci/run", "mkdir", "rm", "mv", "test", "hatchling", "gh"}
"""What else the workflows call; a misspelled ``stc`` is none of them."""
MAKEFILE = (FOLDER.parents[1] / "Makefile").read_text()


def workflow(name: str) -> dict[Any, Any]:
    raw = yaml.safe_load((FOLDER / name).read_text())
    assert isinstance(raw, dict)
    return raw


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def commands(name: str) -> list[list[str]]:
    """Return the command lines of all steps, with expressions of the service taken for a number."""
    lines = [line for step in steps(name) for line in str(step.get("run", "")).splitlines()]
    plain = [re.sub(r"\$\{\{.*?\}\}|\$[A-Z_]+", "1", line) for line in lines]
    return [shlex.split(line) for line in plain if line.strip()]


def check_command(words: list[str]) -> None:
    """Check options and subcommands of an ``stc`` line against the command itself."""
    command: click.Command = main
    while True:
        # With the command's own settings: click keeps the help option of whichever context asks first.
        context = click.Context(command, **command.context_settings)
        _, left, _ = command.make_parser(context).parse_args(list(words))
        if not isinstance(command, click.Group) or not left:
            assert not left, f"{command.name} takes no {left}"
            return
        found = command.get_command(context, left[0])
        assert found is not None, f"there is no command {left[0]}"
        command, words = found, left[1:]


def test_every_workflow_is_looked_at() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", READING)
def test_rights_are_the_least_and_nothing_is_written(name: str) -> None:
    assert all("permissions" not in job for job in workflow(name)["jobs"].values())
    text = (FOLDER / name).read_text()
    assert "pull_request_target" not in text
    assert "gh " not in text


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit(name: str) -> None:
    raw = workflow(name)
    assert raw["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in raw["jobs"].values())
    used = re.findall(r"uses: (.+)", (FOLDER / name).read_text())
    assert len(used) == sum("uses" in step for step in steps(name)) > 0
    assert all(re.fullmatch(r"[a-z]+/[a-z/_-]+@[0-9a-f]{40} # v[\d.]+", action) for action in used)
    for step in steps(name):
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"] == {"persist-credentials": False}


RELEASE = {
    "build": None,
    "attest": {"id-token": "write", "attestations": "write"},
    "pypi": {"id-token": "write"},
    "github": {"contents": "write"},
}
PAGES = {"build": None, "deploy": {"pages": "write", "id-token": "write"}}


@pytest.mark.parametrize(("name", "rights"), [("release.yml", RELEASE), ("pages.yml", PAGES)])
def test_each_job_that_writes_has_only_the_rights_that_it_needs(name: str, rights: dict[str, Any]) -> None:
    jobs = workflow(name)["jobs"]
    assert {job: row.get("permissions") for job, row in jobs.items()} == rights
    # Code of the project and of its dependencies runs only where nothing can be written.
    assert [job for job, row in jobs.items() if "actions/checkout" in str(row)] == ["build"]
    assert "secrets." not in (FOLDER / name).read_text()


def test_what_is_published_comes_from_tags_and_from_main() -> None:
    release, pages = workflow("release.yml"), workflow("pages.yml")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key "on" as true
    assert [name for name, job in release["jobs"].items() if "environment" in job] == ["pypi"]
    assert set(pages[True]) == {"push", "workflow_dispatch"}
    assert pages[True]["push"] == {"branches": ["main"]}
    deploy = [step.get("uses", "").split("@")[0] for step in pages["jobs"]["deploy"]["steps"]]
    assert deploy == ["actions/deploy-pages"]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_exists_with_its_options(name: str) -> None:
    for words in commands(name):
        if words[0] == "stc":
            check_command(words[1:])
        elif words[0] == "make":
            assert all(f"\n{target}:" in MAKEFILE for target in words[1:])
        else:
            assert words[0] in PROGRAMS
    assert name in ("ci.yml", "tests-nightly.yml") or any(words[0] == "stc" for words in commands(name))


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(click.NoSuchOption):
        check_command(["fuzz", "--no-such-option", "1"])
    with pytest.raises(AssertionError, match="there is no command"):
        check_command(["fuss"])


def test_the_pull_request_run_is_bounded_and_repeats() -> None:
    raw = workflow("fuzz-pull-request.yml")
    assert list(raw[True]) == ["pull_request"]
    for words in commands("fuzz-pull-request.yml"):
        if words[0] == "stc":
            assert {"--seed", "--max-execs", "-o"} <= set(words)
            assert "--time" not in words
    assert raw["jobs"]["fuzz"]["strategy"]["matrix"]["seed"] == [1, 2, 3]


def test_every_python_that_the_package_names_is_tested_and_macos_with_one() -> None:
    raw = workflow("ci.yml")
    assert raw[True] == {"push": {"branches": ["main"]}, "pull_request": None}
    jobs = raw["jobs"]
    assert [step["run"] for step in jobs["everything"]["steps"] if "run" in step] == [".ci/run"]
    setups = [step for step in jobs["everything"]["steps"] if "setup-python" in str(step)]
    first = [step["with"]["python-version"] for step in setups]
    matrix = jobs["tests"]["strategy"]["matrix"]
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert first + matrix["python"] == named
    assert matrix["include"] == [{"os": "macos-latest", "python": "3.12"}]


def test_the_nightly_run_goes_on_from_the_last_and_keeps_its_findings() -> None:
    raw = workflow("fuzz-nightly.yml")
    assert set(raw[True]) == {"schedule", "workflow_dispatch"}
    line = next(words for words in commands("fuzz-nightly.yml") if words[0] == "stc")
    assert line[line.index("--engine") + 1] == "atheris"
    corpus, output = line[line.index("--corpus") + 1], line[line.index("-o") + 1]
    by_action = {step["uses"].split("@")[0]: step for step in steps("fuzz-nightly.yml") if "uses" in step}
    taken, kept = by_action["actions/cache/restore"]["with"], by_action["actions/cache/save"]["with"]
    assert taken["path"] == kept["path"] == corpus
    assert taken["key"] == kept["key"]
    assert kept["key"].startswith(taken["restore-keys"])
    assert by_action["actions/cache/save"]["if"] == "always()"  # findings end the job as a failure does
    assert by_action["actions/upload-artifact"]["with"]["path"] == output


PINNED = re.compile(r"([a-z0-9-]+)==(\S+?)(?: ; .*?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")


def test_what_workflows_install_of_others_has_digests() -> None:
    """Every dependency is there in a version that fits, with a digest; only this project has none."""
    text = (FOLDER.parent / "requirements.txt").read_text()
    listed = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    assert PINNED.sub("", listed).strip() == ""
    versions = {name: version for name, version, _ in PINNED.findall(listed)}
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for line in (*wanted, *(line for name in ("harness", "official", "fuzz") for line in extras[name])):
        need = Requirement(line)
        if need.name == project["project"]["name"]:
            assert need.extras == {"harness"}  # looked at by itself
            continue
        if need.marker is None or need.marker.evaluate({"python_version": "3.11"}):
            assert versions[need.name] in need.specifier, line
    for name in BY_DIGEST:
        installs = [words[2:] for words in commands(name) if words[:2] == ["pip", "install"]]
        assert installs == [
            ["--require-hashes", "-r", ".github/requirements.txt"],
            ["--no-deps", "--no-build-isolation", "-e", "."],
        ]
