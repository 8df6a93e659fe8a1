"""Packages of the corpus: small, the same bytes in every language, and used as their users would."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import load_manifest, recipe
from safetensors_corpus.manifest import ROOT_MARK
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish.packages import LARGEST_PACKAGE, NAME, Package, packages
from safetensors_corpus.publish.release import ReleaseError

from ..small import LICENSE as SHORT_LICENSE
from ..small import run

LICENSE = Path(__file__).parents[3].joinpath("LICENSE").read_bytes()

ROOT = "/models"
"""Where the files of folders are to lie."""
GO = "example.org/somebody/corpus"
Made = dict[str, Package]


@pytest.fixture(scope="module")
def made() -> Made:
    return {one.registry: one for one in packages(corpus_root(), LICENSE, GO)}


def members(data: bytes) -> dict[str, bytes]:
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]


def test_each_is_small_and_has_the_same_corpus(made: Made) -> None:
    assert set(made) == {"crates.io", "npm", "Go", "PyPI"}
    manifest, data = load_manifest(), set()
    for one in made.values():
        assert len(one.data) <= LARGEST_PACKAGE
        files = members(one.data)
        by_name = {path.rsplit("/", 1)[-1]: data for path, data in files.items()}
        data.add((by_name["corpus.json"], by_name["files.bin"]))
        assert by_name["LICENSE"] == LICENSE
        about = by_name["METADATA" if one.registry == "PyPI" else "README.md"].decode()
        assert f"{len(manifest.cases):,} cases, version {manifest.version}." in about
        texts = {path: text for path, text in files.items() if not path.endswith((".bin", "corpus.json"))}
        assert not [path for path, text in texts.items() if b"{{" in text or "__pycache__" in path]
    ((slim, _),) = data
    rows = {row["id"]: row for row in manifest.raw["cases"]}
    for case, wanted in zip(json.loads(slim)["cases"], manifest.cases, strict=True):
        assert case["id"] == wanted.id
        row = rows[wanted.id]
        for key in ("kind", "level", "rules", "steps", "action", "budget"):
            assert case.get(key) == (row.get(key) or None), (case["id"], key)
        assert outcomes(case) == outcomes(row)


def outcomes(case: Mapping[str, Any]) -> dict[str, tuple[str, list[str]]]:
    options = case["expect"].get("options", {"": case["expect"]})
    return {name: (one["outcome"], one.get("codes", [])) for name, one in options.items()}


def test_the_command_writes_the_same_bytes_or_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus_root() / "packages", folder / "packages")
    expected = {one.name: one.data for one in packages(folder, SHORT_LICENSE, GO)}
    out = tmp_path / "out"
    for words, place, module, status in (
        ("crates.io", out, GO, 0),
        ("already contains these packages", out, GO, 0),
        ("is not empty", tmp_path, GO, 1),
        ("is not a Go module path", tmp_path / "no", "../up", 1),
    ):
        result = run("packages", "-c", folder, "-o", place, "--go-module", module)
        assert (result.exit_code, words in result.output) == (status, True), result.output
    assert {path.name: path.read_bytes() for path in out.iterdir()} == expected
    assert not (tmp_path / "no").exists()


def test_a_corpus_without_the_texts_of_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="packages can be built only from a checkout"):
        packages(tmp_path, LICENSE)


# Each language as its users would use it: the package is installed by the tool of that language, without a
# network, its own test is run, and a program writes every file that is not heavy.

PYTHON = f"""
import sys
from safetensors_corpus_data import bytes_of, cases, files_of
for case in cases():
    if "heavy" not in case:
        sys.stdout.buffer.write(bytes_of(case) or b"")
        for _, data in sorted(files_of(case, {ROOT!r}).items()):
            sys.stdout.buffer.write(data)
"""
NODE = f"""
import {{ writeSync }} from "node:fs";
import {{ bytes, cases, files }} from "{NAME}";
const write = (data) => {{ for (let at = 0; at < data.length;) at += writeSync(1, data, at); }};
for (const item of cases.filter((one) => !one.heavy)) {{
  write(bytes(item) ?? Buffer.alloc(0));
  for (const path of [...files(item, "{ROOT}").keys()].sort()) write(files(item, "{ROOT}").get(path));
}}
"""
IN_GO = f"""
package main

import (
	"os"
	"sort"

	corpus "{GO}"
)

func main() {{
	for _, c := range corpus.Cases() {{
		if c.Heavy {{
			continue
		}}
		data, _ := c.Bytes()
		os.Stdout.Write(data)
		files, _ := c.Files("{ROOT}")
		paths := []string{{}}
		for path := range files {{
			paths = append(paths, path)
		}}
		sort.Strings(paths)
		for _, path := range paths {{
			os.Stdout.Write(files[path])
		}}
	}}
}}
"""
RUST = f"""
use std::io::Write;

fn main() {{
    let mut out = std::io::stdout().lock();
    for case in safetensors_corpus_data::cases().iter().filter(|case| !case.heavy) {{
        out.write_all(&case.bytes().unwrap()).unwrap();
        let mut files = case.files("{ROOT}").unwrap();
        files.sort();
        files.iter().for_each(|(_, data)| out.write_all(data).unwrap());
    }}
}}
"""


def written() -> str:
    """Return the digest of what those programs must write."""
    found = hashlib.sha256()
    for case in load_manifest().cases:
        if case.heavy:
            continue
        given, files = case.input, {}
        for file in given.files:
            data = recipe.expand(file.recipe) if file.recipe else file.source.read_bytes()
            files[file.path] = data.replace(ROOT_MARK, ROOT.encode()) if file.template else data
        if given.recipe:
            found.update(recipe.expand(given.recipe))
        elif given.file is not None and not files:
            found.update(given.file.read_bytes())
        for _, data in sorted(files.items()):
            found.update(data)
    return found.hexdigest()


def do(folder: Path, *command: str, **env: str) -> str:
    """Run a command, which must do well; return the digest of what it printed."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env}, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:].decode())
    return hashlib.sha256(done.stdout).hexdigest()


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}, which is not installed")


def in_python(packed: Package, folder: Path) -> str:
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", "here")
    do(folder, *pip, packed.name)
    test = corpus_root() / "packages" / "pypi" / "test_smoke.py"
    shutil.copy(test, folder)
    at = {"PYTHONPATH": str(folder / "here")}
    do(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_smoke.py", **at)
    return do(folder, sys.executable, "-c", PYTHON, **at)


def in_node(packed: Package, folder: Path) -> str:
    need("npm")
    (folder / "package.json").write_text('{"type": "module"}')
    do(folder, "npm", "install", "--offline", "--no-audit", "--no-fund", packed.name)
    do(folder / "node_modules" / NAME, "node", "--test")
    (folder / "all.mjs").write_text(NODE)
    return do(folder, "node", "all.mjs")


def in_go(packed: Package, folder: Path) -> str:
    need("go")
    version = packed.name.removeprefix(f"{NAME}-go-").removesuffix(".zip")
    proxy = folder / "proxy" / GO / "@v"
    proxy.mkdir(parents=True)
    shutil.move(folder / packed.name, proxy / f"{version}.zip")
    (proxy / f"{version}.info").write_text(f'{{"Version": "{version}"}}')
    (proxy / f"{version}.mod").write_bytes(members(packed.data)[f"{GO}@{version}/go.mod"])
    (folder / "go.mod").write_text(f"module everything\n\ngo 1.19\n\nrequire {GO} {version}\n")
    (folder / "main.go").write_text(IN_GO)
    env = {"GOPROXY": f"file://{folder}/proxy", "GOSUMDB": "off", "GOTOOLCHAIN": "local"}
    env |= {"GOFLAGS": "-mod=mod -modcacherw", "GOPATH": str(folder / "go")}
    do(folder, "go", "vet", GO, **env)
    do(folder, "go", "test", GO, **env)
    return do(folder, "go", "run", ".", **env)


def in_rust(packed: Package, folder: Path) -> str:
    need("cargo")
    do(folder, "tar", "xf", packed.name)
    crate = folder / packed.name.removesuffix(".crate")
    (crate / "examples").mkdir()
    (crate / "examples" / "all.rs").write_text(RUST)
    do(crate, "cargo", "test", "--offline", "--release")
    return do(crate, "cargo", "run", "--offline", "--release", "-q", "--example", "all")


Use = Callable[[Package, Path], str]
USES: Mapping[str, Use] = {"PyPI": in_python, "npm": in_node, "Go": in_go, "crates.io": in_rust}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("registry", USES)
def test_every_language_gets_the_bytes_of_the_corpus(made: Made, tmp_path: Path, registry: str) -> None:
    packed = made[registry]
    (tmp_path / packed.name).write_bytes(packed.data)
    assert USES[registry](packed, tmp_path) == written()
