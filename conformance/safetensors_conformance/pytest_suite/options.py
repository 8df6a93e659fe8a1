"""The options of the suite under pytest. Every pytest run of the environment loads this, so it is light."""

from __future__ import annotations

from typing import Any

import pytest

_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    (
        "--impl",
        {
            "action": "append",
            "metavar": "SELECTOR",
            "help": "implementation to test: a built-in name (stc impl list), py:module:object, cmd:program "
            "or 'exit:program {path}'; give it several times to compare (default: reference)",
        },
    ),
    (
        "--profile",
        {
            "choices": ("text", "official", "hardened"),
            "help": "grade disputed cases by the written text, the official library's behaviour or our "
            "recommendation for hostile files; without it they fail only for an "
            "answer that fits no option, or where one option is required",
        },
    ),
    ("--baseline", {"metavar": "FILE", "help": "expected failures of the implementation (TOML)"}),
    ("--no-baseline", {"action": "store_true", "help": "ignore every baseline and show all failures"}),
    ("--update-baseline", {"action": "store_true", "help": "rewrite the baseline from this full run"}),
    ("--report", {"metavar": "DIR", "help": "write the run records (JSON lines) and a Markdown summary"}),
    (
        "--fail-on-should",
        {"action": "store_true", "help": "let missed recommendations and late rejections fail the run too"},
    ),
    (
        "--heavy",
        {"action": "store_true", "help": "also run the cases with inputs of up to 100 MB, or a sparse TiB"},
    ),
    (
        "--device",
        {"metavar": "NAME", "help": "also load every plain file onto this device and back: cpu or cuda:N"},
    ),
    (
        "--env",
        {
            "action": "append",
            "metavar": "NAME",
            "help": "tested programs get this variable too; they get a short list, and no tokens",
        },
    ),
    ("--sandbox", {"action": "store_true", "help": "run tested programs inside bubblewrap (Linux)"}),
    ("--sandbox-net", {"action": "store_true", "help": "with the network in the sandbox"}),
    (
        "--full-failures",
        {"action": "store_true", "help": "show every failure in full, not only the first cases of a cause"},
    ),
    ("--no-smoke", {"action": "store_true", "help": "run on although the most basic files already fail"}),
    ("--corpus", {"metavar": "DIR", "help": "use this corpus instead of the one that is installed"}),
    (
        "--time-limit",
        {
            "type": float,
            "default": 10.0,
            "metavar": "SECONDS",
            "help": "time limit of one step (default: 10)",
        },
    ),
    (
        "--memory-limit",
        {"type": int, "default": 2048, "metavar": "MIB", "help": "memory limit of one step (default: 2048)"},
    ),
    (
        "--max-hangs",
        {
            "type": int,
            "default": 10,
            "metavar": "N",
            "help": "stop an implementation that hangs at this many cases in a row, or dies at 10 times "
            "as many; 0: go on (default: 10)",
        },
    ),
]


def add_options(parser: pytest.Parser) -> None:
    """Add the options. Where a name is taken, ``--device`` for one, ours is ``--stc-device``."""
    groups: list[Any] = [*parser._groups, parser._anonymous]  # noqa: SLF001 - there is no public way to ask
    taken = {name for group in groups for known in group.options for name in known.names()}
    group = parser.getgroup("safetensors conformance")
    for name, details in _OPTIONS:
        group.addoption(f"--stc{name[1:]}" if name in taken else name, dest=_dest(name), **details)


def option(config: pytest.Config, name: str) -> Any:
    """Return one of the suite's options by its usual name, None where there are none."""
    return config.getoption(_dest(name), None)


def _dest(name: str) -> str:
    return "stc_" + name.lstrip("-").replace("-", "_")
