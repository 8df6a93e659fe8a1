"""What ``--impl`` names: a built-in, a Python adapter, a program that speaks the protocol, or an exit status.

=========================  ==========================================================================
``reference``              a built-in name; ``stc impl list`` shows them
``py:package.module:obj``  a Python adapter; a path to a ``.py`` file works in place of the module
``cmd:program args``       any program that speaks the worker protocol over standard input and output
``exit:program {path}``    any program that exits 0 to accept and 1 to refuse; verdicts only
=========================  ==========================================================================
"""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_HERE = Path(__file__).parent


class SelectorError(Exception):
    """``--impl`` names nothing that can be run; the text says what would work."""


@dataclass(frozen=True)
class Target:
    """A resolved selector.

    Attributes:
        selector: the text given to ``--impl``.
        kind: how the worker is driven: ``host`` (our Python host), ``cmd`` or ``exit``.
        argv: command line; for ``exit`` with ``{path}`` in it.
        hint: what to do when it does not start.
    """

    selector: str
    kind: Literal["host", "cmd", "exit"]
    argv: tuple[str, ...]
    hint: str = ""

    @property
    def slug(self) -> str:
        """The selector as a file name."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.selector).strip("-")[:80] or "implementation"


@dataclass(frozen=True)
class BuiltIn:
    """An implementation that this project brings an adapter for."""

    adapter: str
    about: str
    needs: str


BUILT_IN: dict[str, BuiltIn] = {
    "reference": BuiltIn("reference.py:Reference", "our strict explaining reader", "nothing"),
    "safetensors": BuiltIn(
        "official.py:InMemory", "official library, deserialize(bytes)", 'pip install -e ".[official]"'
    ),
    "safetensors:numpy": BuiltIn(
        "official.py:NumpyFile",
        "official library, safetensors.numpy.load_file",
        'pip install -e ".[official]"',
    ),
    "safetensors:torch": BuiltIn(
        "official_torch.py:TorchFile",
        "official library, safetensors.torch.load_file",
        'pip install -c constraints.txt -e ".[official,torch]"',
    ),
    "safetensors:safe-open": BuiltIn(
        "official.py:SafeOpen", "official library, safe_open with NumPy", 'pip install -e ".[official]"'
    ),
    "huggingface-hub": BuiltIn(
        "huggingface_hub_header.py:HeaderHelper",
        "huggingface_hub's header parser (header only)",
        "pip install huggingface-hub",
    ),
}
"""Built-in name -> adapter, description, and how to install what it needs."""


def resolve(selector: str) -> Target:
    """Turn a selector into something that can be started. Raises SelectorError."""
    if selector in BUILT_IN:
        built_in = BUILT_IN[selector]
        spec = str(_HERE / "adapters" / built_in.adapter)
        return Target(selector, "host", host_argv(spec), f"needs: {built_in.needs}")
    scheme, _, rest = selector.partition(":")
    if scheme == "py" and rest:
        return Target(selector, "host", host_argv(rest), "is the module on the import path of this folder?")
    if scheme == "cmd":
        return Target(selector, "cmd", _command(selector, rest))
    if scheme == "exit":
        argv = _command(selector, rest)
        if not any("{path}" in part for part in argv):
            raise SelectorError(f"--impl {selector!r}: say where the file goes, e.g. exit:{rest} {{path}}")
        return Target(selector, "exit", argv)
    near = difflib.get_close_matches(selector, BUILT_IN, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise SelectorError(
        f"unknown implementation {selector!r}; {guess}built in: {', '.join(BUILT_IN)}; "
        "others as py:module:object, cmd:program or exit:program {path}"
    )


def host_argv(spec: str) -> tuple[str, ...]:
    """Command line of the Python host for an adapter; the memory allowance is added by the worker."""
    return (sys.executable, "-u", str(_HERE / "host" / "python_host.py"), spec)


def _command(selector: str, text: str) -> tuple[str, ...]:
    try:
        argv = tuple(shlex.split(text))
    except ValueError as err:
        raise SelectorError(f"--impl {selector!r}: {err}") from err
    if not argv:
        raise SelectorError(f"--impl {selector!r}: names no program")
    if shutil.which(argv[0]) is None:
        raise SelectorError(f"--impl {selector!r}: program {argv[0]!r} is not found or not executable")
    return argv
