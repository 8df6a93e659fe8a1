"""Each shim answers requests correctly, whatever names, paths and messages contain."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.protocol_check.checks import check_protocol
from safetensors_conformance.protocol_check.conversation import validate

from .support import REPOSITORY, committed

SHIMS = REPOSITORY / "conformance" / "safetensors_conformance" / "shims"


@dataclass(frozen=True)
class Toolchain:
    """How the example of a language is compiled and run.

    Attributes:
        tools: programs that must be there.
        build: commands in a copy of the folder.
        run: words of the program; {folder} is where it was built.
        bytes_in_names: whether its example hands on names that are no UTF-8.
    """

    tools: tuple[str, ...]
    build: tuple[tuple[str, ...], ...]
    run: str
    bytes_in_names: bool = False


_STRICT = ("-Wall", "-Wextra", "-Werror", "-O1", "-o", "example")
TOOLCHAINS = {
    "c": Toolchain(("gcc",), (("gcc", "-std=c11", *_STRICT, "example.c"),), "{folder}/example", True),
    "cpp": Toolchain(("g++",), (("g++", "-std=c++17", *_STRICT, "example.cpp"),), "{folder}/example", True),
    "go": Toolchain(("go",), (("go", "build", "-o", "example", "."),), "{folder}/example"),
    "rust": Toolchain(
        ("rustc",), (("rustc", "--edition", "2021", "-Dwarnings", "-o", "example", "example.rs"),),
        "{folder}/example",
    ),
    "java": Toolchain(
        ("javac", "java"), (("javac", "-Xlint:all", "-Werror", "StcShim.java", "Example.java"),),
        "java -cp {folder} Example",
    ),
    "csharp": Toolchain(
        ("mcs", "mono"), (("mcs", "-warnaserror", "-out:example.exe", "StcShim.cs", "Example.cs"),),
        "mono {folder}/example.exe",
    ),
    "zig": Toolchain(
        ("zig",), (("zig", "build-exe", "-O", "ReleaseSafe", "example.zig"),), "{folder}/example"
    ),
    "swift": Toolchain(
        ("swiftc",), (("swiftc", "-o", "example", "StcShim.swift", "main.swift"),), "{folder}/example"
    ),
}  # fmt: skip


def _arranged(language: str, folder: Path) -> None:
    """Prepare the sources for the compiler of a language."""
    shutil.copytree(SHIMS / language, folder, dirs_exist_ok=True)
    if language == "go":  # a module: the shim in a package of its own, the example at the top
        (folder / "stc").mkdir()
        (folder / "shim.go").rename(folder / "stc" / "shim.go")
        (folder / "example" / "main.go").rename(folder / "main.go")
        (folder / "example").rmdir()
        (folder / "go.mod").write_text("module example.org/shims\n\ngo 1.18\n", encoding="utf-8")


@pytest.fixture(scope="session")
def program_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The function that compiles the example of a language, once, and skips without its toolchain."""

    @cache
    def compiled(language: str) -> str:
        chain = TOOLCHAINS[language]
        if missing := [tool for tool in chain.tools if shutil.which(tool) is None]:
            pytest.skip(f"needs {missing[0]}, which is not installed")
        if (
            language == "rust"
            and subprocess.run(["rustc", "-V"], capture_output=True, check=False).returncode
        ):
            pytest.skip("rustc is rustup's, which has no toolchain here")
        folder = tmp_path_factory.mktemp(language)
        _arranged(language, folder)
        for command in chain.build:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return chain.run.format(folder=folder)

    return compiled


def converse(program: str, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send all requests at once, and return the answers, which follow the schema."""
    start = {"cmd": "start", "protocol": 1, "profile": None}
    numbered = [{"cmd": "run", "seq": 7 * at, **request} for at, request in enumerate(requests, 1)]
    lines = [json.dumps(request) for request in (start, *numbered, {"cmd": "stop"})]
    done = subprocess.run(
        program.split(), input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=60
    )
    first, *answers = map(json.loads, done.stdout.rstrip("\n").split("\n"))
    validate(first, "startAnswer")
    assert first["lacks"] == ["dtype-f4"]
    for request, answer in zip(numbered, answers, strict=True):
        validate(answer, "runAnswer")
        assert answer["seq"] == request["seq"]
    return answers


def file_of(folder: Path, name: str, header: bytes, data: bytes = b"") -> str:
    """Write a file and return its path."""
    folder.joinpath(name).write_bytes(len(header).to_bytes(8, "little") + header + data)
    return str(folder / name)


AT_NIGHT = ("zig", "swift")
"""A compiler that takes twenty seconds, and one that is in no package here."""
BY_DAY = [pytest.param(x, marks=pytest.mark.nightly) if x in AT_NIGHT else x for x in TOOLCHAINS]


def test_every_shim_is_tested() -> None:
    assert set(TOOLCHAINS) == {path.name for path in SHIMS.iterdir() if not path.name.startswith("_")}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("language", BY_DAY)
def test_the_example_speaks_the_protocol(language: str, program_of: Callable[[str], str]) -> None:
    checks = list(check_protocol(resolve(f"cmd:{program_of(language)}"), committed()))
    assert [c for c in checks if c.status == "fail"] == []
    assert len([c for c in checks if c.status == "pass"]) >= 15


@pytest.mark.parametrize("language", BY_DAY)
def test_digests_are_right_for_every_end_of_a_block(
    language: str, program_of: Callable[[str], str], tmp_path: Path
) -> None:
    sizes = (0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000)
    entries, data = [], b""
    for size in sizes:
        begin = len(data)
        data += bytes((size + at) % 251 for at in range(size))
        entries.append(f'"t{size}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{begin},{len(data)}]}}')
    path = file_of(tmp_path, "blocks", f"{{{','.join(entries)}}}".encode(), data)
    read, opened, counted = converse(
        program_of(language),
        [{"step": "read", "path": path}, {"step": "open", "path": path},
         {"step": "read", "path": path, "summary": True}],
    )  # fmt: skip
    want = {}
    for size in sizes:
        content = bytes((size + at) % 251 for at in range(size))
        want[f"t{size}"] = ("U8", [size], size, hashlib.sha256(content).hexdigest())
    got = {t["name"]: (t["dtype"], t["shape"], t["nbytes"], t["sha256"]) for t in read["tensors"]}
    assert got == want
    assert read["metadata"] is None
    assert {t["name"] for t in opened["tensors"]} == set(want)
    assert all("sha256" not in t and "nbytes" not in t for t in opened["tensors"])
    assert (counted["outcome"], counted["tensor_count"]) == ("accept", len(sizes))


@pytest.mark.parametrize("language", BY_DAY)
def test_texts_and_paths_come_through_whatever_they_hold(
    language: str, program_of: Callable[[str], str], tmp_path: Path
) -> None:
    name, key, value = "a\x7fü\u2028😀'{", "k/ß", "<v>&\u202e"
    header = (
        f'{{"{name.replace("{", "")}":{{"dtype":"F32","shape":[],"data_offsets":[0,4]}},'
        f'"__metadata__":{{"{key}":"{value}"}}}}'
    )
    folder = tmp_path / 'a "folder"\\ with\ttabs ü😀'
    folder.mkdir()
    path = file_of(folder, "f\n.safetensors", header.encode(), b"\0\0\x80\x3f")
    lost = str(folder / "lost\x01")
    read, missing, other = converse(
        program_of(language),
        [{"step": "read", "path": path}, {"step": "read", "path": lost}, {"step": "slice", "path": path}],
    )
    assert [t["name"] for t in read["tensors"]] == [name.replace("{", "")]
    assert read["metadata_items"] == [[key, value]]
    assert missing["outcome"] == "reject"
    assert other["outcome"] == "unsupported"


@pytest.mark.parametrize("language", [name for name, chain in TOOLCHAINS.items() if chain.bytes_in_names])
def test_names_that_are_no_utf8_are_told_in_hex(
    language: str, program_of: Callable[[str], str], tmp_path: Path
) -> None:
    broken = (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82")
    names = (*broken, b"ok\x01\\", b"\xf4\x8f\xbf\xbf")
    entries = [b'"%s":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % name for name in names]
    metadata = b'"__metadata__":{"\xfe":"\x80"}'
    path = file_of(tmp_path, "bytes", b"{" + b",".join([metadata, *entries]) + b"}")
    (answer,) = converse(program_of(language), [{"step": "open", "path": path}])
    told = [{"hex": name.hex()} for name in broken]
    assert [t["name"] for t in answer["tensors"]] == [*told, "ok\x01\\", "\U0010ffff"]
    assert answer["metadata_items"] == [[{"hex": "fe"}, {"hex": "80"}]]


def test_the_shims_are_files_of_their_own_and_short() -> None:
    for language in TOOLCHAINS:
        shim, example = sorted((SHIMS / language).rglob("*.*"), key=lambda p: "hi" not in p.name.lower())
        assert "shim" in shim.name.lower(), shim
        assert len(shim.read_text(encoding="utf-8").splitlines()) <= 360, shim
        assert len(example.read_text(encoding="utf-8").splitlines()) <= 100, example
