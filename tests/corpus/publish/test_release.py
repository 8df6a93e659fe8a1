"""Releases: byte-identical everywhere, all or nothing, and refused when ids or versions are not in order."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jsonschema
import pytest

from safetensors_corpus.document import stored_files
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish import build as build_module
from safetensors_corpus.publish.build import BuiltCorpus
from safetensors_corpus.publish.release import ReleaseError, read_version, release_files, write_release

from ..small import LICENSE, edit, run, small_corpus, tree

Raw = dict[str, Any]
REPOSITORY = Path(__file__).parents[3]


def tar_of(files: dict[str, bytes]) -> tuple[str, bytes]:
    return next((name, data) for name, data in files.items() if name.endswith(".tar"))


def test_the_archive_is_plain_sorted_and_dated_by_the_version(folder: Path, tmp_path: Path) -> None:
    edit(folder, lambda r: r.update(corpus_version="2026.11.2"))
    files = release_files(folder, LICENSE, None)
    name, data = tar_of(files)
    assert name == "safetensors-corpus-2026.11.2.tar"
    sums = [f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in ("changes.json", "corpus.json", name)]
    assert files["SHA256SUMS"].decode() == "".join(sums)  # the format of sha256sum
    path = tmp_path / name
    path.write_bytes(data)
    with tarfile.open(path, "r:") as tar:
        members = tar.getmembers()
        # Python 3.11.4 brought the filter, and Debian 12 has 3.11.2; it is our own archive.
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(tmp_path)
    names = [m.name for m in members]
    assert names == sorted(names)
    assert {(m.mtime, m.mode, m.uid, m.gid, m.uname, m.gname, m.type) for m in members} == {
        (1793491200, 0o644, 0, 0, "", "", tarfile.REGTYPE)
    }
    unpacked = tmp_path / "safetensors-corpus-2026.11.2"
    run("verify", unpacked, status=0)
    below = tree(unpacked)
    assert b"version 2026.11.2" in below.pop("README.txt")
    assert below == tree(folder)


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
    south = {"PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland", "LC_ALL": "C"}
    north = {"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"}
    for number, (more, mask) in enumerate([(south, 0o077), (north, 0o002)]):
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


def test_changes_are_published_in_their_schema(folder: Path) -> None:
    first, old = json.loads(release_files(folder, LICENSE, None)["changes.json"]), read_version(folder)
    edit(folder, lambda r: r["cases"][0].update(status="withdrawn") or r.update(corpus_version="2099.01"))
    second = json.loads(release_files(folder, LICENSE, old)["changes.json"])
    for changes in (first, second):
        jsonschema.validate(changes, json.loads((folder / "schema/changes.schema.json").read_text()))
    assert (first["old"], first["about"], len(first["added"])) == (None, [], 11)
    assert first["rules"]["added"] == [rule["id"] for rule in read_version(folder).raw["rules"]]
    assert second["status"] == {"framing/plain": {"old": "active", "new": "withdrawn"}}
    assert second["old"]["sha256"] == first["new"]["sha256"]


def test_ids_that_disappeared_are_refused(folder: Path) -> None:
    old = read_version(folder)
    edit(folder, lambda r: r.update(cases=r["cases"][1:], corpus_version="2027.01"))
    with pytest.raises(ReleaseError, match=r"1 case ids of .* disappeared \(framing/plain\)"):
        release_files(folder, LICENSE, old)


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        *(("2026.11", new, False) for new in ("2026.11", "2026.10")),
        *(("2026.11", new, True) for new in ("2026.11.1", "2027.01")),
        ("2026.11.9", "2026.11.10", True),
    ],
)
def test_another_corpus_needs_a_higher_version(folder: Path, old: str, new: str, fine: bool) -> None:
    edit(folder, lambda r: r.update(corpus_version=old))
    before = read_version(folder)
    assert release_files(folder, LICENSE, before), "the same corpus may be released against itself"
    edit(folder, lambda r: r["cases"][0].update(title="Other.") or r.update(corpus_version=new))
    with nullcontext() if fine else pytest.raises(ReleaseError, match="raise CORPUS_VERSION"):
        release_files(folder, LICENSE, before)


def test_a_release_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    files, dist = release_files(folder, LICENSE, None), tmp_path / "dist"
    dist.mkdir()
    assert write_release(files, dist), "an empty folder is taken"
    assert not write_release(files, dist), "the same release is there already"
    for new in ({**files, "SHA256SUMS": b"other"}, files):
        with pytest.raises(ReleaseError, match="never overwritten"):
            write_release(new, dist)
        (dist / "more.txt").write_text("")
    assert (dist / "SHA256SUMS").read_bytes() == files["SHA256SUMS"]


@pytest.mark.parametrize(
    ("error", "after"), [(OSError(28, "No space left on device"), 0), (KeyboardInterrupt(), 3)]
)
def test_a_release_that_is_stopped_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int
) -> None:
    monkeypatch.setattr("os.fsync", Mock(side_effect=[None] * after + [error]))
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


@pytest.fixture
def names(raw: dict[str, Any]) -> list[str]:
    return ["corpus.json", *(name for case in raw["cases"] for name, _, _ in stored_files(case))]


def test_paths_are_the_same_on_every_file_system(names: list[str]) -> None:
    for name in names:
        # Printable ASCII without blanks and without what Windows forbids: " * : < > ? \ |
        assert re.fullmatch(r"[!#-)+-9;=@-\[\]-{}~]+", name), name
        assert not any(part.endswith(".") or part.startswith("-") for part in name.split("/")), name
        assert not re.search(r"(^|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|/|$)", name, re.IGNORECASE), name
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="asks git in a checkout")
def test_git_takes_corpus_files_for_bytes_and_ignores_none(names: list[str]) -> None:
    def git(*args: str) -> list[str]:
        lines = "\n".join(f"corpus/{name}" for name in names)
        pipes: dict[str, Any] = {"input": lines, "capture_output": True, "text": True}
        command = ["git", args[0], "--stdin", *args[1:]]
        return str(subprocess.run(command, cwd=REPOSITORY, check=False, **pipes).stdout).splitlines()

    assert git("check-ignore", "--no-index") == []
    found: dict[str, set[str]] = {}
    for line in git("check-attr", "binary", "text", "eol"):
        name, _, attribute = line.partition(": ")
        found.setdefault(name.split("/")[1], set()).add(attribute)
    assert found == {
        "corpus.json": {"binary: unspecified", "text: set", "eol: lf"},
        "files": {"binary: set", "text: unset", "eol: unspecified"},
    }


@pytest.fixture
def current(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small corpus, taken for what the case functions give."""
    built = BuiltCorpus(
        {k: v for k, v in tree(folder).items() if k.startswith(("corpus.json", "files/"))}, 10
    )
    monkeypatch.setattr(build_module, "build", lambda: built)
    return folder


def test_the_command_makes_a_release_and_says_what_is_in_it(current: Path, tmp_path: Path) -> None:
    dist = tmp_path / "new" / "dist"
    run("release", "-c", current, dist, status=0, out="first release: 11 cases added")
    assert sorted(p.name for p in dist.iterdir())[:3] == ["SHA256SUMS", "changes.json", "corpus.json"]
    run("release", "-c", current, dist, out="already contains this release")
    since = ("--since", next(dist.glob("*.tar")))
    run("release", "-c", current, tmp_path / "later", *since, status=0, out="0 cases added")


@pytest.mark.parametrize(
    ("lacks", "args", "status", "words"),
    [
        ("files/framing/plain.safetensors", ["new"], 1, "out of date: 1 file (missing files/framing/plain"),
        ("LICENSE", ["new"], 1, "there is no LICENSE"),
        ("", ["full"], 1, "is not empty"),
        ("", ["new", "--since", "missing.tar"], 2, "missing.tar"),
        ("", ["new", "--since", "full/mine"], 2, "full/mine"),
        ("", ["full/mine"], 2, "is a file"),
        ("", ["full/link"], 2, "is a file"),
        ("", ["/dev/null"], 2, "Not a directory"),
        ("", ["full/mine/dist"], 2, "full/mine"),
    ],
)
def test_what_cannot_be_released_changes_nothing(
    current: Path, tmp_path: Path, lacks: str, args: list[str], status: int, words: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "full" / "link").symlink_to("mine")
    if lacks:
        (current / lacks).unlink()
    before = sorted(tmp_path.rglob("*"))
    places = [word if word.startswith("-") else tmp_path / word for word in args]
    run("release", "-c", current, *places, status=status, err=words)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "full" / "mine").read_text() == "mine"
