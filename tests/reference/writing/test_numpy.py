"""The NumPy writer against the official library, in both directions, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given

from safetensors_reference import explain, read_header
from safetensors_reference import numpy as ours_numpy
from safetensors_reference import torch as ours_torch
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.numpy import save, save_file

from ..support import peak, raw_bytes
from .samples import NUMPY_TYPES, Sample, dicts, metadata, wanted
from .support import read_official, untouched


def arrays(samples: dict[str, Sample]) -> dict[str, Any]:
    return {name: sample.array for name, sample in samples.items()}


@given(dicts() | dicts(("plain", "read-only")), metadata())
def test_what_was_saved_is_read_by_all_readers_and_the_official_writer_writes_the_same(
    samples: dict[str, Sample], strings: dict[str, str] | None
) -> None:
    file = save(arrays(samples), strings)
    assert read_official(file) == wanted(samples)
    explanation = explain(file, "text")
    assert (explanation.faults, read_header(file).metadata) == ([], strings)
    assert explanation.header is not None
    for info in explanation.header.tensors.values():  # WRT-04
        assert (explanation.header.data_start + info.begin) % np.dtype(NUMPY_TYPES[info.dtype]).itemsize == 0
    turned = None if strings is None else dict(reversed(strings.items()))
    assert save(dict(reversed(arrays(samples).items())), turned) == file
    # The official writer has other layouts, no order of metadata, and gets one file wrong (WRT-05).
    plain = all(s.array.flags.c_contiguous and s.array.dtype.isnative for s in samples.values())
    if plain and len(strings or ()) < 2 and (samples or strings != {}):
        assert bytes(safetensors.numpy.save(arrays(samples), strings)) == file
    for ours in (ours_numpy, ours_torch):
        loaded: dict[str, Any] = dict(ours.load(file))
        assert ours.save(loaded, strings) == file
        found = {n: (tuple(t.shape), raw_bytes(t)) for n, t in loaded.items()}
        assert found == {name: (s.shape, s.raw) for name, s in samples.items()}


@pytest.mark.parametrize(
    ("code", "shape", "size"),
    [("F4", (2, 3), 3), ("F4", (0, 7), 0), ("F6_E2M3", (4,), 3), ("F6_E3M2", (2, 4), 6)],
)
def test_packed_tensors_and_plain_data_of_subclasses(
    code: str, shape: tuple[int, ...], size: int, tmp_path: Path
) -> None:
    class Labelled(np.ndarray[Any, Any]):
        pass

    plain = np.arange(4.0)
    mapped = np.memmap(tmp_path / "map", np.int16, "w+", shape=(3,))
    mapped[:] = (1, 2, 3)
    scalar: Any = plain[1]
    tensors: dict[str, Any] = {
        "packed": PackedTensor(code, shape, np.arange(2 * size, dtype=np.uint8)[::2]),
        "labelled": plain.view(Labelled),
        "mapped": mapped,
        "records": np.rec.array(np.arange(3)),
        "noted": plain.astype(np.dtype(plain.dtype, metadata={"unit": "m"})),
        "scalar": scalar,
    }
    save_file(tensors, tmp_path / "file", {"z": "1", "é": "3"})
    assert read_official((tmp_path / "file").read_bytes()) == {
        "packed": (code, shape, bytes(range(0, 2 * size, 2))),
        "labelled": ("F64", (4,), plain.tobytes()),
        "mapped": ("I16", (3,), b"\1\0\2\0\3\0"),
        "records": ("I64", (3,), np.arange(3).tobytes()),
        "noted": ("F64", (4,), plain.tobytes()),
        "scalar": ("F64", (), scalar.tobytes()),
    }


DTYPE, SIZE = ("WRT_UNSUPPORTED_DTYPE", "WRT-09"), ("WRT_SIZE_MISMATCH", "WRT-17")
REFUSED: list[tuple[Any, tuple[str, str]]] = [
    *((np.zeros(1, code), DTYPE) for code in ("c16", "g", "O", "U1", "S1", "M8[s]", "m8[s]", "V1", "u1,f4")),
    # E4M3 without the suffix "fn" is another type.
    *((np.zeros(2, t), DTYPE) for t in (ml_dtypes.int4, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3)),
    *((odd, DTYPE) for odd in (np.ma.array([1, 2], mask=[False, True]), np.ma.masked, [1.0], None)),
    *(
        (PackedTensor(code, shape, np.zeros(size, kind)), told)
        for code, shape, size, kind, told in (
            ("F4", (2,), 1, "f2", SIZE), ("F4", (2, 2), (2, 1), "u1", SIZE), ("F6_E2M3", (8,), 5, "u1", SIZE),
            ("F4", (3,), 2, "u1", SIZE), ("U8", (1,), 1, "u1", DTYPE), ("F5", (8,), 5, "u1", DTYPE),
            ("F4", (0, 2**64), 0, "u1", ("SHP_OVERFLOW", "WRT-20")),
        )
    ),
    (PackedTensor("F4", (2,), b"\0"), SIZE),
]  # fmt: skip


@pytest.mark.parametrize(("value", "told"), REFUSED)
def test_refused_before_anything_is_written(value: Any, told: tuple[str, str], target: Path) -> None:
    with pytest.raises(WriteError, match="last one") as caught:
        save_file({"first": np.zeros(1000), "last one" + "😀" * 5000: value}, target)
    assert len(str(caught.value)) < 1100
    assert (caught.value.code, caught.value.rule) == told
    assert untouched(target)


def test_packed_tensors_are_equal_by_what_they_hold() -> None:
    def packed(*raw: int, dtype: str = "F4") -> PackedTensor[Any]:
        return PackedTensor(dtype, (4,), np.array(raw, np.uint8))

    assert packed(1, 2) == packed(1, 2)
    assert packed(1, 2) not in (packed(1, 3), packed(1), packed(1, 2, dtype="F6_E2M3"), "x")
    with pytest.raises(TypeError, match="unhashable"):
        hash(packed(1, 2))


def test_contiguous_arrays_are_not_copied(tmp_path: Path) -> None:
    size = 16 << 20
    array = np.ones(size, np.uint8)
    turned = {str(i): np.ones((2, size // 2), np.uint8).T for i in range(3)}
    path = tmp_path / "model.safetensors"

    assert peak(lambda: save_file({"a": array}, path)) < 1 << 20
    # One copy at a time, however many arrays need one.
    assert peak(lambda: save_file(turned, path)) < 2.5 * size
    assert peak(lambda: save({"a": array})) < 2.5 * size
    assert peak(lambda: save(turned)) < 5 * size, "three in the file, and one copy"
