"""Put the input of a *placed* case under another path, behind links or next to decoys.

The bytes of the input do not change, so neither does the expected answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".safetensors"
LONG_PATH = 1000
"""Minimum length in bytes of a long path. macOS limits paths to 1,024 bytes."""


def into_cache(path: Path) -> Path:
    """Replace all files of a folder with links into a folder of files that are named after their content."""
    blobs = path.parent.parent / "blobs"
    blobs.mkdir()
    for file in [entry for entry in path.parent.iterdir() if entry.is_file()]:
        blob = file.rename(blobs / hashlib.sha256(file.read_bytes()).hexdigest())
        file.symlink_to(Path("..", "blobs", blob.name))
    return path


def linked_folder(path: Path) -> Path:
    link = path.parent.with_name("link")
    link.symlink_to(path.parent.name, target_is_directory=True)
    return link / path.name


def twice_linked(path: Path) -> Path:
    """Replace all files of a folder with absolute links to links."""
    for file in [entry for entry in path.parent.iterdir() if entry.is_file()]:
        target = file.rename(file.with_name(f"{file.name}.1"))
        middle = file.with_name(f"{file.name}.2")
        middle.symlink_to(target.name)
        file.symlink_to(middle)
    return path


def through_its_parent(path: Path) -> Path:
    return path.parent / ".." / path.parent.name / path.name


def through_the_parent_of_a_link(path: Path) -> Path:
    """Return a path that leads to the file only if the link is followed before its parent is taken."""
    (path.parent.parent / "disk" / "cache").mkdir(parents=True)
    folder = path.parent.rename(path.parent.parent / "disk" / path.parent.name)
    link = folder.parent.parent / "link"
    link.symlink_to(Path("disk", "cache"), target_is_directory=True)
    return link / ".." / folder.name / path.name


def files_read_only(path: Path) -> Path:
    for file in path.parent.iterdir():
        file.chmod(0o444)
    return path


def folder_read_only(path: Path) -> Path:
    path.parent.chmod(0o555)
    return path


def long_path(path: Path) -> Path:
    folder = path.parent
    while len(bytes(folder / "x" / path.name)) < LONG_PATH:
        folder /= "long" * 20
    folder.mkdir(parents=True)
    for file in [entry for entry in path.parent.iterdir() if entry.is_file()]:
        file.rename(folder / file.name)
    return folder / path.name


def decoys_in(*places: str, own: str = "", files: str = "*") -> Callable[[Path], Path]:
    """Return a function that copies the index and the shards to other folders, with other tensor bytes.

    ``own`` is a new name for the folder itself, ``places`` are paths relative to it, and ``files`` is a
    pattern of the files to copy.
    """

    def arrange(path: Path) -> Path:
        if own:
            path = path.parent.rename(path.parent.with_name(own)) / path.name
        copied = [entry for entry in path.parent.glob(files) if entry.is_file()]
        for place in places:
            folder = path.parent / place
            folder.mkdir(parents=True, exist_ok=True)
            for file in copied:
                data = file.read_bytes()
                start = 8 + int.from_bytes(data[:8], "little") if file.suffix == SUFFIX else len(data)
                (folder / file.name).write_bytes(data[:start] + bytes(byte ^ 0xFF for byte in data[start:]))
        return path

    return arrange


class Place(NamedTuple):
    """A place for a file or a model.

    ``folder`` is a path below the folder of the case. ``name`` renames a single file. ``arrange`` receives
    the path to open, changes the surroundings, and returns the new path to open.
    """

    meaning: str
    folder: str = "folder"
    name: str = ""
    arrange: Callable[[Path], Path] | None = None


PLACES = {
    "no-suffix": Place("the file has no suffix", name="file"),
    "suffix-bin": Place("the file has the suffix .bin", name="file.bin"),
    "suffix-pt": Place("the file has a suffix that PyTorch uses for pickle files, .pt", name="file.pt"),
    "suffix-json": Place("the file has the suffix .json", name="file.json"),
    "suffix-upper-case": Place("the file has the suffix .SAFETENSORS", name="FILE.SAFETENSORS"),
    "suffix-only": Place("the name of the file is only the suffix", name=SUFFIX),
    "longest-name": Place("the name of the file has 255 bytes", name=f"{'n' * 243}{SUFFIX}"),
    "longest-folder": Place("the name of the folder has 255 bytes", "n" * 255),
    "cyrillic": Place("the folder and the file have Cyrillic names", "модель", f"веса{SUFFIX}"),
    "latin-1": Place("the folder and the file have names with accents", "modèle", f"poids à lire{SUFFIX}"),
    "emoji": Place("the folder and the file have names beyond the basic plane", "🤗", f"𝕨🙂{SUFFIX}"),
    "cjk": Place("the folder and the file have Chinese names", "模型", f"权重{SUFFIX}"),
    "rare-kanji": Place(
        "the folder and the file have names with Japanese characters beyond the basic plane",
        "𠮷野",
        f"𩸽の重み{SUFFIX}",
    ),
    "blanks": Place(
        "the folder and the file have names with blanks", "my models/a b ", f" the file {SUFFIX}"
    ),
    "url-characters": Place(
        "the names contain characters with a meaning in URLs", "a%20b#c", f"%41?x=1&y{SUFFIX}"
    ),
    "glob-characters": Place("the names contain wildcards", "[ab]", f"*{{a,b}}?[0-9]{SUFFIX}"),
    "downloaded-twice": Place(
        "the names contain brackets, as browsers and people add them", "[fp16] model", f"file[1]{SUFFIX}"
    ),
    "shell-characters": Place(
        "the names contain characters with a meaning in a shell", "$HOME", f"'\"`;&|~{SUFFIX}"
    ),
    "unexpanded-variable": Place(
        "the folder is named like a variable that a program did not expand", "${HOME}"
    ),
    "carriage-return": Place(
        "the name of the folder ends with a carriage return, as from a script with Windows line ends",
        "model\r",
    ),
    "line-feed": Place("the names contain a line feed", "two\nlines", f"two\nlines{SUFFIX}"),
    "backslash": Place("the names contain backslashes", "a\\b", f"\\n\\file{SUFFIX}"),
    "from-a-windows-archive": Place(
        "the name of the file contains a backslash, as from an archive made on Windows",
        name=f"models\\file{SUFFIX}",
    ),
    "snapshot": Place(
        "the folder is below a hidden one, as in a cache of the Hub",
        ".cache/huggingface/hub/models--org--name/snapshots/1f3b",
    ),
    "dots": Place("the names contain dots, and the folder is hidden", ".cache/v1.0..2", f"a.b..c{SUFFIX}"),
    "long-path": Place(f"the path has at least {LONG_PATH:,} bytes", arrange=long_path),
    "not-normalized": Place("the path leads through the parent of the folder", arrange=through_its_parent),
    "parent-of-link": Place(
        "the path leads through the parent of a folder that is reached through a link",
        arrange=through_the_parent_of_a_link,
    ),
    "read-only": Place(
        "the folder and its files cannot be written to",
        arrange=lambda path: folder_read_only(files_read_only(path)),
    ),
    "read-only-file": Place("the files cannot be written to", arrange=files_read_only),
    "read-only-folder": Place("the folder cannot be written to", arrange=folder_read_only),
    "linked-folder": Place("the folder is a symbolic link", arrange=linked_folder),
    "cache": Place(
        "each file is a relative link to a file that is named after its digest", arrange=into_cache
    ),
    "linked-twice": Place("each file is an absolute link to a link", arrange=twice_linked),
    "subfolder": Place(
        "a subfolder contains an index and shards of the same names with other bytes",
        arrange=decoys_in("original"),
    ),
    "early-subfolder": Place(
        "a subfolder that sorts before the shards contains the same names with other bytes",
        arrange=decoys_in("0"),
    ),
    "checkpoints-below": Place(
        "subfolders contain checkpoints with the same names and other bytes, as after training",
        arrange=decoys_in("checkpoint-1000", "checkpoint-500"),
    ),
    "checkpoints-beside": Place(
        "the folder is a checkpoint beside others, and their parent contains the last one, as after training",
        arrange=decoys_in("..", "../checkpoint-1000", own="checkpoint-500"),
    ),
    "deep-subfolder": Place(
        "a folder two levels below contains the same names with other bytes",
        arrange=decoys_in("backup/fp32"),
    ),
    "parent": Place(
        "the parent of the folder contains the same names with other bytes",
        arrange=decoys_in(".."),
    ),
    "parent-with-one-shard": Place(
        "the parent of the folder contains one of the shards with other bytes, as after an interrupted move",
        arrange=decoys_in("..", files="*-00002-of-*"),
    ),
    "other-component": Place(
        "the folder is a component of a pipeline, and another component has shards of the same names",
        arrange=decoys_in("../text_encoder_2", own="text_encoder_3"),
    ),
    "sibling": Place(
        "a folder beside that of the model contains the same names with other bytes",
        arrange=decoys_in("../copy"),
    ),
}
"""Maps names to places. ``corpus.schema.json`` contains their meanings."""


def put(set_up: Callable[[Path], Path], place: Place, root: Path) -> Path:
    """Set up the input below ``root``, and return the path to open. Raises OSError."""
    folder = root / place.folder
    folder.mkdir(parents=True)
    path = set_up(folder)
    if place.name and path.suffix == SUFFIX:  # an index keeps its name, as its shards do
        path = path.rename(folder / place.name)
    return path if place.arrange is None else place.arrange(path)
