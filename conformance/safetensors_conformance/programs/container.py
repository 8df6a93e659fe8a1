"""Programs in container images. They run without network access and see their inputs read-only."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .limited_process import Child

ENGINES = ("podman", "docker")
READ_ONLY_STEPS = frozenset({"open", "read", "slice", "index", "lifecycle", "concurrent"})
"""Steps that a container can run, because they need no written files, server or device."""
ENGINE_VARIABLES = ("DOCKER_CONFIG", "DOCKER_HOST", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
"""Environment variables that are passed to the engine but not to the container."""
_REMOVAL_SECONDS = 20


def engine() -> str:
    return next((name for name in ENGINES if shutil.which(name)), "")


def command(
    engine: str,
    image: Sequence[str],
    name: str,
    memory_bytes: int,
    shown: Sequence[Path],
    env: Sequence[str] = (),
) -> list[str]:
    out = [engine, "run", "--rm", "--interactive", f"--name={name}", "--network=none", "--read-only"]
    out += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--security-opt=label=disable"]
    out += ["--pids-limit=1000", f"--memory={memory_bytes}", "--tmpfs=/tmp"]
    out += [f"--env={name}" for name in env]
    for path in shown:
        out.append(f"--mount=type=bind,source={path},target={path},readonly")
    # The inputs belong to the user. Without capabilities, even root inside the container cannot read them.
    if engine == "docker":
        out.append(f"--user={os.getuid()}:{os.getgid()}")
    elif os.getuid():
        out.append("--userns=keep-id")
    return [*out, *image]


class ContainerChild(Child):
    """A child that represents a container. The engine must remove the container by name."""

    signals_as_status = True

    def __init__(
        self,
        image: Sequence[str],
        memory_bytes: int,
        variables: Mapping[str, str],
        shown: Sequence[Path],
        env: Sequence[str],
    ) -> None:
        self._engine, self._name = engine(), f"stc-{secrets.token_hex(8)}"
        argv = command(self._engine, image, self._name, memory_bytes, shown, env)
        own = {name: os.environ[name] for name in ENGINE_VARIABLES if name in os.environ}
        super().__init__(argv, memory_bytes, {**variables, **own})

    def kill(self) -> None:
        super().kill()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [self._engine, "rm", "--force", self._name],
                capture_output=True,
                timeout=_REMOVAL_SECONDS,
                check=False,
            )
