"""Releases: byte-identical everywhere, all or nothing, and refused when ids or versions are not in order."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from safetensors_corpus.document import stored_files
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish import build as build_module
from safetensors_corpus.publish.build import BuiltCorpus
from safetensors_corpus.publish.release import ReleaseError, read_version, release_files, write_release

from ..small import LICENSE, edit, run, small_corpus

Raw = dict[str, Any]
REPOSITORY = Path(__file__).parents[3]


def tar_of(files: dict[str, bytes]) -> tuple[str, bytes]:
    return next((name, data) for name, data in files.items() if name.endswith(".tar"))


def test_the_archive_is_plain_sorted_and_dated_by_the_version(folder: Path, tmp_path: Path) -> None:
    edit(folder, lambda r: r.update(corpus_version="2026.11.2"))
    name, data = tar_of(release_files(folder, LICENSE, None))
    assert name == "safetensors-corpus-2026.11.2.tar"
    path = tmp_path / name
    path.write_bytes(data)
    with tarfile.open(path, "r:") as tar:
        members = tar.getmembers()
        contents = {m.name: tar.extractfile(m).read() for m in members}  # type: ignore[union-attr]
    names = [m.name for m in members]
    assert names == sorted(names)
    assert {(m.mtime, m.mode, m.uid, m.gid, m.uname, m.gname, m.type) for m in members} == {
        (1793491200, 0o644, 0, 0, "", "", tarfile.REGTYPE)
    }
    prefix = "safetensors-corpus-2026.11.2/"
    below = {name.removeprefix(prefix): content for name, content in contents.items()}
    assert below.pop("LICENSE") == LICENSE
    assert b"version 2026.11.2" in below.pop("README.txt")
    assert below == {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != "LICENSE"
    }


def test_an_unpacked_archive_is_an_intact_corpus(folder: Path, tmp_path: Path) -> None:
    name, data = tar_of(release_files(folder, LICENSE, None))
    (tmp_path / name).write_bytes(data)
    with tarfile.open(tmp_path / name) as tar:
        # Python 3.11.4 brought the filter, and Debian 12 has 3.11.2; it is our own archive.
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(tmp_path)
    unpacked = tmp_path / name.removesuffix(".tar")
    assert run("verify", unpacked).exit_code == 0
    assert run("diff", unpacked, folder).exit_code == 0


def test_checksums_are_in_the_format_of_sha256sum(folder: Path, tmp_path: Path) -> None:
    files = release_files(folder, LICENSE, None)
    write_release(files, tmp_path / "dist")
    lines = (tmp_path / "dist" / "SHA256SUMS").read_text().splitlines()
    assert [line[66:] for line in lines] == ["changes.json", "corpus.json", tar_of(files)[0]]
    for line in lines:
        digest, name = re.fullmatch(r"([0-9a-f]{64})  (\S+)", line).groups()  # type: ignore[union-attr]
        assert hashlib.sha256((tmp_path / "dist" / name).read_bytes()).hexdigest() == digest


PROGRAM = """
import locale, sys
from pathlib import Path
from safetensors_corpus.publish.release import read_version
from safetensors_corpus.publish.release import release_files, write_release
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
folder, old, dist = map(Path, sys.argv[1:])
write_release(release_files(folder, (folder / "LICENSE").read_bytes(), read_version(old)), dist)
"""


def test_two_builds_in_different_surroundings_are_byte_identical(folder: Path, tmp_path: Path) -> None:
    small_corpus(tmp_path / "old")
    edit(folder, lambda r: r["cases"].append({**r["cases"][0], "id": "framing/new"}))
    edit(folder, lambda r: r.update(corpus_version="2026.12"))
    results = []
    for number, (more, mask) in enumerate(
        [
            ({"PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland", "LC_ALL": "C"}, 0o077),
            (
                {"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
                0o002,
            ),
        ]
    ):
        # The files as another checkout has them: other modes and times.
        for path in folder.rglob("*"):
            if path.is_file():
                path.chmod(0o600 if number else 0o755)
                os.utime(path, (number * 1e9, number * 1e9))
        dist = tmp_path / f"dist-{number}"
        command = [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path / "old"), str(dist)]
        subprocess.run(command, check=True, env={**os.environ, **more}, umask=mask)
        results.append({p.name: (p.stat().st_mode & 0o777, p.read_bytes()) for p in dist.iterdir()})
    assert results[0] == results[1]
    assert len(results[0]) == 4


def test_changes_are_published_in_their_schema(folder: Path, tmp_path: Path) -> None:
    schema = json.loads((folder / "schema/changes.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    first = json.loads(release_files(folder, LICENSE, None)["changes.json"])
    jsonschema.validate(first, schema)
    assert first["old"] is None
    assert len(first["added"]) == 11
    small_corpus(tmp_path / "old")
    edit(folder, lambda r: r["cases"][0].update(status="withdrawn"))
    edit(folder, lambda r: r.update(corpus_version="2099.01"))
    second = json.loads(release_files(folder, LICENSE, read_version(tmp_path / "old"))["changes.json"])
    jsonschema.validate(second, schema)
    assert second["status"] == {"framing/plain": {"old": "active", "new": "withdrawn"}}
    assert second["old"]["sha256"] == first["new"]["sha256"]


def test_ids_that_disappeared_are_refused(folder: Path, tmp_path: Path) -> None:
    small_corpus(tmp_path / "old")
    edit(folder, lambda r: r.update(cases=r["cases"][1:], corpus_version="2027.01"))
    with pytest.raises(ReleaseError, match=r"1 case ids of .* disappeared \(framing/plain\)"):
        release_files(folder, LICENSE, read_version(tmp_path / "old"))


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        ("2026.11", "2026.11", False),
        ("2026.11", "2026.10", False),
        ("2026.11.9", "2026.11.10", True),
        ("2026.11", "2026.11.1", True),
        ("2026.11", "2027.01", True),
    ],
)
def test_another_corpus_needs_a_higher_version(
    folder: Path, tmp_path: Path, old: str, new: str, fine: bool
) -> None:
    small_corpus(tmp_path / "old")
    edit(tmp_path / "old", lambda r: r.update(corpus_version=old))
    edit(folder, lambda r: r["cases"][0].update(title="Other.") or r.update(corpus_version=new))
    if fine:
        assert release_files(folder, LICENSE, read_version(tmp_path / "old"))
    else:
        with pytest.raises(ReleaseError, match="raise CORPUS_VERSION"):
            release_files(folder, LICENSE, read_version(tmp_path / "old"))


def test_the_same_corpus_may_be_released_against_itself(folder: Path) -> None:
    assert release_files(folder, LICENSE, read_version(folder))


def test_a_release_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    files = release_files(folder, LICENSE, None)
    dist = tmp_path / "dist"
    dist.mkdir()
    assert write_release(files, dist), "an empty folder is taken"
    assert not write_release(files, dist), "the same release is there already"
    with pytest.raises(ReleaseError, match="never overwritten"):
        write_release({**files, "SHA256SUMS": b"other"}, dist)
    (dist / "more.txt").write_text("")
    with pytest.raises(ReleaseError, match="never overwritten"):
        write_release(files, dist)
    assert (dist / "SHA256SUMS").read_bytes() == files["SHA256SUMS"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_release_that_is_stopped_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int
) -> None:
    calls: list[int] = []

    def sync(_: int) -> None:
        if len(calls) == after:
            raise error
        calls.append(0)

    monkeypatch.setattr("os.fsync", sync)
    before = set(tmp_path.iterdir())
    with pytest.raises(type(error)):
        write_release(release_files(folder, LICENSE, None), tmp_path / "dist")
    assert set(tmp_path.iterdir()) == before


def test_a_name_that_plain_tar_cannot_hold_is_an_error(folder: Path) -> None:
    long = "files/" + "x" * 150 + ".safetensors"
    (folder / long).write_bytes((folder / "files/framing/plain.safetensors").read_bytes())
    edit(folder, lambda r: r["cases"][0]["input"].update(file=long))
    with pytest.raises(ReleaseError, match="a plain tar archive cannot contain files/x"):
        release_files(folder, LICENSE, None)


# --- the corpus of this repository -----------------------------------------------------------------------


def test_committed_data_stays_below_16_megabytes() -> None:
    folder = corpus_root()
    paths = [folder / "corpus.json", *(folder / "schema").rglob("*"), *(folder / "files").rglob("*")]
    assert sum(p.stat().st_size for p in paths if p.is_file()) < 16_000_000


@pytest.mark.nightly
def test_the_real_corpus_can_be_released(written: Path, tmp_path: Path) -> None:
    files = release_files(written, LICENSE, None)
    assert len(tar_of(files)[1]) < 28_000_000
    write_release(files, tmp_path / "dist")
    assert read_version(next((tmp_path / "dist").glob("*.tar"))) == read_version(written)


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="attributes are asked of git in a checkout")
def test_git_takes_corpus_files_for_bytes() -> None:
    files = sorted((REPOSITORY / "corpus/files").rglob("*"))
    names = [p.relative_to(REPOSITORY).as_posix() for p in files if p.is_file()][::40]
    names += ["corpus/files/index/some/model/model.safetensors.index.json"]
    result = subprocess.run(
        ["git", "check-attr", "binary", "text", "diff", "--", *names],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    found = {tuple(line.rsplit(": ", 2)) for line in result.stdout.splitlines()}
    wanted = (("binary", "set"), ("text", "unset"), ("diff", "unset"))
    assert found == {(name, *attribute) for name in names for attribute in wanted}


@pytest.fixture
def names(raw: dict[str, Any]) -> list[str]:
    return ["corpus.json", *(name for case in raw["cases"] for name, _, _ in stored_files(case))]


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="ignored files are asked of git in a checkout")
def test_git_ignores_no_corpus_file(names: list[str]) -> None:
    lines = "\n".join(f"corpus/{name}" for name in names)
    command = ["git", "check-ignore", "--no-index", "--stdin"]
    result = subprocess.run(command, input=lines, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.stdout == ""


def test_paths_are_the_same_on_every_file_system(names: list[str]) -> None:
    for name in names:
        # Printable ASCII without blanks and without what Windows forbids: " * : < > ? \ |
        assert re.fullmatch(r"[!#-)+-9;=@-\[\]-{}~]+", name), name
        assert not any(part.endswith(".") or part.startswith("-") for part in name.split("/")), name
        assert not re.search(r"(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$)", name, re.IGNORECASE), name
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="attributes are asked of git in a checkout")
@pytest.mark.parametrize("name", ["corpus/corpus.json", "corpus/schema/corpus.schema.json"])
def test_git_never_changes_line_ends_of_the_manifest_and_schema(name: str) -> None:
    command = ["git", "check-attr", "eol", "--", name]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("eol: lf")


@pytest.fixture
def current(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small corpus, taken for what the case functions give."""
    names = [
        "corpus.json",
        *(p.relative_to(folder).as_posix() for p in (folder / "files").rglob("*") if p.is_file()),
    ]
    built = BuiltCorpus({name: (folder / name).read_bytes() for name in names}, 10)
    monkeypatch.setattr(build_module, "build", lambda: built)
    return folder


def test_the_command_makes_a_release_and_says_what_is_in_it(current: Path, tmp_path: Path) -> None:
    dist = tmp_path / "new" / "dist"
    result = run("release", "-c", current, dist)
    assert result.exit_code == 0, result.output
    assert "first release: 11 cases added" in result.stdout
    assert sorted(p.name for p in dist.iterdir())[:3] == ["SHA256SUMS", "changes.json", "corpus.json"]
    assert "already contains this release" in run("release", "-c", current, dist).stdout
    archive = next(dist.glob("*.tar"))
    later = run("release", "-c", current, tmp_path / "later", "--since", archive)
    assert later.exit_code == 0
    assert "0 cases added" in later.stdout


def test_a_corpus_that_is_not_current_is_refused(current: Path, tmp_path: Path) -> None:
    (current / "files/framing/plain.safetensors").write_bytes(b"")
    result = run("release", "-c", current, tmp_path / "dist")
    assert result.exit_code == 1
    assert "out of date: 1 file (different files/framing/plain.safetensors" in result.stderr
    assert not (tmp_path / "dist").exists()


def test_a_missing_licence_is_refused(current: Path, tmp_path: Path) -> None:
    (current / "LICENSE").unlink()
    result = run("release", "-c", current, tmp_path / "dist")
    assert result.exit_code == 1
    assert "there is no LICENSE" in result.stderr


def test_a_folder_in_use_is_refused(current: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "mine").write_text("mine")
    assert run("release", "-c", current, tmp_path / "dist").exit_code == 1
    assert [p.name for p in (tmp_path / "dist").iterdir()] == ["mine"]


@pytest.mark.parametrize("old", ["missing.tar", "corpus/LICENSE"])
def test_an_old_release_that_cannot_be_read_is_exit_status_2(current: Path, tmp_path: Path, old: str) -> None:
    result = run("release", "-c", current, tmp_path / "dist", "--since", tmp_path / old)
    assert result.exit_code == 2
    assert str(tmp_path / old) in result.stderr


@pytest.mark.parametrize("name", ["file", "link", "/dev/null"])
def test_what_is_no_folder_is_refused_by_its_name_and_left_alone(
    current: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    before = sorted(tmp_path.iterdir())
    result = run("release", "-c", current, tmp_path / name)
    assert result.exit_code == 2
    assert str(tmp_path / name) in result.stderr
    assert "Not a directory" in result.stderr or "is a file" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written_is_exit_status_2(current: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("release", "-c", current, tmp_path / "file" / "dist")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
