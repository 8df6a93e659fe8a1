"""What ``stc check`` and ``stc audit`` say about files of other kinds, damaged copies and files cut short."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import pickle
import random
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_reference.header.explain import InvalidFileError
from safetensors_reference.header.likeness import SAMPLE, likeness
from safetensors_reference.header.read import examine, read_header

from ..audit.support import rows_of, stc_audit
from ..support import ABCD, entry, make
from .support import INDEX, VALID, load_log, results, rows, run

HEADER = VALID[8 : -len(ABCD)]
NOISE = random.Random(1).randbytes(4096)


def noisy(padding: int = 0) -> bytes:
    """Return a valid file of 4,096 random bytes of data, with spaces after its header."""
    return make(f'{{"w":{entry("U8", "[4096]", "[0,4096]")}}}' + " " * padding, NOISE)


def with_first_byte(first: int) -> bytes:
    return next(data for n in range(256) if (data := noisy(n))[0] == first)


def zipped(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, data)
    return out.getvalue()


def in_text_mode(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def as_utf8(data: bytes) -> bytes:
    return data.decode("latin-1").encode()


NPY = b"\x93NUMPY\1\0v\0{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n" + bytes(24)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 440449768\n"
LFS_TEXT = "a Git LFS pointer to 440,449,768 bytes: run `git lfs pull`"
HTML = b'<!DOCTYPE html>\n<html lang="en"><head><title>404 ::\x1b[31m</title></head></html>'
PICKLE = "a Python pickle, such as a PyTorch checkpoint: loading it can run code"
CRLF = "a copy made in text mode, which turned each byte 0A into 0D 0A: copy the file again in binary mode"
UTF8 = "a copy converted to UTF-8 as if it were text: copy the file again in binary mode"
FILES = {
    "lfs": (LFS, LFS_TEXT),
    "lfs crlf": (in_text_mode(LFS), LFS_TEXT),
    "xet": (
        b"# xet version 0\nfilesize = 1234\nhash = 'ab'\n",
        "a Xet pointer to 1,234 bytes: download the file itself",
    ),
    "html": (HTML, 'an HTML page: "404 \\u003a:\\u001b[31m"'),
    "html 2": (b"\n<HTML>\n<body>no</body></HTML>", "an HTML page"),
    "json error": (b'{"error":"No such model"}', 'a JSON error message: "No such model"'),
    "json": (b'{"a": 1}', "a JSON document"),
    "an index": (b'{"metadata":{},"weight_map":{}}', "the index of a sharded model instead of a model file"),
    "xml": (b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>', 'an XML document: "NoSuchKey"'),
    "http": (b"HTTP/1.1 404 Not Found\r\nServer: x\r\n\r\n", 'an HTTP response: "HTTP/1.1 404 Not Found"'),
    "text": (b"Entry not found", 'a text file that says "Entry not found"'),
    "torch zip": (
        zipped("archive/data.pkl", pickle.dumps({})),
        "a zip file that torch.save wrote, which contains a pickle: loading it can run code",
    ),
    "pickle zero": (pickle.dumps({"w": [1]}, 0), PICKLE),
    "pickle one": (pickle.dumps({"w": [1]}, 1), PICKLE),
    "pickle object": (pickle.dumps(OrderedDict(w=1), 0), PICKLE),
    "pickle 2": (pickle.dumps({"w": [1]}, 2), PICKLE),
    "pickle 5": (pickle.dumps({"w": [1]}, 5), PICKLE),
    "zip": (zipped("m.safetensors", VALID), "a zip archive: unpack it first"),
    "npz": (zipped("w.npy", NPY), "a NumPy .npz archive"),
    "npy": (NPY, "a NumPy .npy file"),
    "gguf": (b"GGUF\3\0\0\0" + bytes(40), "a GGUF file"),
    "ggml": (b"tjgg\3\0\0\0" + bytes(40), "a GGML file, the predecessor of GGUF"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file"),
    "parquet": (b"PAR1\x15\x04\x15\x10" + bytes(40), "a Parquet file"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
    "utf-16": ("[info] done\r\n".encode("utf-16"), "text in UTF-16"),
    "utf-16 big": (b"\xfe\xff" + "<html>".encode("utf-16-be"), "text in UTF-16"),
    "onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\xff", "an ONNX model"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
    "elf": (b"\x7fELF\2\1\1" + bytes(40), "an ELF program or library"),
    "tar": (b"m".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0"), "a tar archive: unpack it first"),
    "gzip": (gzip.compress(VALID, mtime=0), "a gzip file: decompress it first"),
    "bzip2": (bz2.compress(VALID), "a bzip2 file: decompress it first"),
    "xz": (lzma.compress(VALID), "an xz file: decompress it first"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04" + VALID, "a Zstandard file: decompress it first"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(40), "a 7z archive: unpack it first"),
    "base64": (base64.encodebytes(VALID), "a safetensors file in base64: decode it first"),
    "zeros": (bytes(1000), "a file of 1,000 zero bytes"),
    "zeros first": (
        bytes(5000) + NOISE,
        "a file that was never completely written: it begins with 5,000 zero bytes",
    ),
    "empty": (b"", "this file is empty"),
    "big-endian": (VALID[7::-1] + VALID[8:], "a safetensors file with a big-endian header length"),
    "4 bytes": (VALID[:4] + VALID[8:], "a safetensors file with a header length of 4 bytes instead of 8"),
    "no length": (VALID[8:], "a safetensors file without the 8 bytes of its header length"),
    "mark": (b"\xef\xbb\xbf" + VALID, "a safetensors file that begins with a byte-order mark"),
    "crlf data": (in_text_mode(noisy()), CRLF),
    "crlf length": (in_text_mode(with_first_byte(0x0A)), CRLF),
    "utf-8 data": (as_utf8(noisy()), UTF8),
    "utf-8 length": (as_utf8(with_first_byte(0x90)), UTF8),
    "utf-8 replaced": (with_first_byte(0x90).decode(errors="replace").encode(), UTF8),
    "cut": (noisy()[:-1024], f"cut short: 1,024 of {len(noisy()):,} bytes are missing (25 %)"),
    "cut by 1": (noisy()[:-1], f"cut short: 1 of {len(noisy()):,} bytes is missing (less than 1 %)"),
    "cut header": (
        VALID[:18],
        f"cut short: {len(HEADER) - 10} of {len(HEADER)} bytes of the header are missing (81 %)",
    ),
    # These resemble nothing, so a hint would be a guess.
    "noise": (NOISE, None),
    "too long": (noisy() + NOISE, None),
    "short": (VALID[:5], None),
    "no header": (bytes(8) + NOISE, None),
    "huge length": (make(HEADER, ABCD, length=1 << 32), None),
    "long length": (make(HEADER, ABCD, length=len(HEADER) + 100), None),
    "long length brace": (make('{"__metadata__":{"a":"{"}}', ABCD, length=1000), None),
    "long length big": (make("{" + " " * SAMPLE + "}", NOISE, length=1 << 16), None),
    "text after data": (noisy().replace(NOISE, bytes(4096) + "no damage: \u6743\u91cd".encode() * 9), None),
    "lines after data": (noisy().replace(NOISE, b"\r\n" * 2048 + b"x"), None),
    "text and no json": (make('{"w":}', "\u00e9".encode() * 20), None),
    "lines and no json": (make('{"w":}', b"a\r\n" * 20), None),
    "crlf header": (in_text_mode(make('{\n"w":}', b"a\n" * 20)), CRLF),
}


def whole(text: str | None) -> str | None:
    """Return the whole text about a file; what is said of damage has no beginning of its own."""
    alone = text is None or text.startswith(("cut short: ", "this file "))
    return text if alone else f"this looks like {text}"


TEXTS = {name: whole(text) for name, (_, text) in FILES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("likeness")
    for name, (data, _) in FILES.items():
        (out / f"{name}.safetensors").write_bytes(data)
    return out


def test_each_kind_is_named_on_the_first_line_of_the_file(folder: Path) -> None:
    for option in ("--all", "--quiet"):
        titles = [line for line in run(option, folder).stdout.splitlines() if line.startswith(f"{folder}/")]
        assert len(titles) == len(FILES)
        for title in titles:
            name = title.removeprefix(f"{folder}/").partition(".")[0]
            assert title.partition("; ")[2] == (TEXTS[name] or ""), name


def test_a_long_header_that_is_cut_short_is_recognised_by_its_end(tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(make("{" + " " * SAMPLE, b"", length=2 * SAMPLE))
    text = f"cut short: {SAMPLE - 1:,} of {2 * SAMPLE:,} bytes of the header are missing (50 %)"
    assert run("--quiet", path).stdout == f"{path}: 1 fault: FRM_HEADER_PAST_EOF; {text}\n"


def test_json_sarif_and_rows_name_it_too(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.sarif"
    found = {
        Path(row["file"]).stem: row["looks_like"] or {} for row in rows(run("--json", "--sarif", log, folder))
    }
    kinds = {name: like.get("kind") for name, like in found.items()}
    assert {name: like.get("text") for name, like in found.items()} == TEXTS
    named = {"lfs": "git-lfs", "torch zip": "torch-zip", "cut": "cut-short", "noise": None}
    assert named.items() <= kinds.items()
    assert {Path(row.address).stem: row.looks_like or None for row in rows_of([folder])} == kinds
    messages = "\n".join(result["message"]["text"] for result in results(load_log(log)))
    assert all(text is None or text in messages for text in TEXTS.values())
    with pytest.raises(InvalidFileError, match="; this looks like a Git LFS pointer to 440,449,768 bytes"):
        read_header(LFS)


@pytest.mark.parametrize(
    ("data", "text"),
    [(LFS, TEXTS["lfs"]), (HTML, TEXTS["html"]), (b"", TEXTS["empty"]), (b"[{}, x]", None)],
)
def test_a_file_in_place_of_an_index_is_named(tmp_path: Path, data: bytes, text: str | None) -> None:
    path = tmp_path / INDEX
    path.write_bytes(data)
    title = run(path).stdout.splitlines()[0]
    assert title.partition("; ")[2] == (text or "")
    row = json.loads(stc_audit(path).stdout)
    assert bool(row.get("looks_like")) == (text is not None)


def test_an_index_names_what_a_shard_looks_like(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(LFS)
    (tmp_path / INDEX).write_bytes(b'{"metadata":{},"weight_map":{"w":"a.safetensors"}}')
    assert f"this looks like {LFS_TEXT}" in run(tmp_path / INDEX).stdout


def test_tensors_behind_the_end_are_one_fault_with_a_count(tmp_path: Path) -> None:
    entries = ",".join(f'"t{n}":{entry("U8", "[1]", f"[{n},{n + 1}]")}' for n in range(300))
    path = tmp_path / "cut.safetensors"
    for held, more in ((298, "1 more tensor that extends"), (107, "192 more tensors that extend")):
        path.write_bytes(make("{" + entries + "}", bytes(held)))
        out = run(path).stdout
        assert out.count("OFF_OUT_OF_BOUNDS") == 1
        assert f"  … and {more} past the end of the file; --all prints them" in out
    assert run("--all", path).stdout.count("OFF_OUT_OF_BOUNDS") == 193
    (row,) = rows(run("--json", path))
    assert [fault["code"] for fault in row["faults"]] == ["OFF_OUT_OF_BOUNDS"] * 193


HEADS = [data[:12] for data, _ in FILES.values()]


@given(st.sampled_from(HEADS), st.binary(max_size=200), st.integers(0, 1 << 62))
@example(b"", b"<html" + b"<title" * (SAMPLE // 6), 0)
@example(b'{"', b'"error' * (SAMPLE // 6), 0)
@example(b"version https://git-lfs.github.com/spec/v1\n", b"size 1" * (SAMPLE // 6), 0)
def test_any_bytes_get_at_most_one_harmless_line(head: bytes, rest: bytes, more: int) -> None:
    data = (head + rest)[:SAMPLE]
    found = likeness(data, len(data) + (more if len(data) == SAMPLE else 0))
    assert found is None or (found.text.isprintable() and len(found.text) < 300)
    seen = examine(data)
    assert seen.looks_like is None or not seen.valid
