"""Export: programs that write the tensors of a file to separate files in a folder, whatever their names.

The names in these cases must not harm a machine that runs them without a sandbox. A relative path leads at
most three folders up, and an absolute path begins with ``@ROOT@``, which is the directory of the case.
"""

from __future__ import annotations

from safetensors_corpus.author.actions import ExportBuilder
from safetensors_corpus.author.case import accepts, chooses

CHOICE = "names-as-paths"
SUFFIXES = ("", ".bin", ".dat", ".npy", ".npz", ".pt", ".raw", ".safetensors", ".txt")
PLAIN = {
    "one": ("weight",),
    "layers": (
        "model.embed_tokens.weight",
        *(f"model.layers.{n}.self_attn.{p}_proj.weight" for n in range(2) for p in "qk"),
    ),
    "prefixes": ("layer", "layer.weight", "layer.weight.scale"),
    "numbers": ("0", "1", "10"),
    "underscores-and-hyphens": ("down_proj", "down-proj", "_scale"),
    "many": tuple(f"blocks.{n}.bias" for n in range(40)),
}


@accepts("EXP-02 EXP-01", importance="high", over=PLAIN)
def ordinary_names(f: ExportBuilder, names: tuple[str, ...]) -> None:
    """Every tensor has a name that every system can use as a file name: $slug."""
    f.tensors(names, "F32", [4])


LEAVING = {
    "parent": "../escaped",
    "two-up": "../../escaped",
    "three-up": "../../../escaped",
    "parent-in-the-middle": "a/../../escaped",
    "parent-after-a-dot": "./../escaped",
    "two-down-three-up": "a/b/../../../escaped",
    "parent-twice-the-slash": "..//escaped",
    "only-the-parent": "..",
    "parent-with-a-slash": "../",
    "folder-with-the-same-beginning": "../export-escaped/weight",
    "absolute": "@ROOT@/escaped",
    "absolute-with-two-slashes": "/@ROOT@/escaped",
    "address": "file://@ROOT@/escaped",
    "doubled-for-a-filter": "....//escaped",
    "percent-encoded": "%2e%2e%2fescaped",
    "full-width": "\uff0e\uff0e\uff0fescaped",
    "backslashes": "..\\escaped",
    "drive": "C:\\escaped",
    "drive-without-a-slash": "C:escaped",
    "before-a-nul": "../escaped\0",
}


@chooses(CHOICE, "EXP-02", codes="WRT_BAD_NAME", importance="critical", over=LEAVING)
def leads_out(f: ExportBuilder, name: str) -> None:
    """The name of a tensor is a path that leads out of the folder on some system: $slug."""
    f.tensors(("weight", name), "F32", [4])


LINKS = {
    "folder": ("a/weight", {"a": "outside"}),
    "folder-two-deep": ("a/b/weight", {"a": "outside"}),
    "parent": ("a/outside/weight", {"a": ""}),
    "file": ("a", {f"a{suffix}": "outside/kept" for suffix in SUFFIXES}),
    "dangling": ("a", {f"a{suffix}": f"outside/new{suffix}" for suffix in SUFFIXES}),
}


@chooses(CHOICE, "EXP-02", codes="WRT_BAD_NAME", importance="critical", over=LINKS)
def linked(f: ExportBuilder, name_and_links: tuple[str, dict[str, str]]) -> None:
    """The folder contains a link that leads out of it, and a tensor has the same name as that link: $slug."""
    name, f.links = name_and_links
    f.tensors(("weight", name), "F32", [4])


COLLIDING = {
    "case": ("Weight", "weight"),
    "case-beyond-ascii": ("Stra\u00dfe", "STRASSE"),
    "normal-forms": ("caf\u00e9", "cafe\u0301"),
    "compatible-characters": ("\ufb01t", "fit"),
    "trailing-dot": ("a.", "a"),
    "trailing-space": ("a ", "a"),
    "trailing-slash": ("a/", "a"),
    "slash-and-dot": ("a/b", "a.b"),
    "slash-and-underscore": ("a/b", "a_b"),
    "dot-and-underscore": ("a.b", "a_b"),
    "two-slashes": ("a//b", "a/b"),
    "dot-folder": ("a/./b", "a/b"),
    "parent-folder": ("a/../b", "b"),
    "file-and-folder": ("a", "a/b"),
    "last-part": ("a/weight", "b/weight"),
    "nul": ("a\0b", "a\0c"),
    "suffix": ("a", *(f"a{suffix}" for suffix in SUFFIXES if suffix)),
    "forbidden-characters": ("a:b", "a?b"),
    "long": ("n" * 255 + "a", "n" * 255 + "b"),
    "spelled-as-escapes": ("a/b", "a%2Fb"),
}


@chooses(CHOICE, "EXP-02 EXP-03", codes="WRT_BAD_NAME", importance="high", over=COLLIDING)
def similar(f: ExportBuilder, names: tuple[str, ...]) -> None:
    """Different names can become the same file name: $slug."""
    f.tensors(names, "F32", [4])


ODD = {
    "empty": "",
    "space": " ",
    "dot": ".",
    "newline": "a\nb",
    "terminal-escape": "\x1b[2Ja",
    "colon": "a:stream",
    "wildcards": "a*b?",
    "quotes": "\"a\" 'b'",
    "pipe": "a|b<c>d",
    "bytes-256": "n" * 256,
    "characters-200-bytes-400": "\u00e9" * 200,
    "folders-200": "a/" * 200 + "b",
    "con": "CON",
    "nul-with-suffix": "nul.weight",
    "aux-in-a-folder": "a/aux/b",
    "com-with-superscript": "com\u00b9",
}


@chooses(CHOICE, "EXP-02 EXP-03", codes="WRT_BAD_NAME", over=ODD)
def odd_name(f: ExportBuilder, name: str) -> None:
    """Some systems cannot use the name of a tensor as a file name: $slug."""
    f.tensors(("weight", name), "F32", [4])
