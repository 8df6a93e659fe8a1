"""Run a package's command in this process, in the environment of the package."""

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from stc_host.library import Refused, call


def run(main: Callable[[], Any], *words: str) -> None:
    """Call a command's entry point with arguments. Raises SystemExit or Refused if the command fails."""
    before = sys.argv
    sys.argv = [main.__module__, *words]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            status = call(_exited, main)
    finally:
        sys.argv = before
    if status:
        raise Refused(f"exit status {status}")


def _exited(main: Callable[[], Any]) -> Any:
    try:
        return main()
    except SystemExit as err:
        if err.code:
            raise
        return 0
