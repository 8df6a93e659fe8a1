"""Install the suite from the checkout of the action, and then the tested package."""

from __future__ import annotations

import shlex
import sys

from common import ROOT, Settings, load_settings, run, step, stop


def commands(settings: Settings) -> list[list[str]]:
    """Return the commands that create the environment and install the suite and the tested package."""
    # Use isolated mode, because the repository may contain a module named venv or pip.
    pip = [settings.program("python"), "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    # The base package is enough to check local files. Remote files need one extra.
    remote = any(sign in settings.check for sign in ("hf://", "https://", "http://"))
    extra = "harness" if not settings.check else "remote" if remote else ""
    suite = f"{ROOT}[{extra}]" if extra else str(ROOT)
    lines = [
        [sys.executable, "-I", "-m", "venv", f"{settings.work}/venv"],
        [*pip, "-c", str(ROOT / "constraints.txt"), "-e", suite],
    ]
    # Do not use our constraints here, because they apply only to the suite's own tests.
    own = shlex.split(settings.install)
    return [*lines, [*pip, *own]] if own else lines


def main() -> None:
    """Run the commands. The first one that fails stops the step."""
    settings = load_settings()
    for line in commands(settings):
        status = run(settings, "install", line)
        if status:
            stop(f"the installation failed with exit status {status}: {shlex.join(line)}")


if __name__ == "__main__":
    step(main)
