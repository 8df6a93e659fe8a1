"""Install the suite from the action's own checkout, then what the implementation needs."""

from __future__ import annotations

import shlex
import sys

from common import ROOT, Settings, load_settings, run, step, stop


def commands(settings: Settings) -> list[list[str]]:
    """Return the command lines: the environment, the suite, and what the input ``install`` says."""
    # Isolated from the folder it runs in: a repository may hold a module named venv or pip.
    pip = [settings.program("python"), "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    # Files are checked by the base alone, and those behind addresses with one extra more.
    remote = any(sign in settings.check for sign in ("hf://", "https://", "http://"))
    extra = "harness" if not settings.check else "remote" if remote else ""
    suite = f"{ROOT}[{extra}]" if extra else str(ROOT)
    lines = [
        [sys.executable, "-I", "-m", "venv", f"{settings.work}/venv"],
        [*pip, "-c", str(ROOT / "constraints.txt"), "-e", suite],
    ]
    # Without our constraints: they are about the suite's own tests.
    own = shlex.split(settings.install)
    return [*lines, [*pip, *own]] if own else lines


def main() -> None:
    """Run them, the first that fails ends the step."""
    settings = load_settings()
    for line in commands(settings):
        status = run(settings, "install", line)
        if status:
            stop(f"installing failed with exit status {status}: {shlex.join(line)}")


if __name__ == "__main__":
    step(main)
