"""What all tests share: hypothesis profiles, and what of the long tests runs by day.

``HYPOTHESIS_PROFILE=night`` tries ten times as many examples as by day. ``long`` searches even longer, and
elsewhere on every run. ``@pytest.mark.by_day(n)`` on a test
with parameters leaves n of its items, evenly spread, to every run; the others are ``nightly``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from .simulated_device import SimulatedDevice

# Tests start hundreds of processes of the same modules, and compiling takes each of them half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Shared runners are too uneven for a deadline per example, and a file with many tensors is not small.
for _profile, _examples in (("default", 100), ("night", 1_000), ("long", 10_000)):
    settings.register_profile(
        _profile,
        max_examples=_examples,
        deadline=None,
        derandomize=_profile != "long",
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Searching for garbage takes a third of the time of collecting all tests.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what is here to stay out of later searches for garbage, and search seldom.

    With all tests collected each search takes a third of a second.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as nightly what ``by_day`` leaves out."""
    families: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("by_day")) is not None:
            families.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    for (_, count), family in families.items():
        step = max(len(family) / count, 1)
        kept = {int(step * number) for number in range(count)}
        for number, item in enumerate(family):
            if number not in kept:
                item.add_marker(pytest.mark.nightly)


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """An empty folder in memory, where there is one, for tests that write thousands of small files."""
    from safetensors_conformance.programs.launcher import folder_in_memory

    with TemporaryDirectory(dir=folder_in_memory()) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def simulated_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the simulated accelerator, once for all workers."""
    from .simulated_device import NoCompilerError, build

    folder = tmp_path_factory.getbasetemp()
    try:
        return build(folder if folder.name.startswith("pytest-") else folder.parent)
    except NoCompilerError as err:
        pytest.skip(f"no simulated device: {err}")


@pytest.fixture(scope="session")
def simulated(simulated_library: Path) -> SimulatedDevice:
    """Register the simulated accelerator with torch in this process."""
    from .simulated_device import register

    return register(simulated_library)
