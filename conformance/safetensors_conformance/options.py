"""The options of a run, for pytest and ``stc``.

Every pytest run imports this module, so it uses only the standard library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

PROFILES = ("text", "official", "hardened")
MAX_MEMORY_MIB = 1 << 24
"""Largest memory limit in MiB (16 TiB); systems accept at most 2^63 bytes."""
MAX_SECONDS = 86_400
DEVICE_NAMES = "a device must be cpu or a kind of accelerator with a number, such as cuda:0"


def is_device(name: str) -> bool:
    return re.fullmatch(r"cpu|[a-z][a-z0-9]{0,29}:(0|[1-9][0-9]{0,3})", name, re.ASCII) is not None


@dataclass(frozen=True)
class Option:
    """An option: a flag, or a value of ``type``. The option may be repeated if ``many`` is true."""

    help: str
    metavar: str | None = None
    type: type = str
    default: Any = None
    flag: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


OPTIONS = {
    "--impl": Option(
        "Implementation to test: a built-in name (stc impl list), py:module:object, cmd:program or "
        "'exit:program {path}'. Repeat the option to compare several.  [default: reference]",
        "SELECTOR",
        many=True,
    ),
    "--profile": Option(
        "Grade disputed cases by the written text, the official library's behaviour or our recommendation "
        "for hostile files. Without a profile, or where the profile leaves a choice open, these cases fail "
        "only if the answer fits no option, or not the one that is required.",
        choices=PROFILES,
    ),
    "--baseline": Option("File of expected failures of the implementation (TOML).", "FILE"),
    "--no-baseline": Option("Ignore baselines and show all failures.", flag=True),
    "--update-baseline": Option(
        "Rewrite the baseline with the results of this run, which must be a full run.", flag=True
    ),
    "--report": Option("Write run records (JSON lines) and summary.md to this folder.", "DIRECTORY"),
    "--fail-on-should": Option(
        "Also fail on recommendations that are not followed and on late rejections.", flag=True
    ),
    "--heavy": Option("Include cases with inputs of up to 100 MB, or a sparse file of 1 TiB.", flag=True),
    "--device": Option(
        "Also load every plain file onto this device and copy it back: cpu, or an accelerator such as "
        "cuda:0.",
        "NAME",
    ),
    "--env": Option(
        "Also pass this environment variable to tested programs. By default, they get only a short list "
        "of variables, none of which is a token.",
        "NAME",
        many=True,
    ),
    "--sandbox": Option("Run tested programs inside bubblewrap (Linux).", flag=True),
    "--sandbox-net": Option("Allow network access in the sandbox.", flag=True),
    "--full-failures": Option("Show every failure in full, and all likely causes.", flag=True),
    "--no-smoke": Option("Continue even if the most basic files fail.", flag=True),
    "--corpus": Option("Use this corpus instead of the installed corpus.", "PATH"),
    "--time-limit": Option(
        "Time limit for each step, in seconds.",
        "SECONDS",
        type=float,
        default=10.0,
        least=0.001,
        most=MAX_SECONDS,
    ),
    "--memory-limit": Option(
        "Memory limit for each step, in MiB.", "MIB", type=int, default=2048, least=1, most=MAX_MEMORY_MIB
    ),
    "--max-hangs": Option(
        "Stop an implementation after this many hangs in a row, or 10 times as many crashes; 0 means never.",
        "N",
        type=int,
        default=10,
        least=0,
    ),
}
