"""The libFuzzer target: ``stc-fuzz-target [libFuzzer's flags] [CORPUS...]``, configured by the environment.

libFuzzer restarts itself for ``-fork`` and ``-minimize_crash`` and passes on nothing but its own flags, so
everything else comes from variables:

STC_FUZZ_IMPLS     selectors, one a line (default: reference; see ``loop.subjects_of`` for ``here:``)
STC_FUZZ_STEPS     steps, separated by commas (default: read)
STC_FUZZ_PROFILE   profile that decides disputed behaviour (default: undisputed musts only)
STC_FUZZ_OUTPUT    folder for findings (default: they are only printed)
STC_FUZZ_ENV       further variables that workers inherit, separated by commas
STC_FUZZ_TALLY     folder for the counts of each process (default: none)
STC_FUZZ_RAISE     1: stop at a finding as at a crash, as -minimize_crash and services need it;
                   part of a signature: stop at such findings only, so that one does not become another

The run continues after a wrong answer: starting the interpreter costs more than thousands of inputs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import CANNOT_START

RULES_LAYER = ("header.layout",)
"""Modules of the reference whose branches guide the run, beside the answers of the subjects.

Measured by the different outcome tuples for equal processor time: 1,770 with this one, 1,540 with
``explain`` as well, 1,390 with ``entries`` too, 1,230 with none. Watching the parser of the header's text
would cost more than all of them, and adds nothing that the grammar does not cover.

"""
_PACKAGE = "safetensors_reference"


def load_atheris() -> Any:
    """Import atheris. Raises SystemExit with a text that names the extra when it is not installed."""
    try:
        return importlib.import_module("atheris")
    except ImportError as err:
        text = (
            f"the atheris engine needs atheris, which cannot be imported ({err}); install it with:"
            " pip install 'safetensors-conformance[fuzz]' (Linux x86-64, Python 3.11 to 3.14)"
        )
        sys.stderr.write(text + "\n")
        raise SystemExit(CANNOT_START) from err


def watch(atheris: Any) -> None:
    """Import the rules layer with instrumentation. Raises RuntimeError when it was imported before."""
    if _PACKAGE in sys.modules:
        raise RuntimeError(f"{_PACKAGE} was imported before atheris could watch it")
    # atheris instruments whole packages only, so everything but the rules layer is excluded.
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None
    names = {name for folder in spec.submodule_search_locations or () for name in _modules(Path(folder))}
    others = [f"{_PACKAGE}.{name}" for name in sorted(names - set(RULES_LAYER))]
    with atheris.instrument_imports(include=[_PACKAGE], exclude=[_PACKAGE, *others]):
        for name in RULES_LAYER:
            importlib.import_module(f"{_PACKAGE}.{name}")


def _modules(package: Path) -> Iterator[str]:
    for file in package.rglob("*.py"):
        place = file.relative_to(package).with_suffix("")
        yield ".".join(place.parts[:-1] if place.name == "__init__" else place.parts)


def main(defaults: Mapping[str, str] | None = None) -> None:
    """Run the target; ``defaults`` are variables for an environment that lacks them."""
    for key, value in (defaults or {}).items():
        os.environ.setdefault(key, value)
    atheris = load_atheris()
    watch(atheris)
    # atheris must instrument the reference before anything else imports it.
    from .loop import Loop, TargetConfig, let_libfuzzer_interrupt

    try:
        config = TargetConfig.of(os.environ, sys.argv[1:])
    except ValueError as err:
        sys.stderr.write(f"{err}\n")
        raise SystemExit(CANNOT_START) from err
    loop = Loop(config, atheris)
    let_libfuzzer_interrupt()
    atheris.Setup(sys.argv, loop.one, custom_mutator=loop.mutator.mutate, custom_crossover=loop.mutator.cross)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
