"""What a user meets first: names, representations, what is taken as bytes, devices and types."""

from __future__ import annotations

import io
import pydoc
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import safetensors_reference
from safetensors_reference import UnreadableError, explain, read_header, safe_open
from safetensors_reference import numpy as numpy_door
from safetensors_reference import torch as torch_door
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.rules.errors import AccessError

from .support import ABCD, W, make

FILE = make(f'{{"__metadata__":{{"k":"v"}},"w":{W}}}', ABCD)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(FILE)
    return path


def test_public_names_are_found_before_they_are_used() -> None:
    program = "import safetensors_reference as s; print(*sorted(set(s.__all__) - set(dir(s))))"
    assert subprocess.check_output([sys.executable, "-c", program]) == b"\n"
    help_text = pydoc.plain(pydoc.render_doc(safetensors_reference))
    assert all(name in help_text for name in safetensors_reference.__all__)


def test_neither_help_nor_raw_reading_needs_numpy_or_torch(path: Path) -> None:
    program = (
        "import pydoc, sys\n"
        "sys.modules.update(numpy=None, torch=None, ml_dtypes=None)\n"
        "import safetensors_reference as s\n"
        "pydoc.render_doc(s)\n"
        "print(bytes(s.safe_open(sys.argv[1], 'raw').get_tensor('w')).decode())\n"
    )
    assert subprocess.check_output([sys.executable, "-c", program, str(path)]) == b"abcd\n"


def test_what_is_printed_of_a_file_says_what_is_in_it(path: Path) -> None:
    tensors = {f"{i:02}\n": np.ones(1) for i in range(20)}
    header = read_header(numpy_door.save(tensors))
    names = ", ".join(f'"{i:02}\\n"' for i in range(8))
    assert repr(header) == f"<Header of 160 bytes of data, tensors: {names}, … (20)>"
    assert repr(header.tensors) == f"<tensors: {names}, … (20)>"
    assert repr(explain(FILE).header) == '<Header of 4 bytes of data, tensors: "w", metadata: "k">'
    assert "object at" not in repr(explain(FILE))
    with safe_open(path) as file:
        assert repr(file) == f'<TensorFile {path}: open, tensors: "w">'
        assert repr(file.get_slice("w")) == '<TensorSlice "w": U8 [4]>'
    assert repr(file) == f'<TensorFile {path}: closed, tensors: "w">'
    assert repr(read_header(make("{}"))) == "<Header of 0 bytes of data, tensors: ->"
    assert repr(PackedTensor("F4", (2, 3), np.zeros(3, np.uint8))) == "PackedTensor(F4, [2, 3], 3 bytes)"


def test_what_is_no_source_is_said(path: Path) -> None:
    spooled = tempfile.SpooledTemporaryFile(mode="w+")  # noqa: SIM115
    odd: Any
    for odd in (io.StringIO("short"), io.StringIO("longer text"), path.open(encoding="latin-1"), spooled):
        words = r"this is not a binary file, since read\(0\) returned str"
        with odd, pytest.raises(UnreadableError, match=words):
            explain(odd)
    for odd in (7, None, [1], object()):
        with pytest.raises(UnreadableError, match="expected a path, bytes or a binary file, not "):
            explain(odd)


@pytest.mark.usefixtures("simulated")
def test_the_device_is_taken_as_in_the_official_library(path: Path) -> None:
    device: Any
    for device in ("cpu", torch.device("cpu"), "simulated:0", "simulated", torch.device("simulated:0")):
        with safe_open(path, "pt", device) as file:
            tensors = [file.get_tensor("w"), file.get_slice("w")[:], torch_door.load_file(path, device)["w"]]
        assert [tensor.tolist() for tensor in tensors] == [[*ABCD]] * 3
        assert {str(t.device) for t in tensors} == {"cpu" if "cpu" in str(device) else "simulated:0"}
        if "cpu" in str(device):
            assert safe_open(path, "np", device=device).get_tensor("w").tolist() == [*ABCD]


@pytest.mark.parametrize("device", ["meta", "nonsense", -1, 1.5, "cuda:99", "mmap"])
def test_a_device_that_cannot_be_used_is_refused_at_once(device: Any, path: Path) -> None:
    for load in (lambda: safe_open(path, "pt", device), lambda: torch_door.load_file(path, device)):
        with pytest.raises(AccessError, match=r"^device .* cannot be used"):
            load()


@pytest.mark.parametrize("device", ["cuda", 0, "mps", "mmap"])
@pytest.mark.parametrize("framework", ["np", "raw"])
def test_numpy_knows_the_processor_alone(framework: str, device: Any, path: Path) -> None:
    with pytest.raises(AccessError, match=r"^device must be 'cpu' for"):
        safe_open(path, framework, device)


PROGRAM = """
import numpy as np
import numpy.typing as npt
import torch
from safetensors_reference import safe_open
from safetensors_reference import numpy as by_numpy
from safetensors_reference import torch as by_torch

tensors: dict[str, torch.Tensor] = by_torch.load_file("x", device=torch.device("cpu"))
by_torch.save_file(tensors, "x")
with safe_open("x", framework="pt", device="cpu") as file:
    tensor: torch.Tensor = file.get_tensor("w")
    tensor = file.get_slice("w")[:, 1]
values: npt.NDArray[np.float32] = by_numpy.load_file("x")["w"]
by_numpy.save(by_numpy.load(b""))
with safe_open("x") as by_default, safe_open("x", "raw") as raw:
    values = by_default.get_tensor("w")
    view: memoryview = raw.get_tensor("w")
wrong: str = raw.get_tensor("w")
tensor.no_such_method()
safe_open("x", mode="fast")
safe_open(7)
"""


@pytest.mark.nightly
def test_a_typed_program_needs_no_cast(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"]
    done = subprocess.run(argv, check=False, cwd=tmp_path, capture_output=True, text=True)
    found = {int(line.split(":")[1]) for line in done.stdout.split("\n") if ": error: " in line}
    last = PROGRAM.count("\n")
    assert found == set(range(last - 3, last + 1)), done.stdout + done.stderr
