"""Recognizes invalid files as files of another kind, damaged copies or truncated files.

The result is a hint that helps to explain faults. A hint never changes a verdict, a code or a rule, and a
valid file never gets a hint.
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterable

from ..rules.book import HEADER_CAP
from ..rules.faults import Fault, Likeness
from ..source import Source, UnreadableError
from ..text import quote, visible
from .model import Range

SAMPLE = 32 << 10
"""Number of bytes that are examined at the start of a file. Every source has already read them."""
CUT_SHORT = "cut-short"
_MAX_TEXT = 4096
_MIN_ZEROS = 16
_MIN_NEWLINES = 4
_MIN_WIDE = 8
_TAIL = 64
_BOM = b"\xef\xbb\xbf"
_PICKLE = "loading it can run code"
_LATER = "decompress it first"


_TEXT = rb"(?:\xef\xbb\xbf)?[ \t\r\n]*"
_FORMS = (
    (
        "git-lfs",
        _TEXT + rb"version https://git-lfs\.github\.com/spec/v1\s.*?\bsize (?P<size>\d{1,20})\b",
        "a Git LFS pointer to {size:,} bytes: run `git lfs pull`",
    ),
    (
        "xet",
        _TEXT + rb"# xet version.*?\bfilesize = (?P<size>\d{1,20})\b",
        "a Xet pointer to {size:,} bytes: download the file itself",
    ),
    (
        "html",
        _TEXT + rb"(?i:<!doctype html|<html|<head|<body)(?:.*?<title[^>]{0,100}>(?P<words>[^<]{0,200}))?",
        "an HTML page{words}",
    ),
    (
        "xml",
        _TEXT + rb"<(?:\?xml|Error\b)(?:.*?<(?:Code|Message)>(?P<words>[^<]{0,200}))?",
        "an XML document{words}",
    ),
    ("http", rb"(?P<words>HTTP/\d[.\d]{0,3} \d{3}[^\r\n]{0,200})\r?\n", "an HTTP response{words}"),
    (
        "no-length",
        _TEXT + rb'\{(?=.*?"data_offsets")',
        "a safetensors file without the 8 bytes of its header length",
    ),
    ("index", _TEXT + rb'\{(?=.*?"weight_map")', "the index of a sharded model instead of a model file"),
    (
        "json-error",
        _TEXT + rb'[{\[].*?"(?:error|message|detail)"[ \t\r\n]{0,9}:[ \t\r\n]{0,9}"(?P<words>[^"]{0,200})',
        "a JSON error message{words}",
    ),
    ("json", _TEXT + rb'\{[ \t\r\n]*["}]', "a JSON document"),
    (
        "torch-zip",
        rb"PK\x03\x04.{26}[^/\0]{1,200}/(?:data\.pkl|version|byteorder|\.format_version)",
        f"a zip file that torch.save wrote, which contains a pickle: {_PICKLE}",
    ),
    ("npz", rb"PK\x03\x04.{26}[^/\0]{1,200}\.npy", "a NumPy .npz archive"),
    ("zip", rb"PK(?:\x03\x04|\x05\x06)", "a zip archive: unpack it first"),
    (
        "pickle",
        rb"\x80[\x02-\x05][]\x95\x8a}(c)XKJMGq\x8c\x89\x88N]",
        f"a Python pickle, such as a PyTorch checkpoint: {_PICKLE}",
    ),
    (
        "pickle",  # the protocols 0 and 1 have no mark of their own
        rb"\((?:dp|lp)\d+\n|c(?:collections|copy_?reg|_codecs|numpy[\w.]*|torch[\w.]*)\n\w+\n|[]}]q\0[(X]",
        f"a Python pickle, such as a PyTorch checkpoint: {_PICKLE}",
    ),
    ("gguf", rb"GGUF|FUGG", "a GGUF file"),
    ("ggml", rb"lmgg|tjgg|fmgg|algg", "a GGML file, the predecessor of GGUF"),
    ("npy", rb"\x93NUMPY", "a NumPy .npy file"),
    ("hdf5", rb"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    ("onnx", rb"\x08[\x01-\x14]\x12[\x02-\x40][ -~]{2,64}[\x1a\x22\x3a\x42]", "an ONNX model"),
    ("parquet", rb"PAR1[\x15\x1c]", "a Parquet file"),
    ("pdf", rb"%PDF-\d\.\d", "a PDF document"),
    ("utf-16", rb"\xff\xfe(?:[\t\r\n -~]\0){4}|\xfe\xff(?:\0[\t\r\n -~]){4}", "text in UTF-16"),
    ("png", rb"\x89PNG\r\n\x1a\n", "a PNG image"),
    ("elf", rb"\x7fELF", "an ELF program or library"),
    ("gzip", rb"\x1f\x8b\x08", f"a gzip file: {_LATER}"),
    ("bzip2", rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", f"a bzip2 file: {_LATER}"),
    ("xz", rb"\xfd7zXZ\0", f"an xz file: {_LATER}"),
    ("zstd", rb"\x28\xb5\x2f\xfd", f"a Zstandard file: {_LATER}"),
    ("7z", rb"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    ("tar", rb".{257}ustar", "a tar archive: unpack it first"),
)
"""Name, pattern of the first bytes and description of each kind of file."""


def likeness(head: bytes, size: int, extra: int | None = None) -> Likeness | None:
    """Return the kind of file that an invalid file looks like, or None if it is not recognized.

    ``extra`` is the number of bytes after the data, or None if the header does not tell where the data ends.
    """
    if not size:
        return Likeness("empty", "this file is empty")
    if _has_header(head):
        found = _damaged_data(head, size, extra)
    else:
        found = _damaged_length(head, size) or _zeros(head, size) or _form(head) or _plain_text(head, size)
    return None if found is None else Likeness(found[0], visible(f"this looks like {found[1]}"))


def find_likeness(
    source: Source, faults: Iterable[Fault], ranges: Iterable[Range], data_start: int | None
) -> Likeness | None:
    """Return the kind of file that a file with ``faults`` looks like, or how much of the file is missing."""
    head = source.read(0, min(SAMPLE, source.size))
    codes = {fault.code for fault in faults}
    end = None if data_start is None else data_start + max((item.end for item in ranges), default=0)
    needed = missing = 0
    what = ""
    if codes == {"OFF_OUT_OF_BOUNDS"} and end is not None:
        needed = end
        missing = needed - source.size
    elif codes == {"FRM_HEADER_PAST_EOF"} and _has_header(head) and _ends_in_header(source, head):
        needed = int.from_bytes(head[:8], "little")
        missing = needed + 8 - source.size
        what = " of the header"
    if missing > 0:
        share = f"{100 * missing / needed:.0f}" if missing * 100 >= needed else "less than 1"
        are = "is" if missing == 1 else "are"
        text = f"cut short: {missing:,} of {needed:,} bytes{what} {are} missing ({share} %)"
        return Likeness(CUT_SHORT, text)
    if end is not None and "OFF_TRAILING" not in codes:
        return None  # damage in text mode only ever makes a file longer
    return likeness(head, source.size, None if end is None else source.size - end)


def _has_header(head: bytes) -> bool:
    return 2 <= int.from_bytes(head[:8], "little") <= HEADER_CAP and head[8:9] == b"{"


def _ends_in_header(source: Source, head: bytes) -> bool:
    """Return whether a file ends within its header. If not, the header length is wrong."""
    depth = 0
    for found in re.finditer(rb'"(?:[^"\\]|\\.)*"?|[{}]', head[8:], re.DOTALL):
        depth += {b"{": 1, b"}": -1}.get(found[0], 0)
        if not depth:
            return False
    if source.size == len(head):
        return True
    try:
        tail = source.read(source.size - _TAIL, _TAIL)
    except UnreadableError:  # an audit does not read the end of a file
        return False
    return tail.isascii() and tail.decode().isprintable()  # unlike data


def _is_object(text: bytes, length: int, size: int) -> bool:
    """Return whether ``text``, with ``size`` bytes up to the end of the file, may begin with a header."""
    ends = text[length - 1 : length] in (b"}", b" ", b"")  # empty if it is not among the first bytes
    return 2 <= length <= min(HEADER_CAP, size) and text[:1] == b"{" and ends


def _damaged_data(head: bytes, size: int, extra: int | None) -> tuple[str, str] | None:
    end = 8 + int.from_bytes(head[:8], "little")
    header, data = head[8:end], head[end:]

    def explains(growth: int) -> bool:
        """Return whether a conversion that added ``growth`` bytes can explain the extra bytes."""
        return extra is None or (growth == extra if len(head) == size else growth <= extra)

    lines = data.count(b"\n")
    # If the header is damaged as well, the cause is the same.
    in_header = extra is not None or 0 < header.count(b"\n") == header.count(b"\r\n")
    if in_header and lines >= _MIN_NEWLINES and data.count(b"\r\n") == lines and explains(lines):
        return _CRLF
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data)  # the last character may be cut off
    except UnicodeDecodeError:
        return None
    # A replacement character stands for bytes that were lost.
    if "\ufffd" not in text and not explains(len(data) - len(text)):
        return None
    if extra is None and header.isascii():
        return None
    return _UTF8 if sum(char > "\x7f" for char in text) >= _MIN_WIDE else None


_CRLF = (
    "crlf",
    "a copy made in text mode, which turned each byte 0A into 0D 0A: copy the file again in binary mode",
)
_UTF8 = "utf-8", "a copy converted to UTF-8 as if it were text: copy the file again in binary mode"


def _damaged_length(head: bytes, size: int) -> tuple[str, str] | None:
    text = head[:64].decode("utf-8", "ignore")
    if head.startswith(_BOM) and _has_header(head[3:]):
        return "bom", "a safetensors file that begins with a byte-order mark"
    if _has_header(head[:64].replace(b"\r\n", b"\n")):
        return _CRLF
    if text[4:9] == "\0\0\0\0{" and not text[:4].isascii():
        return _UTF8
    if _is_object(head[8:], int.from_bytes(head[:8], "big"), size - 8):
        return "big-endian", "a safetensors file with a big-endian header length"
    if _is_object(head[4:], int.from_bytes(head[:4], "little"), size - 4):
        return "short-length", "a safetensors file with a header length of 4 bytes instead of 8"
    coded = re.match(rb"[A-Za-z0-9+/]{12}", head)
    if coded is not None and _has_header(binascii.a2b_base64(coded[0])):
        return "base64", "a safetensors file in base64: decode it first"
    return None


def _zeros(head: bytes, size: int) -> tuple[str, str] | None:
    zeros = len(head) - len(head.lstrip(b"\0"))
    if zeros == size:
        return "zeros", f"a file of {size:,} zero bytes"
    if zeros < _MIN_ZEROS:
        return None
    least = "at least " if zeros == len(head) else ""
    return "zeros", f"a file that was never completely written: it begins with {least}{zeros:,} zero bytes"


def _form(head: bytes) -> tuple[str, str] | None:
    for kind, pattern, text in _FORMS:
        found = re.compile(pattern, re.DOTALL).match(head)  # compiled late, because few files need it
        if found is not None:
            groups = {"size": b"0", "words": b"", **found.groupdict(b"")}
            words = groups["words"].decode("utf-8", "replace").strip()
            return kind, text.format(size=int(groups["size"]), words=words and f": {quote(words, 60)}")
    return None


def _plain_text(head: bytes, size: int) -> tuple[str, str] | None:
    if not 8 <= size <= _MAX_TEXT:
        return None
    try:
        text = head.removeprefix(_BOM).decode("utf-8").strip()
    except UnicodeDecodeError:
        return None
    line, *others = text.splitlines() or [""]
    # Messages begin with a word; an index with a syntax error begins with a bracket or a quote.
    if not line[:1].isalnum() or not all(map(str.isprintable, (line.replace("\t", " "), *others))):
        return None
    return "text", f"a text file that {'begins with' if others else 'says'} {quote(line.strip(), 60)}"
