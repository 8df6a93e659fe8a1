"""What is demanded of a written file beyond its content, and of the folder that it stands in."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors_reference import explain
from safetensors_reference.dtypes import DTYPE_BITS

from . import recipe
from .write_builder import covered

MODE = 0o640
"""Permissions of the file that stands at the target before."""
FOREIGN = 8
"""Shortest run of foreign bytes that is looked for; shorter ones come up by chance."""

Save = Callable[[Any, Mapping[str, Any], Path], None]


@dataclass(frozen=True)
class _Written:
    """What a writer did: ``before`` holds the files of the folder and their bytes from before."""

    outcome: str
    implementation: Any
    action: Mapping[str, Any]
    target: Path
    before: Mapping[str, bytes]
    save: Save

    @property
    def data(self) -> bytes:
        return self.target.read_bytes()


def lacking(
    wanted: Sequence[str],
    outcome: str,
    implementation: Any,
    action: Mapping[str, Any],
    target: Path,
    before: Mapping[str, bytes],
    save: Save,
) -> tuple[str, ...]:
    """Return the properties of ``wanted`` that do not hold after a save to ``target``.

    Raises NotImplementedError for one that this implementation cannot be asked about.
    """
    written = _Written(outcome, implementation, action, target, before, save)
    # Those that save again come last, so that the others see what the case is about.
    order = sorted(wanted, key=lambda name: name in ("deterministic", "idempotent"))
    return tuple(name for name in order if not _holds(name, written))


def _holds(name: str, written: _Written) -> bool:
    if name in _OF_FOLDER:
        return _OF_FOLDER[name](written)
    if written.outcome != "accept":
        return True  # the other properties are those of a file
    try:
        return _OF_FILE[name](written)
    except OSError:
        return False  # there is no file


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, name -> bytes."""
    if not folder.exists():
        return {}
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}


def _target_unchanged(written: _Written) -> bool:
    """After a refusal: what stood at the target stands there, and nothing where nothing was."""
    if written.outcome == "accept":
        return True
    now = snapshot(written.target.parent)
    names = {written.target.name, *written.before}
    return all(now.get(name) == written.before.get(name) for name in names)


def _one_file(written: _Written) -> bool:
    """Nothing was left beside the target, and after a refusal nothing at all."""
    folder = written.target.parent
    left = {p.name for p in folder.iterdir()} if folder.exists() else set()
    allowed = {*written.before, written.target.name} if written.outcome == "accept" else {*written.before}
    return left <= allowed


def _no_foreign_bytes(written: _Written) -> bool:
    """No file holds bytes of the given memory that belong to no tensor."""
    windows = foreign_windows(written.action)
    new = {n: d for n, d in snapshot(written.target.parent).items() if d != written.before.get(n)}
    return not any(window in data for data in new.values() for window in windows)


def foreign_windows(action: Mapping[str, Any]) -> set[bytes]:
    """Return each run of ``FOREIGN`` bytes in the memory of a write action that no tensor has a part of."""
    out: set[bytes] = set()
    for name, parts in action["storages"].items():
        memory = recipe.expand(parts)
        inside = bytearray(len(memory))
        for tensor in action["tensors"]:
            if tensor["storage"] == name:
                for place in covered(tensor, len(memory)):
                    inside[place] = 1
        for run in re.finditer(rb"\0{%d,}" % FOREIGN, bytes(inside)):
            out.update(memory[i : i + FOREIGN] for i in range(run.start(), run.end() - FOREIGN + 1))
    return out


def _deterministic(written: _Written) -> bool:
    """Write the same several times: a map in random order can come out alike once."""
    data = written.data
    for count in range(8):
        again = written.target.with_name(f"again-{count}.safetensors")
        written.save(written.implementation, written.action, again)
        if again.read_bytes() != data:
            return False
    return True


def _idempotent(written: _Written) -> bool:
    """Loading the file and saving it again gives the same bytes."""
    resave = getattr(written.implementation, "resave", None)
    if resave is None:
        raise NotImplementedError("has no resave")
    data = written.data
    try:
        resave(written.target)
    except (NotImplementedError, MemoryError):
        raise
    except Exception:
        return False
    return written.data == data


def _keeps_mode(written: _Written) -> bool:
    """An old file's permissions stay; a new one has what the umask leaves of 0666."""
    expected = MODE if written.before else 0o666 & ~_umask()
    return stat.S_IMODE(written.target.stat().st_mode) == expected


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _header_text(data: bytes) -> bytes:
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


def _padded(written: _Written) -> bool:
    return len(_header_text(written.data)) % 8 == 0


def _aligned(written: _Written) -> bool:
    """Every tensor that has elements stands at a multiple of their width."""
    header = explain(written.data, "text").header
    if header is None:
        return False
    return all(
        (header.data_start + t.begin) % max(DTYPE_BITS[t.dtype] // 8, 1) == 0
        for t in header.tensors.values()
        if t.nbytes
    )


def _compact(written: _Written) -> bool:
    """No blanks between tokens, and nothing escaped that need not be."""
    text = _header_text(written.data).decode("utf-8", "replace").rstrip(" ")
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return _one_spelling(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) == _one_spelling(text)


def _one_spelling(text: str) -> str:
    """Spell escaped control characters one way: JSON has two, and may but need not escape DEL."""
    short = {"b": "0008", "t": "0009", "n": "000a", "f": "000c", "r": "000d"}

    def spelled(found: re.Match[str]) -> str:
        code = short.get(found[1], found[1][1:].lower())
        return (
            "\x7f" if code == "007f" else f"\\u{code}" if len(found[1]) > 1 or found[1] in short else found[0]
        )

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", spelled, text)


MEANINGS: Mapping[str, str] = {
    "header-padded": "the header is padded to eight bytes",
    "aligned": "every tensor begins at a multiple of its element size",
    "compact-json": "the header has no spaces between its tokens",
    "deterministic": "the same input gives the same bytes",
    "idempotent": "saving again what was read changes nothing",
    "keeps-link": "a symbolic link stays one",
    "keeps-mode": "the file has the usual permissions",
    "no-foreign-bytes": "the file holds no bytes but those given",
    "one-file": "nothing else is left in the folder",
    "target-unchanged": "the file that was there is unchanged",
}
"""Property that a case demands of a written file or of its folder -> what it says."""

_OF_FILE: Mapping[str, Callable[[_Written], bool]] = {
    "header-padded": _padded,
    "aligned": _aligned,
    "compact-json": _compact,
    "deterministic": _deterministic,
    "idempotent": _idempotent,
    "keeps-link": lambda written: written.target.is_symlink(),
    "keeps-mode": _keeps_mode,
}
_OF_FOLDER: Mapping[str, Callable[[_Written], bool]] = {
    "no-foreign-bytes": _no_foreign_bytes,
    "one-file": _one_file,
    "target-unchanged": _target_unchanged,
}
