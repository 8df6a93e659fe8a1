"""The torch writer against the official library, in both directions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from safetensors_reference import explain
from safetensors_reference.arrays.packed import PackedTensor
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.torch import save, save_file

from ..strategies import FEWER
from .samples import metadata, names
from .support import Row, read_official

TORCH_TYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8, "I8": torch.int8,
    "U16": torch.uint16, "I16": torch.int16, "F16": torch.float16, "BF16": torch.bfloat16,
    "U32": torch.uint32, "I32": torch.int32, "F32": torch.float32,
    "U64": torch.uint64, "I64": torch.int64, "F64": torch.float64, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F4": torch.float4_e2m1fn_x2,
}  # fmt: skip
LAYOUTS = ("plain", "permuted", "gaps", "expanded", "offset")


def content(code: str, shape: tuple[int, ...], rng: random.Random) -> tuple[torch.Tensor, bytes]:
    """Return a plain tensor of random bits, and these."""
    dtype = TORCH_TYPES[code]
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    bits = bytes(rng.randrange(2) for _ in range(size)) if code == "BOOL" else rng.randbytes(size)
    if not size:
        return torch.empty(shape, dtype=dtype), b""
    return torch.frombuffer(bytearray(bits), dtype=torch.uint8).view(dtype).reshape(shape), bits


def words(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as integers: torch cannot copy every type."""
    return tensor.view(
        {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    )


def lay_out(plain: torch.Tensor, layout: str, rng: random.Random) -> torch.Tensor:
    """Return a tensor of the same elements as ``plain`` that lies in memory another way."""
    ints = words(plain)
    if layout == "permuted":
        order = rng.sample(range(ints.dim()), ints.dim())
        back = [order.index(i) for i in range(ints.dim())]
        ints = ints.permute(order).contiguous().permute(back)
    elif layout == "gaps":
        steps = [rng.randint(1, 3) for _ in ints.shape]
        room = torch.ones([d * s for d, s in zip(ints.shape, steps, strict=True)], dtype=ints.dtype)
        view = room[tuple(slice(None, None, s) for s in steps)]
        view.copy_(ints)
        ints = view
    elif layout == "offset":
        room = torch.ones(ints.numel() + 3, dtype=ints.dtype)
        room[1 : 1 + ints.numel()] = ints.reshape(-1)
        ints = room[1 : 1 + ints.numel()].view(ints.shape)
    return ints.view(plain.dtype)


@st.composite
def samples(draw: DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> tuple[torch.Tensor, Row]:
    """A tensor, and what the file must say about it."""
    code = draw(st.sampled_from(sorted(TORCH_TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4, min_size=int(code == "F4"))))
    layout = draw(st.sampled_from(layouts))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    if layout == "expanded":
        plain, raw = content(code, shape[1:], rng)
        times = draw(st.integers(0, 3))
        if code == "F4" and len(shape) == 1:
            plain, shape = plain.reshape(1), (times, 1)
        else:
            shape = (times, *shape[1:])
        tensor, raw = words(plain).expand(shape).view(plain.dtype), raw * times
    else:
        plain, raw = content(code, shape, rng)
        tensor = lay_out(plain, layout, rng)
    logical = (*shape[:-1], 2 * shape[-1]) if code == "F4" else shape
    return tensor, (code, logical, raw)


def dicts(layouts: tuple[str, ...] = LAYOUTS) -> st.SearchStrategy[dict[str, tuple[torch.Tensor, Row]]]:
    return st.dictionaries(names(), samples(layouts), max_size=4)


def tensors(drawn: dict[str, tuple[torch.Tensor, Row]]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, (tensor, _) in drawn.items()}


def wanted(drawn: dict[str, tuple[torch.Tensor, Row]]) -> dict[str, Row]:
    return {name: row for name, (_, row) in drawn.items()}


@FEWER
@given(dicts(), metadata())
def test_the_official_reader_gets_back_what_was_saved(
    drawn: dict[str, tuple[torch.Tensor, Row]], strings: dict[str, str] | None
) -> None:
    file = save(tensors(drawn), strings)
    assert read_official(file) == wanted(drawn)
    header = explain(file, "text").header
    assert header is not None
    assert header.metadata == strings


@FEWER
@given(dicts(("plain", "offset")), metadata(max_size=1))
def test_bytes_are_those_of_the_official_writer(
    drawn: dict[str, tuple[torch.Tensor, Row]], strings: dict[str, str] | None
) -> None:
    if not drawn and strings == {}:
        return  # the one file that the official writer gets wrong (WRT-05)
    file = bytes(safetensors.torch.save(tensors(drawn), strings))
    assert save(tensors(drawn), strings) == file
    header = explain(file).header
    assert header is not None
    data = file[header.data_start :]
    found = {i.name: (i.dtype, i.shape, data[i.begin : i.end]) for i in header.tensors.values()}
    assert found == wanted(drawn)


@pytest.mark.parametrize("code", sorted(TORCH_TYPES))
def test_every_dtype_in_every_layout(code: str) -> None:
    rng = random.Random(code)
    plain, raw = content(code, (2, 3, 4), rng)
    tensors = {layout: lay_out(plain, layout, rng) for layout in ("permuted", "gaps", "offset")}
    row = (code, (2, 3, 8 if code == "F4" else 4), raw)
    wanted_rows: dict[str, Row] = {"plain": row, **dict.fromkeys(tensors, row)}
    if code != "F4":
        tensors["scalar"], raw = content(code, (), rng)
        wanted_rows["scalar"] = (code, (), raw)
    assert read_official(save({"plain": words(plain).clone().view(plain.dtype), **tensors})) == wanted_rows


def test_file_and_memory_hold_the_same(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 3)
    state = {"weight": layer.weight, "bias": layer.bias, "turned": layer.weight.detach().clone().t()}
    strings = {"z": "1", "format": "pt"}
    path = tmp_path / "model.safetensors"
    save_file(state, path, strings)
    assert path.read_bytes() == save(state, strings)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == strings
        for name, tensor in state.items():
            assert torch.equal(file.get_tensor(name), tensor)
    assert layer.weight.requires_grad


def test_conjugate_and_negative_views() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    negative = z.clone().conj().imag
    assert negative.is_neg()
    loaded = safetensors.torch.load(save({"conj": z.conj(), "neg": negative, "sub": z.clone()[1:].conj()}))
    assert loaded["conj"].tolist() == [1 - 2j, 3 + 4j]
    assert loaded["neg"].tolist() == [-2, 4]
    assert loaded["sub"].tolist() == [3 + 4j]


def test_plain_data_of_subclasses() -> None:
    class Labelled(torch.Tensor):  # type: ignore[misc] # torch has no types here
        pass

    tensor = torch.arange(3).as_subclass(Labelled)
    rows = read_official(
        save({"a": tensor, "b": torch.nn.Buffer(torch.zeros(1)), "c": torch.nn.Parameter(torch.ones(1))})
    )
    assert rows["a"] == ("I64", (3,), bytes([0] * 8 + [1] + [0] * 7 + [2] + [0] * 7))
    assert (rows["b"][2], rows["c"][2]) == (bytes(4), b"\0\0\x80\x3f")


@pytest.mark.parametrize(
    ("code", "shape", "size"), [("F4", (2, 3), 3), ("F6_E2M3", (4,), 3), ("F6_E3M2", (0, 3), 0)]
)
def test_packed_tensors(code: str, shape: tuple[int, ...], size: int) -> None:
    raw = torch.arange(2 * size, dtype=torch.uint8)[::2]
    file = save({"p": PackedTensor(code, shape, raw), "x": torch.ones(1)})
    assert read_official(file)["p"] == (code, shape, bytes(range(0, 2 * size, 2)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_tensors_on_a_gpu() -> None:
    for code in sorted(TORCH_TYPES):
        plain, raw = content(code, (2, 3, 4), random.Random(code))
        there = words(plain).cuda().transpose(0, 2).contiguous().transpose(0, 2).view(plain.dtype)
        assert read_official(save({"a": there})) == {"a": (code, (2, 3, 8 if code == "F4" else 4), raw)}
        with pytest.raises(WriteError, match="share memory"):
            save({"a": there, "b": there[0]})
