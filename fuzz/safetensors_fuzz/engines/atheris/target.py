"""The libFuzzer target ``stc-fuzz-target [libFuzzer's flags] [CORPUS...]``.

For ``-fork`` and ``-minimize_crash``, libFuzzer starts the target again with only its own flags. The target
therefore reads its configuration from environment variables:

STC_FUZZ_IMPLS     selectors, one per line (default: reference; see ``loop.subjects_of`` for ``here:``)
STC_FUZZ_STEPS     comma-separated steps (default: read)
STC_FUZZ_PROFILE   profile that decides disputed behaviour (default: only undisputed requirements count)
STC_FUZZ_OUTPUT    folder for findings (default: the target only prints them)
STC_FUZZ_ENV       comma-separated names of additional variables that workers inherit
STC_FUZZ_TALLY     folder for the counts of each process (default: none)
STC_FUZZ_RAISE     1: treat a finding as a crash, as -minimize_crash and fuzzing services require;
                   part of a signature: do so only for matching findings, so that minimizing keeps the finding

Without STC_FUZZ_RAISE, the target continues after a finding, because a restart takes longer than running
thousands of inputs.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from . import CANNOT_START

WATCHED = ("check_layout", "_reversed", "_in_offset_order", "_fault")
"""Functions of ``header.explain`` with branch coverage.

With more or fewer functions, a run finds fewer outcome tuples per second.
"""


def load_atheris() -> Any:
    """Import atheris. If it is not installed, raise SystemExit with a message that names the extra."""
    try:
        return importlib.import_module("atheris")
    except ImportError as err:
        text = (
            f"cannot import atheris, which the atheris engine needs ({err}); install it with: pip "
            "install 'safetensors-conformance[fuzz]' (Linux x86-64, Python 3.11 to 3.14)"
        )
        sys.stderr.write(text + "\n")
        raise SystemExit(CANNOT_START) from err


def watch(atheris: Any) -> None:
    """Add branch coverage to the check of the layout."""
    from safetensors_reference.header import explain

    for name in WATCHED:
        atheris.instrument_func(getattr(explain, name))


def main(defaults: Mapping[str, str] | None = None) -> None:
    """Run the target. ``defaults`` contains values for environment variables that are not set."""
    for key, value in (defaults or {}).items():
        os.environ.setdefault(key, value)
    atheris = load_atheris()
    watch(atheris)
    # proof.documents imports this module, and must instrument the reference before anything imports it.
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
