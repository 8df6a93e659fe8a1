"""Index: shard names that lead outside the folder.

Where possible, the name leads to a shard that contains the same tensor with different bytes. The case can
then detect a loader that follows the name. Without that shard, the loader would only fail to find a file.
"""

from __future__ import annotations

import pickle

from safetensors_corpus.author.case import chooses, rejects
from safetensors_corpus.author.index import INDEX_NAME, IndexBuilder, numbered

A, B = numbered(1, 2), numbered(2, 2)
CANARY = "../outside/x.safetensors"


def _map_to(f: IndexBuilder, name: str) -> None:
    """Write an index that maps its second tensor to ``name``, and the files that the name may lead to."""
    f.shard(A, "a")
    f.shard("x.safetensors", "b")
    f.shard("sub/y.safetensors", "b")
    f.shard(CANARY, "b")
    f.shard("../owner/repository/x.safetensors", "b")
    f.index({"a": A, "b": name}, metadata={"total_size": 16}, template="@ROOT@" in name)


@rejects(
    "IDX-04",
    "IDX_BAD_FILENAME IDX_SHARD_MISSING",
    issue="huggingface/transformers#47176",
    over={
        "parent": "../outside/x.safetensors",
        "parent-behind-folder": "sub/../../outside/x.safetensors",
        "parent-and-back": "../model/x.safetensors",
        "parent-with-four-dots": "....//outside/x.safetensors",
        "parent-to-folder-itself": "sub/../x.safetensors",
        "absolute": "@ROOT@/outside/x.safetensors",
        "absolute-inside": "@ROOT@/model/x.safetensors",
        "separator-at-end": "x.safetensors/",
    },
    bugs={
        "parent": "FB-69 FB-94 FB-98 FB-99 FB-205",
        "parent-behind-folder": "FB-69 FB-98 FB-99 FB-205",
        "absolute": "FB-98 FB-99 FB-205",
    },
)
def shard_path(f: IndexBuilder, name: str) -> None:
    """A shard name with separators leads out of the folder or takes a detour: $slug.

    A loader that follows the name reads a weight from a file that the attacker chose.
    """
    _map_to(f, name)


WINDOWS = {
    "backslashes": "..\\outside\\x.safetensors",
    "backslash-inside": "sub\\y.safetensors",
    "mixed-separators": "..\\outside/x.safetensors",
    "drive": "C:\\outside\\x.safetensors",
    "share": "\\\\localhost\\outside\\x.safetensors",
}


@rejects("IDX-04", "IDX_BAD_FILENAME IDX_SHARD_MISSING", over=WINDOWS)
def shard_windows_path(f: IndexBuilder, name: str) -> None:
    """A shard name is a Windows path: $slug.

    On other systems, a backslash is an ordinary character. A checkpoint must mean the same on every system.
    """
    _map_to(f, name)


@rejects(
    "IDX-04",
    "IDX_BAD_FILENAME IDX_SHARD_MISSING IDX_BAD_EXTENSION",
    importance="high",
    over={
        "percent-dots": "%2e%2e/outside/x.safetensors",
        "percent-all": "%2e%2e%2foutside%2fx.safetensors",
        "percent-twice": "%252e%252e%252foutside%252fx.safetensors",
        "full-width": "\uff0e\uff0e\uff0foutside\uff0fx.safetensors",
        "home": "~/x.safetensors",
        "nul-behind-suffix": "x.safetensors\u0000",
        "nul-before-suffix": "x.safetensors\u0000.safetensors",
        "line-feed": "x.safetensors\n",
    },
)
def shard_spelling(f: IndexBuilder, name: str) -> None:
    """Decoding, normalising, expanding or truncating a shard name turns it into a different name: $slug."""
    _map_to(f, name)


@rejects(
    "IDX-05 IDX-04",
    "IDX_BAD_FILENAME IDX_SHARD_MISSING",
    issue="https://github.com/huggingface/huggingface_hub/pull/4935",
    over={
        "https": "https://localhost/owner/repository/x.safetensors",
        "file": "file://@ROOT@/outside/x.safetensors",
        "repository": "owner/repository/x.safetensors",
        "parent-of-revision": "../../owner/repository/resolve/main/x.safetensors",
        "colon": "owner:x.safetensors",
    },
)
def shard_address(f: IndexBuilder, name: str) -> None:
    """A shard name points to another host or repository: $slug.

    A request to that host may include the caller's access token.
    """
    _map_to(f, name)


NO_FILE = {"empty": "", "dot": ".", "parent": "..", "folder": "sub", "index": INDEX_NAME}


@rejects(
    "IDX-04 IDX-07", "IDX_BAD_FILENAME IDX_BAD_EXTENSION IDX_SHARD_MISSING", importance="medium", over=NO_FILE
)
def shard_name_of(f: IndexBuilder, name: str) -> None:
    """A shard name is not the name of a weights file: $slug."""
    _map_to(f, name)


@rejects("API-13 IDX-08 API-14", "IO_ERROR IDX_SHARD_MISSING")
def shard_is_folder(f: IndexBuilder) -> None:
    """A folder has the name of a shard, and a file inside the folder contains the tensor."""
    f.shard(A, "a")
    f.shard("x.safetensors/x.safetensors", "b")
    f.index({"a": A, "b": "x.safetensors"})


FOLDERS = {"one-of-three": numbered(2, 3), "with-the-name-of-a-single-file": "model.safetensors"}


@rejects("API-13 IDX-08 API-14", "IO_ERROR IDX_SHARD_MISSING", over=FOLDERS)
def shard_is_folder_of_parts(f: IndexBuilder, name: str) -> None:
    """A folder has the name of a shard, and it contains one file for each tensor: $slug."""
    first, last = numbered(1, 3), numbered(3, 3)
    f.shard(first, "a")
    f.shard(f"{name}/b.safetensors", "b")
    f.shard(f"{name}/c.safetensors", "c")
    f.shard(last, "d")
    f.index({"a": first, "b": name, "c": name, "d": last}, metadata={"total_size": 32})


PICKLE = pickle.dumps({"b": [1.0, 2.0]}, protocol=2)
SUFFIXES = {"bin": "x.bin", "pt": "x.pt", "safetensors-bin": "x.safetensors.bin"}


@rejects("IDX-07", "IDX_BAD_EXTENSION FRM_HEADER_OVER_LIMIT", importance="critical", over=SUFFIXES)
def pickle_named(f: IndexBuilder, name: str) -> None:
    """An index maps one tensor to a safetensors shard and the other to the pickle file $value.

    Loading a pickle runs the code in it, so the index would bypass the safety of the format.
    """
    f.shard(A, "a")
    f.file(name, PICKLE)
    f.index({"a": A, "b": name})


@rejects("FRM-01 IDX-07", "FRM_HEADER_OVER_LIMIT FRM_HEADER_PAST_EOF", importance="critical")
def pickle_with_suffix(f: IndexBuilder) -> None:
    """A pickle file has a name that ends in .safetensors."""
    f.shard(A, "a")
    f.file("x.safetensors", PICKLE)
    f.index({"a": A, "b": "x.safetensors"})


OTHER = {
    "safetensors-bin": "x.safetensors.bin",
    "trailing-dot": "x.safetensors.",
    "trailing-space": "x.safetensors ",
    "query": "x.safetensors?download=true",
    "fragment": "x.safetensors#b",
}


@rejects("IDX-07", "IDX_BAD_EXTENSION IDX_SHARD_MISSING", over=OTHER)
def suffix(f: IndexBuilder, name: str) -> None:
    """A shard name contains the suffix .safetensors but does not end in it: $slug.

    Windows and downloaders ignore what follows the suffix in some of these names.
    """
    if name.endswith(".bin"):
        f.shard(A, "a")
        f.shard(name, "b")
        f.index({"a": A, "b": name})
    else:
        _map_to(f, name)


@chooses(
    "index-dot-slash",
    "IDX-04",
    codes="IDX_BAD_FILENAME",
    over={"one": "./x.safetensors", "two": "././x.safetensors"},
)
def dot_slash(f: IndexBuilder, name: str) -> None:
    """A shard name starts with a reference to the folder itself: $value."""
    _map_to(f, name)
    f.expect(("a", A), ("b", "x.safetensors"))


@chooses("index-dot-slash", "IDX-04", codes="IDX_BAD_FILENAME")
def dot_slash_and_plain(f: IndexBuilder) -> None:
    """The index refers to one shard in two ways, with and without ./ before the name."""
    f.shard(A, "a", "b", "c")
    f.index({"a": A, "b": f"./{A}", "c": A})
    f.expect(("a", A), ("b", A), ("c", A))


@chooses(
    "index-subfolder",
    "IDX-04",
    codes="IDX_BAD_FILENAME",
    over={"one": "sub/y.safetensors", "two": "sub/sub/y.safetensors"},
)
def subfolder(f: IndexBuilder, name: str) -> None:
    """A shard is in a subfolder of the folder that contains the index: $value."""
    f.shard(A, "a")
    f.shard(name, "b")
    f.shard("y.safetensors", "b")
    f.index({"a": A, "b": name})


UNFOLDED = {
    "percent-separators": "..%2Foutside%2Fx.safetensors",
    "full-width-separators": "..\uff0foutside\uff0fx.safetensors",
    "two-dot-leader": "\u2025\uff0foutside\uff0fx.safetensors",
}


@rejects("IDX-04", "IDX_BAD_FILENAME IDX_SHARD_MISSING", importance="high", over=UNFOLDED)
def shard_spelling_of_the_only_one(f: IndexBuilder, name: str) -> None:
    """The only shard name leads out of the folder after decoding or normalising: $slug."""
    f.shard("x.safetensors", scale=("F16", [2, 2]))
    f.shard(CANARY, scale=("F16", [2, 2]))
    f.index({"scale": name}, metadata={"total_size": 8})


@rejects(
    "IDX-04",
    "IDX_BAD_FILENAME IDX_SHARD_MISSING",
    over={"parent": "../x.safetensors", "root": "/x.safetensors"},
)
def shard_path_above_a_shard(f: IndexBuilder, name: str) -> None:
    """The last of three shard names is a path, and its last part is the name of a shard: $slug.

    A loader that drops the folders from the path and continues does not reject the index.
    """
    f.shard(numbered(1, 3), a=("BF16", [4]))
    f.shard(numbered(2, 3), b=("I64", []))
    f.shard("x.safetensors", c=("F64", [1]))
    f.shard("../x.safetensors", c=("F64", [1]))
    f.index({"a": numbered(1, 3), "b": numbered(2, 3), "c": name}, metadata={"total_size": 24})


CALLED_LIKE_PICKLES = {"bin-of-three": ("pytorch_model-00003-of-00003.bin", 3), "pt-alone": ("model.pt", 1)}


@rejects("IDX-07", "IDX_BAD_EXTENSION", over=CALLED_LIKE_PICKLES)
def suffix_of_pickles(f: IndexBuilder, name: str, count: int) -> None:
    """The last shard is a safetensors file that has the name of a pickle file: $slug.

    A loader that chooses the format by the file name passes this file to the pickle loader.
    """
    shards = {f"layers.{i}.weight": numbered(i + 1, count) for i in range(count)}
    shards[f"layers.{count - 1}.weight"] = name
    for tensor, shard in shards.items():
        f.shard(shard).tensor(tensor, "F16", [2, 3])
    f.index(shards)
