"""Placed: valid files and models at unusual paths, behind links, and near files with the same names.

Known failures: non-ASCII paths (ggml-org/llama.cpp#18571), links into a cache
(huggingface/transformers#22228), and loaders that also read shards in folders below the model.
"""

from __future__ import annotations

from safetensors_corpus.author.actions import PlacedBuilder
from safetensors_corpus.author.case import accepts
from safetensors_corpus.author.index import numbered

NAMES = (
    "longest-folder", "cyrillic", "latin-1", "emoji", "cjk", "blanks", "url-characters", "glob-characters",
    "shell-characters", "line-feed", "backslash", "dots", "long-path", "not-normalized",
)  # fmt: skip
OF_FILES = (
    "longest-name", "rare-kanji", "downloaded-twice", "unexpanded-variable", "carriage-return",
    "from-a-windows-archive", "snapshot", "parent-of-link",
)  # fmt: skip
SURROUNDINGS = ("read-only", "read-only-file", "read-only-folder", "linked-folder", "cache", "linked-twice")
SUFFIXES = ("no-suffix", "suffix-bin", "suffix-pt", "suffix-json", "suffix-upper-case", "suffix-only")
DECOYS = (
    "subfolder", "early-subfolder", "deep-subfolder", "checkpoints-below", "checkpoints-beside", "parent",
    "parent-with-one-shard", "sibling", "other-component",
)  # fmt: skip


def small(f: PlacedBuilder, place: str) -> None:
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [5])
    f.metadata({"format": "pt"})
    f.place = place


def model(f: PlacedBuilder, place: str) -> None:
    first, second = numbered(1, 2), numbered(2, 2)
    f.model.shard(first, "a", "b")
    f.model.shard(second, "c")
    f.model.index({"a": first, "b": first, "c": second})
    f.place = place


@accepts("API-21", importance="high", over=(*NAMES, *OF_FILES))
def file(f: PlacedBuilder, place: str) -> None:
    """A valid file has an unusual path ($slug).

    Readers fail if they convert the path to another encoding, copy it into a buffer of a fixed size, pass it
    to a function that interprets some of its characters, or shorten it without following its links.
    """
    small(f, place)


@accepts("API-21", importance="high", over=SURROUNDINGS)
def file_behind(f: PlacedBuilder, place: str) -> None:
    """The path of a valid file leads through links, or the file is in a read-only folder ($slug).

    A cache of the Hub contains links to files without a suffix.
    """
    small(f, place)


@accepts("FRM-10", level="should", over=SUFFIXES)
def file_with(f: PlacedBuilder, place: str) -> None:
    """A valid file does not have the usual suffix ($slug), which the format does not require."""
    small(f, place)


@accepts("API-21", importance="high", over=NAMES, steps=("index",))
def model_in(f: PlacedBuilder, place: str) -> None:
    """A sharded model is in a folder with an unusual path ($slug)."""
    model(f, place)


@accepts("IDX-06 API-21", importance="high", over=("cache", "linked-twice"), steps=("index",))
def shards_behind(f: PlacedBuilder, place: str) -> None:
    """The index and the shards of a model are links ($slug), as in a cache of the Hub."""
    model(f, place)


@accepts("API-21", importance="high", over=("read-only", "linked-folder"), steps=("index",))
def model_behind(f: PlacedBuilder, place: str) -> None:
    """The folder of a model is a link or is read-only ($slug)."""
    model(f, place)


@accepts("IDX-04 IDX-11", importance="high", over=DECOYS, steps=("index",))
def model_beside(f: PlacedBuilder, place: str) -> None:
    """Another folder contains shards with the same names but different bytes ($slug).

    Loaders that search for shards below or above the folder of the model load tensors of a different model.
    """
    model(f, place)
