"""The public functions: names, texts and types, and an answer or a documented error for any argument."""

from __future__ import annotations

import io
import pydoc
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import safetensors_reference
from safetensors_reference import InvalidFileError, UnreadableError, device, explain, read_header, safe_open
from safetensors_reference import numpy as numpy_door
from safetensors_reference import torch as torch_door
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.header.explain import profile_options
from safetensors_reference.model.read import explain_index, open_index
from safetensors_reference.model.write import save_sharded, write_index
from safetensors_reference.rules.errors import AccessError, SafetensorsError, WriteError
from safetensors_reference.writing.atomic import write_file
from safetensors_reference.writing.writer import TensorData, plan

from .strategies import FEWER, mutants
from .support import ABCD, W, entry, make

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


def test_a_typed_program_needs_no_cast(path: Path) -> None:
    """mypy reads this as well, and refuses a comment that nothing needs."""
    with safe_open(path) as arrays, safe_open(path, "raw") as raw, safe_open(path, framework="pt") as file:
        values: npt.NDArray[Any] = arrays.get_tensor("w")
        view: memoryview = raw.get_tensor("w")
        tensor: torch.Tensor = file.get_slice("w")[1:]
        wrong: str = raw.get_tensor("w")  # type: ignore[assignment]
        types = [type(found) for found in (values, view, tensor, wrong)]
        assert types == [np.ndarray, memoryview, torch.Tensor, memoryview]
    with pytest.raises(AccessError):
        safe_open(path, mode="fast")  # type: ignore[call-overload]
    with pytest.raises(UnreadableError):
        safe_open(7)  # type: ignore[call-overload]


HUGE = 10**5000  # Python refuses to write it in digits
MATRIX = make(
    f'{{"w":{entry("U8", "[2,3]", "[0,6]")},"e":{entry("U8", "[0,18446744073709551615]", "[0,0]")}}}',
    b"abcdef",
)


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError


PACKED = np.zeros(1, np.uint8)
ODD: list[Any] = [
    None, 7, -1, HUGE, -HUGE, 1.5, float("nan"), "x", "\0", "\ud800", b"x", True, [], {}, (), slice(3),
    Silent(), [HUGE], {"a": HUGE}, "x" * 5000, "/dev/null", "no/such/folder/x", np.int64(3), np.zeros(2),
]  # fmt: skip

FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "explain": explain,
    "profile_options": profile_options,
    "read_header": read_header,
    "read_header, profile": lambda odd: read_header(MATRIX, odd),
    "safe_open": safe_open,
    "safe_open, framework": lambda odd: safe_open(MATRIX, odd),
    "safe_open, device": lambda odd: safe_open(MATRIX, "np", odd),
    "safe_open, torch device": lambda odd: safe_open(MATRIX, "pt", odd),
    "safe_open, mode": lambda odd: safe_open(MATRIX, "np", mode=odd),
    "torch.load_file": torch_door.load_file,
    "torch.load_file, device": lambda odd: torch_door.load_file(MATRIX, odd),
    "load_file": numpy_door.load_file,
    "get_tensor": lambda odd: safe_open(MATRIX, "np").get_tensor(odd),
    "get_slice": lambda odd: safe_open(MATRIX, "np").get_slice(odd),
    "in": lambda odd: odd in safe_open(MATRIX, "np"),
    "slice": lambda odd: safe_open(MATRIX, "np").get_slice("w")[odd],
    "slice, pair": lambda odd: safe_open(MATRIX, "np").get_slice("w")[0, odd],
    "slice, end": lambda odd: safe_open(MATRIX, "np").get_slice("w")[:odd],
    "slice, step": lambda odd: safe_open(MATRIX, "np").get_slice("w")[::odd],
    "slice, empty": lambda odd: safe_open(MATRIX, "np").get_slice("e")[:, odd],
    "explain_index": explain_index,
    "open_index": open_index,
    "plan, name": lambda odd: plan([TensorData(odd, "U8", (1,), b"x")]),
    "plan, dtype": lambda odd: plan([TensorData("w", odd, (1,), b"x")]),
    "plan, dimension": lambda odd: plan([TensorData("w", "U8", (odd,), b"x")]),
    "save": numpy_door.save,
    "save, torch": torch_door.save,
    "save, metadata": lambda odd: numpy_door.save({}, odd),
    "save, tensor": lambda odd: numpy_door.save({"w": odd}),
    "save, torch tensor": lambda odd: torch_door.save({"w": odd}),
    "save, packed dtype": lambda odd: numpy_door.save({"w": PackedTensor(odd, (2,), PACKED)}),
    "save, packed shape": lambda odd: numpy_door.save({"w": PackedTensor("F4", odd, PACKED)}),
    "save, packed raw": lambda odd: numpy_door.save({"w": PackedTensor("F4", (2,), odd)}),
    "write_index, total": lambda odd: write_index("no/such/folder", {}, odd),
    "write_index, metadata": lambda odd: write_index("no/such/folder", {}, 0, {"x": odd}),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_odd_argument_is_answered_or_refused(function: str) -> None:
    for odd in ODD:
        with suppress(SafetensorsError):
            FUNCTIONS[function](odd)


def test_an_unknown_profile_and_a_target_that_is_no_path_are_refused() -> None:
    readers = (partial(read, data) for read in (explain, read_header) for data in (MATRIX, b"broken", b""))
    for function in (profile_options, *readers, partial(explain_index, "none")):
        for odd in ODD:
            with pytest.raises(AccessError, match="profile must be one of"):
                function(odd)
    for odd in (None, 7, b"x", Silent(), "\0", "\ud800"):
        with pytest.raises(SafetensorsError, match="not saved"):
            write_file(odd, [b"x"])  # type: ignore[arg-type]


OPENED: list[Callable[[str], object]] = [
    explain,
    read_header,
    safe_open,
    numpy_door.load_file,
    torch_door.load_file,
    explain_index,
    open_index,
    lambda path: device.load_file(path, device="cpu"),
    lambda path: numpy_door.save_file({}, f"{path}/x"),
    lambda path: torch_door.save_file({}, f"{path}/x"),
    lambda path: write_index(path, {}, 0),
    lambda path: save_sharded(numpy_door.save_file, {}, {}, path, 4),
]


@pytest.mark.parametrize("name", ["a\0b", "a\n\x1b[31mb", "a\u202eb", "\udcff", "a\r::error::b"])
def test_an_error_shows_no_name_raw(name: str, tmp_path: Path) -> None:
    for function in OPENED:
        with pytest.raises(SafetensorsError) as caught:
            function(str(tmp_path / name))
        assert str(caught.value).isprintable()
        assert str(tmp_path) in str(caught.value)


def test_an_invalid_file_of_an_odd_name_and_the_odd_name_of_a_shard(tmp_path: Path) -> None:
    path = tmp_path / "a\n\x1bb"
    path.write_bytes(b"x")
    with pytest.raises(InvalidFileError, match=r"a\\n\\u001bb: FRM_TOO_SHORT") as caught:
        read_header(path)
    assert str(caught.value).isprintable()
    index = path.with_suffix(".index.json")
    index.write_text('{"weight_map":{"w":"w.safetensors"}}')
    (tmp_path / "w.safetensors").mkdir()
    (fault,) = explain_index(index).faults
    assert fault.message == 'shard "w.safetensors" cannot be read: not a regular file'


def test_an_index_with_a_number_of_five_thousand_digits_is_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(make(f'{{"w":{entry("U8", "[1]", "[0,1]")}}}', b"x"))
    path = tmp_path / "model.safetensors.index.json"
    digits = "1" + "0" * 5000
    path.write_text(f'{{"metadata":{{"x":{digits},"y":-{digits}}},"weight_map":{{"w":"w.safetensors"}}}}')
    assert open_index(path).metadata == {"x": float("inf"), "y": float("-inf")}
    path.write_text(f'{{"metadata":{{"total_size":{digits}}},"weight_map":{{"w":"w.safetensors"}}}}')
    (fault,) = explain_index(path).faults
    assert fault.code == "IDX_SIZE_MISMATCH"
    assert "… (5,001 characters), not a number of bytes" in fault.message
    path.unlink()
    for total in (HUGE, -HUGE, 2**64, None, "1"):
        with pytest.raises(WriteError, match="total_size is"):
            write_index(tmp_path, {"w": "w.safetensors"}, total)  # type: ignore[arg-type]
    assert not path.exists()


@FEWER
@given(mutants(), st.sampled_from(["np", "raw"]), st.sampled_from(ODD))
def test_whatever_a_file_holds_reading_ends_in_a_documented_error(
    data: bytes, framework: str, odd: Any
) -> None:
    try:
        opened = safe_open(data, framework, profile="official")
    except InvalidFileError:
        return
    for name in opened:
        for read in (
            opened.get_tensor,
            lambda name: opened.get_slice(name)[odd],
            lambda name: opened.get_slice(name)[:],
        ):
            with suppress(AccessError):
                read(name)
