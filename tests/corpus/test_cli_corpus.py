"""``stc corpus`` as people meet it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from safetensors_corpus import Manifest, ManifestError
from safetensors_corpus import build as build_module
from safetensors_corpus import cli as cli_module
from safetensors_corpus.build import Built
from safetensors_corpus.cli import corpus, expects


@pytest.fixture(autouse=True)
def prebuilt(monkeypatch: pytest.MonkeyPatch, built: Built, manifest: Manifest) -> None:
    """Build once for all of these tests, and show the corpus that was built."""
    monkeypatch.setattr(build_module, "build", lambda: built)
    monkeypatch.setattr(cli_module, "load_manifest", lambda: manifest)


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of the built corpus that a test may change."""
    return shutil.copytree(written, tmp_path / "corpus")


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(corpus, [str(a) for a in args], env={"COLUMNS": "400", "NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_building_into_an_empty_folder_writes_everything_once(tmp_path: Path, built: Built) -> None:
    first = run("build", "-o", tmp_path / "new")
    assert first.exit_code == 0
    assert f"{len(built.files)} files written, 0 removed" in first.stdout
    assert {
        p.relative_to(tmp_path / "new").as_posix() for p in (tmp_path / "new").rglob("*") if p.is_file()
    } == set(built.files)
    assert "0 files written, 0 removed" in run("build", "-o", tmp_path / "new").stdout
    assert run("build", "--check", "-o", tmp_path / "new").exit_code == 0


def test_check_passes_on_a_current_corpus_and_writes_nothing(folder: Path, built: Built) -> None:
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    result = run("build", "--check", "-o", folder)
    assert result.exit_code == 0
    assert f"corpus is current: {built.cases} cases" in result.stdout
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_check_reports_an_altered_a_missing_and_an_extra_file_each(folder: Path) -> None:
    files = sorted(folder.glob("files/**/*.safetensors"))
    files[0].write_bytes(files[0].read_bytes() + b"!")
    files[1].unlink()
    (folder / "files" / "extra.bin").write_bytes(b"")
    result = run("build", "--check", "-o", folder)
    assert result.exit_code == 1
    lines = {tuple(line.split()) for line in result.stdout.splitlines()[:-1]}
    assert lines == {
        ("different", files[0].relative_to(folder).as_posix()),
        ("missing", files[1].relative_to(folder).as_posix()),
        ("stale", "files/extra.bin"),
    }
    assert "3 files are not current; run: stc corpus build" in result.stdout
    assert not files[1].exists(), "--check writes nothing"


@pytest.mark.parametrize("damage", ["", "garbage", None])
def test_check_reports_a_damaged_manifest(folder: Path, damage: str | None) -> None:
    path = folder / "corpus.json"
    path.unlink() if damage is None else path.write_text(damage)
    result = run("build", "--check", "-o", folder)
    assert result.exit_code == 1
    assert "corpus.json" in result.stdout


def test_check_on_a_folder_that_does_not_exist_reports_every_file(tmp_path: Path, built: Built) -> None:
    result = run("build", "--check", "-o", tmp_path / "none")
    assert result.exit_code == 1
    assert result.stdout.count("missing ") == len(built.files)


def test_building_repairs_what_check_reports(folder: Path) -> None:
    victim = next(iter(sorted(folder.glob("files/**/*.safetensors"))))
    victim.write_bytes(b"")
    (folder / "files" / "extra.bin").write_bytes(b"")
    result = run("build", "-o", folder)
    assert "1 files written, 1 removed" in result.stdout
    assert run("build", "--check", "-o", folder).exit_code == 0


def add_case(folder: Path, case_id: str) -> None:
    path = folder / "corpus.json"
    manifest = json.loads(path.read_text())
    manifest["cases"].append({**manifest["cases"][0], "id": case_id})
    path.write_text(json.dumps(manifest))


def test_ids_that_would_disappear_are_refused_and_nothing_is_written(folder: Path) -> None:
    add_case(folder, "framing/published-long-ago")
    before = (folder / "corpus.json").read_bytes()
    result = run("build", "-o", folder)
    assert result.exit_code != 0
    assert "framing/published-long-ago" in result.stderr
    assert "permanent" in result.stderr
    assert (folder / "corpus.json").read_bytes() == before


def test_ids_may_disappear_when_that_is_asked_for(folder: Path) -> None:
    add_case(folder, "framing/never-published")
    assert run("build", "--allow-removal", "-o", folder).exit_code == 0
    assert "never-published" not in (folder / "corpus.json").read_text()


def refuse() -> Built:
    raise ValueError("case framing/x: unknown choice")


def test_a_case_that_contradicts_the_rules_is_an_error_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build_module, "build", refuse)
    result = run("build", "-o", tmp_path)
    assert result.exit_code != 0
    assert "case framing/x: unknown choice" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_case_that_contradicts_the_rules_has_the_exit_status_of_the_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build_module, "build", refuse)
    assert "2 a case contradicts the rules" in run("build", "--help").stdout
    assert run("build", "-o", tmp_path).exit_code == 2


def test_list_shows_every_case_with_what_it_expects(manifest: Manifest) -> None:
    out = run("list").stdout
    for case in manifest.cases:
        row = next(line for line in out.splitlines() if line.startswith(f"{case.id} "))
        assert expects(case) in row
        assert " ".join(case.rules) in row
        assert case.title in row, "square brackets in a title are no markup"
    assert f"{len(manifest.cases)} cases" in out


@pytest.mark.parametrize("pattern", ["framing/", "FRM-03", "metadata-null", "no-such-thing"])
def test_list_finds_by_id_rule_and_choice(manifest: Manifest, pattern: str) -> None:
    found = [json.loads(line) for line in run("list", "--json", pattern).stdout.splitlines()]
    assert [row["id"] for row in found] == [
        c.id
        for c in manifest.cases
        if pattern in c.id or pattern in (c.choice or "") or pattern in " ".join(c.rules)
    ]
    assert (found == []) == (pattern == "no-such-thing")


def test_list_as_json_holds_what_a_program_needs(manifest: Manifest) -> None:
    rows = [json.loads(line) for line in run("list", "--json").stdout.splitlines()]
    for row, case in zip(rows, manifest.cases, strict=True):
        assert (row["id"], tuple(row["rules"]), row["choice"], row["title"]) == (
            case.id,
            case.rules,
            case.choice,
            case.title,
        )


def test_expectations_in_a_few_words(manifest: Manifest) -> None:
    assert expects(manifest.by_id["framing/one-tensor"]) == "accept"
    assert expects(manifest.by_id["framing/no-bytes"]) == "reject (FRM_TOO_SHORT)"
    assert next(expects(c) for c in manifest.cases if c.choice == "metadata-null") == "choice metadata-null"


def test_show_tells_purpose_rules_expectation_and_bytes(manifest: Manifest) -> None:
    case = manifest.by_id["framing/one-tensor"]
    out = run("show", case.id).stdout
    for part in (case.id, case.title, "FRM-01", "(must)", "accept", str(case.path)):
        assert part in out
    assert "00000000  " + case.read_input()[:8].hex(" ") in out


def test_show_an_unknown_case_says_how_to_find_one() -> None:
    result = run("show", "framing/one-tensorr")
    assert result.exit_code == 1
    assert "framing/one-tensorr" in result.stderr
    assert "stc corpus list" in result.stderr


def test_show_of_a_changed_file_says_so(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from safetensors_corpus import load_manifest

    monkeypatch.setattr(cli_module, "load_manifest", lambda: load_manifest(folder))
    (folder / "files/framing/one-tensor.safetensors").write_bytes(b"other")
    result = run("show", "framing/one-tensor")
    assert result.exit_code == 1
    assert "not the one of the manifest" in result.stderr


@pytest.mark.parametrize("command", [("list",), ("show", "framing/one-tensor")])
def test_a_missing_corpus_is_an_error_message(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def fail() -> Manifest:
        raise ManifestError("corpus x: No such file; build it with: stc corpus build")

    monkeypatch.setattr(cli_module, "load_manifest", fail)
    result = run(*command)
    assert result.exit_code == 1
    assert result.stderr == "Error: corpus x: No such file; build it with: stc corpus build\n"
