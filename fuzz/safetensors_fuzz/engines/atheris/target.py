"""The libFuzzer target: ``stc-fuzz-target [libFuzzer's flags] [CORPUS...]``, set up by the environment.

What to do comes in variables, which ``config`` names.

A wrong answer is recorded and the run goes on: starting the interpreter costs more than thousands of inputs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

# Nothing of the reference may be imported before atheris watches the imports.
from .config import CANNOT_START, Config

RULES_LAYER = ("header.layout",)
"""Modules of the reference whose branches guide the run; what everyone answers guides it besides.

Measured by the different outcome tuples that equal processor time brings: 1,770 with this one, 1,540
with ``explain`` as well, 1,390 with ``entries`` too, 1,230 with none. Watching the reader of the header's
text would cost more than all of them, and tells nothing that the grammar does not know.
"""
_PACKAGE = "safetensors_reference"


def load_atheris() -> Any:
    """Return atheris. Raises SystemExit with a text that names the extra when it is not installed."""
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
    """Import the rules layer under the eyes of atheris. Raises RuntimeError when it was imported before."""
    if _PACKAGE in sys.modules:
        raise RuntimeError(f"{_PACKAGE} was imported before atheris could watch it")
    # atheris takes whole packages only: all but the rules layer is named as what to leave alone.
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None
    names = {name for folder in spec.submodule_search_locations or () for name in _modules(Path(folder))}
    others = [f"{_PACKAGE}.{name}" for name in sorted(names - set(RULES_LAYER))]
    with atheris.instrument_imports(include=[_PACKAGE], exclude=[_PACKAGE, *others]):
        for name in RULES_LAYER:
            importlib.import_module(f"{_PACKAGE}.{name}")


def _modules(package: Path) -> Iterator[str]:
    """Yield the modules and packages below a package, by their names in it; nothing is imported for that."""
    for file in package.rglob("*.py"):
        place = file.relative_to(package).with_suffix("")
        yield ".".join(place.parts[:-1] if place.name == "__init__" else place.parts)


def main(defaults: Mapping[str, str] | None = None) -> None:
    """Run the target; ``defaults`` are variables that hold where the environment has none."""
    environment: MutableMapping[str, str] = os.environ
    for key, value in (defaults or {}).items():
        environment.setdefault(key, value)
    try:
        config = Config.of(environment, sys.argv[1:])
    except ValueError as err:
        sys.stderr.write(f"{err}\n")
        raise SystemExit(CANNOT_START) from err
    atheris = load_atheris()
    watch(atheris)
    from .loop import Loop, let_libfuzzer_interrupt

    loop = Loop(config, atheris)
    let_libfuzzer_interrupt()
    atheris.Setup(sys.argv, loop.one, custom_mutator=loop.mutator.mutate, custom_crossover=loop.mutator.cross)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
