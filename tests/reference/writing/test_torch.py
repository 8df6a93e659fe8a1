"""The torch writer against the official library, in both directions; refusals; and views that share bytes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from safetensors_reference import explain
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.torch import save_model
from safetensors_reference.writing.torch import MemoryRegion, regions_overlap, save, save_file, shared_groups

from ..strategies import FEWER
from .samples import metadata, names
from .support import Row, listing, read_official

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


@pytest.mark.usefixtures("simulated")
def test_tensors_on_a_device() -> None:
    for code in sorted(TORCH_TYPES):
        plain, raw = content(code, (2, 3, 4), random.Random(code))
        there = words(plain).to("simulated:1").transpose(0, 2).contiguous().transpose(0, 2).view(plain.dtype)
        assert read_official(save({"a": there})) == {"a": (code, (2, 3, 8 if code == "F4" else 4), raw)}
        with pytest.raises(WriteError, match="share memory"):
            save({"a": there, "b": there[0]})


# ---- sharing ----


def test_views_without_a_common_byte_are_independent() -> None:
    fused = torch.arange(24.0).reshape(4, 6)
    parts = {"q": fused[:, :2], "k": fused[:, 2:4], "v": fused[:, 4:]}
    loaded = safetensors.torch.load(save(parts))
    assert all(torch.equal(loaded[name], part) for name, part in parts.items())
    halves = {"even": fused.view(-1)[::2], "odd": fused.view(-1)[1::2]}
    assert safetensors.torch.load(save(halves))["odd"].tolist() == list(range(1, 24, 2))


BASE = torch.arange(12.0)

SHARING: dict[str, dict[str, torch.Tensor]] = {
    "same tensor": {"a": BASE, "b": BASE},
    "alias": {"a": BASE, "b": BASE.view(3, 4)},
    "transposed": {"a": BASE.view(3, 4), "b": BASE.view(3, 4).t()},
    "part": {"a": BASE, "b": BASE[5:6]},
    "one element": {"a": BASE[:6], "b": BASE[5:]},
    "crossing": {"a": BASE.view(3, 4)[1], "b": BASE.view(3, 4)[:, 2]},
    "detached": {"a": BASE, "b": BASE.detach().requires_grad_()},
    "another dtype": {"a": BASE, "b": BASE.view(torch.uint8)[40:41]},
    "another storage": {"a": BASE, "b": torch.from_numpy(BASE.numpy())},
    "conjugate": {"a": (z := torch.zeros(1, dtype=torch.complex64)), "b": z.conj()},
    "expanded": {"a": (one := torch.zeros(1)), "b": one.expand(3)},
    "last of many": {**{str(i): torch.zeros(1) for i in range(50)}, "a": BASE, "b": BASE},
}


@pytest.mark.parametrize("what", SHARING)
def test_sharing_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(WriteError, match='2 tensors share memory: "a", "b"') as caught:
        save_file(SHARING[what], tmp_path / "model.safetensors")
    assert (caught.value.code, caught.value.rule) == ("WRT_SHARED_STORAGE", "WRT-16")
    assert listing(tmp_path) == []


def test_packed_tensors_share_too() -> None:
    raw = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(WriteError, match="share memory"):
        save({"a": raw, "b": PackedTensor("F4", (2,), raw[2:])})


def test_tensors_without_elements_share_nothing() -> None:
    assert len(read_official(save({"a": BASE, "b": BASE[:0], "c": BASE[3:3]}))) == 3


def test_the_error_names_a_few_of_many() -> None:
    with pytest.raises(WriteError, match="100 tensors share memory") as caught:
        save({str(i): BASE for i in range(100)})
    assert len(str(caught.value)) < 200


# ---- refusals ----


def freed() -> torch.Tensor:
    tensor = torch.zeros(8)
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(3)


def complex_half() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.empty(1, dtype=torch.complex32)


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8)


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


def half_scalar() -> torch.Tensor:
    return torch.zeros((), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


def u8(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.uint8)


REFUSED: dict[str, tuple[Any, str, str]] = {
    "complex128": (lambda: torch.zeros(1, dtype=torch.complex128), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "complex32": (complex_half, "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "quantised": (quantised, "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "a list": (lambda: [1.0], "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "a NumPy array": (lambda: torch.zeros(1).numpy(), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "sparse": (lambda: torch.zeros(3).to_sparse(), "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "mkldnn": (lambda: torch.zeros(3).to_mkldnn(), "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "nested": (nested, "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "fake": (fake, "WRT_NOT_CONTIGUOUS", "WRT-07"),
    "meta": (lambda: torch.zeros(3, device="meta"), "WRT_SIZE_MISMATCH", "WRT-17"),
    "lazy": (torch.nn.parameter.UninitializedParameter, "WRT_SIZE_MISMATCH", "WRT-17"),
    "freed": (freed, "WRT_SIZE_MISMATCH", "WRT-17"),
    "F4 scalar": (half_scalar, "WRT_SIZE_MISMATCH", "WRT-20"),
    "packed bytes": (lambda: PackedTensor("F4", (2,), b"\0"), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "packed floats": (lambda: PackedTensor("F4", (2,), torch.zeros(1)), "WRT_SIZE_MISMATCH", "WRT-17"),
    "packed rows": (lambda: PackedTensor("F4", (2,), u8(1, 1)), "WRT_SIZE_MISMATCH", "WRT-17"),
    "packed too short": (lambda: PackedTensor("F4", (4,), u8(1)), "WRT_SIZE_MISMATCH", "WRT-17"),
    "packed whole bytes": (lambda: PackedTensor("U8", (1,), u8(1)), "WRT_UNSUPPORTED_DTYPE", "WRT-09"),
    "packed meta": (lambda: PackedTensor("F4", (2,), u8(1).to("meta")), "WRT_SIZE_MISMATCH", "WRT-17"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_anything_is_written(what: str, tmp_path: Path) -> None:
    make, code, rule = REFUSED[what]
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(WriteError, match="last one") as caught:
        save_file({"first": torch.zeros(1000), "last one": make()}, path)
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == [path.name]


class Refusing(torch.Tensor):  # type: ignore[misc] # torch has no types here
    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:
        raise RuntimeError("a second\nline")


class Zero(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch._efficientzerotensor((2,)))


def within(transform: Callable[[Callable[[torch.Tensor], torch.Tensor]], Any]) -> bytes:
    """Save a tensor as a transformed function sees it."""
    saved: dict[str, bytes] = {}
    transform(lambda x: saved.setdefault("w", save({"w": x})) and x.sum())(torch.ones(3, 2))
    return saved["w"]


FOREIGN: dict[str, Callable[[], object]] = {
    "vmap": lambda: within(torch.vmap),
    "grad": lambda: within(torch.func.grad),
    "zero": lambda: save({"w": torch._efficientzerotensor((2,))}),
    "zero in a model": lambda: save_model(Zero(), "no/such/folder/x"),
    "torch function": lambda: save({"w": torch.ones(2).as_subclass(Refusing)}),
    "packed torch function": lambda: save(
        {"w": PackedTensor("F4", (2,), torch.ones(2).as_subclass(Refusing))}
    ),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_torch_raises_about_a_tensor_names_it(what: str) -> None:
    with pytest.raises(WriteError, match='tensor "w": its elements ') as caught:
        FOREIGN[what]()
    assert (caught.value.code, caught.value.rule) == ("WRT_NOT_CONTIGUOUS", "WRT-07")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["__metadata__", "\ud800", 1, None])
def test_refused_names(name: Any) -> None:
    with pytest.raises(WriteError) as caught:
        save({"a": torch.zeros(1), name: torch.zeros(1)})
    assert caught.value.code == "WRT_BAD_NAME"


def test_refused_metadata() -> None:
    with pytest.raises(WriteError) as caught:
        save({}, {"a": 1})  # type: ignore[dict-item]
    assert caught.value.code == "WRT_BAD_METADATA"


def place(
    name: str,
    address: int,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: str = "cpu",
) -> MemoryRegion:
    return MemoryRegion.of(name, device, address, itemsize, shape, strides)


def covered(address: int, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> set[int]:
    out: set[int] = set()
    for at in product(*map(range, shape)):
        first = address + itemsize * sum(i * s for i, s in zip(at, strides, strict=True))
        out.update(range(first, first + itemsize))
    return out


@st.composite
def spots(draw: DrawFn) -> tuple[MemoryRegion, set[int]]:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    strides = tuple(draw(st.lists(st.integers(0, 8), min_size=rank, max_size=rank)))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    address = 4096 + draw(st.integers(0, 40))
    name = draw(st.text("abc", min_size=1, max_size=2))
    return place(name, address, itemsize, shape, strides), covered(address, itemsize, shape, strides)


@FEWER
@given(spots())
def test_extent_and_density(spot: tuple[MemoryRegion, set[int]]) -> None:
    here, bytes_ = spot
    assert (here.address, here.end) == (min(bytes_), max(bytes_) + 1)
    assert here.dense == (len(bytes_) == here.end - here.address)


@FEWER
@given(spots(), spots())
def test_sharing(a: tuple[MemoryRegion, set[int]], b: tuple[MemoryRegion, set[int]]) -> None:
    assert regions_overlap(a[0], b[0]) == regions_overlap(b[0], a[0]) == bool(a[1] & b[1])


@FEWER
@given(st.lists(spots(), max_size=6, unique_by=lambda spot: spot[0].name))
def test_groups(spots_: list[tuple[MemoryRegion, set[int]]]) -> None:
    # Merge sets of bytes until no two touch each other.
    merged = [({here.name}, set(bytes_)) for here, bytes_ in spots_]
    while True:
        pair = next(((a, b) for a, b in combinations(merged, 2) if a[1] & b[1]), None)
        if pair is None:
            break
        merged = [m for m in merged if m is not pair[0] and m is not pair[1]]
        merged.append((pair[0][0] | pair[1][0], pair[0][1] | pair[1][1]))
    wanted = sorted(sorted(names) for names, _ in merged if len(names) > 1)
    assert sorted(sorted(p.name for p in g) for g in shared_groups(here for here, _ in spots_)) == wanted


def test_rows_and_columns_of_one_matrix() -> None:
    rows = [place(f"r{i}", 4096 + 40 * i, 4, (10,), (1,)) for i in range(10)]
    columns = [place(f"c{i}", 4096 + 4 * i, 4, (10,), (10,)) for i in range(10)]
    assert shared_groups(rows) == []
    assert shared_groups(columns) == []
    assert len(shared_groups(rows + columns)) == 1
    assert [p.name for p in shared_groups([*rows, columns[3]])[0]][:2] == ["r0", "c3"]


def test_other_devices_are_other_memory() -> None:
    a = place("a", 4096, 4, (4,), (1,))
    b = place("b", 4096, 4, (4,), (1,), "cuda:0")
    c = place("c", 4096, 4, (4,), (1,), "cuda:1")
    assert shared_groups([a, b, c]) == []
    assert [
        [p.name for p in g] for g in shared_groups([a, b, c, place("d", 4100, 1, (1,), (1,), "cuda:0")])
    ] == [["b", "d"]]


def test_many_views_of_one_storage_are_quick() -> None:
    many = [place(str(i), 4096 + 64 * i, 4, (4, 4), (4, 1)) for i in range(20_000)]
    assert shared_groups(many) == []
    assert len(shared_groups([*many, place("all", 4096, 4, (320_000,), (1,))])[0]) == 20_001


def test_a_pair_that_is_too_hard_counts_as_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = place("a", 4096, 1, (4,), (2,)), place("b", 4097, 1, (4,), (2,))
    assert not regions_overlap(a, b)

    def give_up(*_: object, **__: object) -> bool:
        raise np.exceptions.TooHardError

    monkeypatch.setattr(np, "shares_memory", give_up)
    assert regions_overlap(a, b)


def test_more_dimensions_than_numpy_has() -> None:
    # Only as many dimensions as memory can hold reach NumPy: length 1 and stride 0 do not count.
    a = place("a", 4096, 4, (1,) * 70 + (2,) * 70 + (3,), (5,) * 70 + (0,) * 70 + (2,))
    b = place("b", 4100, 4, (3,), (2,))
    assert a.dims == ((3, 8),)
    assert not regions_overlap(a, b)
