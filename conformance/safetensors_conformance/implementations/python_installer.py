"""Commands that create virtual environments and install packages. They prefer uv to venv and pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from ..programs.launcher import installer_variables

_PIP = (sys.executable, "-P", "-m", "pip")
_SETTINGS = re.compile(r"\.\S*(index|links|constraint|cert|host|proxy|binary|hash|pre)\S*=")
"""Settings of pip that control what it installs and from where. uv does not read them."""


def installer_commands(folder: Path, python: Path) -> tuple[list[str], list[str]]:
    """Return a command that creates the environment, and one to which requirements can be appended.

    Both resume an interrupted installation. uv is not used if pip's settings specify package sources.
    """
    uv = shutil.which("uv")
    if uv is None or _SETTINGS.search(_pip_settings()):
        create = [sys.executable, "-P", "-m", "venv", "--without-pip", str(folder)]
        quiet = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
        return create, [*_PIP, "--python", str(python), "install", *quiet]
    # uv reads settings from the folder that it runs in, so do not run it in the current folder.
    program = (uv, f"--directory={folder.parent}")
    create = [*program, "venv", "--no-project", "--allow-existing", f"--python={sys.executable}", str(folder)]
    # Like pip, consider the packages of all indexes and compile modules. Do not share files with a cache.
    like_pip = ("--index-strategy=unsafe-best-match", "--compile-bytecode", "--link-mode=copy")
    return create, [*program, "pip", "install", "--no-progress", *like_pip, f"--python={python}"]


def _pip_settings() -> str:
    command = [*_PIP, "config", "list"]
    variables = installer_variables()
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False).stdout
