"""Sharded loading with real processes: the right bytes on every rank, and errors that reach all of them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from safetensors_reference.device.ranks.model import RankError, ShardedModel, _check_distinct
from safetensors_reference.rules.errors import AccessError

from ...naive import BITS
from ..support import data_of, file_of, slices_of, write
from .launcher import Launcher

Tensors = list[tuple[str, str, list[int]]]
SMALL: Tensors = [("a", "F32", [8, 6]), ("b", "BF16", [4, 10, 2]), ("c", "I64", [12]), ("d", "U8", [40])]
MANY: Tensors = [*SMALL, *((f"e{n}", "I16", [40 + n]) for n in range(20))]
"""Enough for several rounds of 200 bytes a rank."""
KINDS = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64}


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    running = Launcher()
    yield running
    running.close()


def expected(
    code: str, shape: Sequence[int], raw: bytes, dim: int | None, world: int, rank: int
) -> tuple[tuple[int, ...], bytes] | None:
    """Shape and bytes of a slice; None where a byte would be cut."""
    if dim is None:
        return tuple(shape), raw
    slices = slices_of(code, shape, dim, world)
    return None if slices is None else (slices[rank][0], bytes(raw[at] for at in slices[rank][1]))


def check_everything(answers: list[Any], tensors: Tensors, raws: dict[str, bytes], uneven: str) -> int:
    """Compare all that ``everything`` got; return how many slices there were."""
    count = 0
    world = len(answers)
    for rank, answer in enumerate(answers):
        assert len(answer) == sum(1 + len(shape) for _, _, shape in tensors)
        for name, code, shape in tensors:
            for dim in [None, *range(len(shape))]:
                got = answer[f"{name}|{dim}"]
                want = expected(code, shape, raws[name], dim, world, rank)
                odd = dim is not None and shape[dim] % world
                if odd and uneven == "refuse":
                    text = f"dimension {dim} of size {shape[dim]} cannot be cut evenly among {world} ranks"
                    assert f'tensor "{name}": {text}' in got
                    continue
                if want is None:
                    assert "would split bytes that several elements share" in got
                    continue
                count += 1
                kind, dims, raw = got
                assert raw == want[1], (name, dim)
                if kind == torch.float4_e2m1fn_x2:
                    dims = (*dims[:-1], dims[-1] * 2)
                assert dims == want[0]
                assert kind == KINDS.get(code, kind)
    return count


def raws_of(tensors: Tensors, file: bytes) -> dict[str, bytes]:
    out, at, data = {}, 0, data_of(file)
    for name, code, shape in tensors:
        size = int(np.prod(shape, dtype=np.int64)) * BITS[code] // 8
        out[name] = data[at : at + size]
        at += size
    return out


# Each dtype in shapes that divide by 2 and 4, that do not, and that are empty; a byte in front misaligns all.
ALL: Tensors = [("first", "U8", [1])]
for _code in sorted(BITS):
    ALL += [(f"{_code} {_s}", _code, _s) for _s in ([4, 8], [8, 3, 4], [5, 8], [1, 8], [0, 4], [4, 0])]
    ALL += [(f"{_code} scalar", _code, [])] if BITS[_code] >= 8 else []


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("world", "uneven", "most", "shortest", "store"),
    [
        (2, "refuse", 1 << 28, 1 << 15, "file"),
        (4, "split", 300, 12, "tcp"),
        pytest.param(2, "split", 1, 1 << 15, "file", marks=pytest.mark.nightly),
        pytest.param(1, "refuse", 100, 100, "tcp", marks=pytest.mark.nightly),
    ],
)
def test_every_dtype_along_every_dimension(
    launcher: Launcher, tmp_path: Path, world: int, uneven: str, most: int, shortest: int, store: str
) -> None:
    file = file_of(ALL, 3)
    path = write(tmp_path, file)
    answers = launcher.run("everything", world, tmp_path, str(path), uneven, most, shortest, store=store)
    assert check_everything(answers, ALL, raws_of(ALL, file), uneven) > 250 * world


@pytest.mark.parametrize("indexed", [True, False])
def test_several_files(launcher: Launcher, tmp_path: Path, indexed: bool) -> None:
    parts: dict[str, Tensors] = {
        f"part-{n}.safetensors": [(f"{n}{name}", code, shape) for name, code, shape in SMALL]
        for n in range(5)
    }
    raws: dict[str, bytes] = {}
    for number, (name, some) in enumerate(parts.items()):
        file = file_of(some, number)
        write(tmp_path, file, name)
        raws |= raws_of(some, file)
    weight_map = {tensor: name for name, some in parts.items() for tensor, _, _ in some}
    index = tmp_path / "model.safetensors.index.json"
    total = sum(map(len, raws.values()))
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    given = str(index) if indexed else [str(tmp_path / name) for name in parts]
    answers = launcher.run("everything", 2, tmp_path, given, "refuse", 150, 1 << 15)
    tensors = [*itertools.chain(*parts.values())]
    assert check_everything(answers, tensors, raws, "refuse") == 2 * 5 * (1 + 2 + 1 + 3 + 1 + 1 + 1 + 1)


def test_a_group_of_some_ranks(launcher: Launcher, tmp_path: Path) -> None:
    file = file_of(SMALL)
    raws = raws_of(SMALL, file)
    answers = launcher.run("part_of_the_ranks", 4, tmp_path, str(write(tmp_path, file)))
    for outside in (answers[0], answers[2]):
        assert outside["type"] == "AccessError"
        assert "does not belong to the given process group" in outside["text"]
    for rank, answer in enumerate((answers[1], answers[3])):
        assert answer["rank"] == rank
        for name, code, shape, dim in (("a", "F32", [8, 6], 1), ("b", "BF16", [4, 10, 2], 0)):
            assert answer["got"][name][1:] == expected(code, shape, raws[name], dim, 2, rank)


def test_an_error_of_one_rank_reaches_all_and_the_group_lives_on(launcher: Launcher, tmp_path: Path) -> None:
    path = write(tmp_path, file_of(MANY))
    other = write(tmp_path, file_of([("A", *MANY[0][1:]), *MANY[1:]]), "other.safetensors")
    second = write(tmp_path, file_of([("z", "U8", [3])]), "second.safetensors")
    answers = launcher.run("errors", 3, tmp_path, str(path), str(other), str(second))
    disk = ("UnreadableError", "Input/output error")
    own = {
        "no file": ("UnreadableError", "No such file"),
        "argument": ("AccessError", "threads must be"),
        "no tensor": ("NoSuchTensorError", 'no tensor "none"'),
        **dict.fromkeys(("read 1", "read 3", "read 5"), disk),
        "memory": ("DeviceError", "no memory left"),
        **dict.fromkeys(("interrupt", "ctrl-c"), ("KeyboardInterrupt", "")),
        "cut": ("AccessError", "became shorter"),
        "left": ("AccessError", "cannot be cut evenly"),
    }
    for what, (kind, text) in own.items():
        for rank, answer in enumerate(answers):
            got = answer[what]
            if rank == 1:
                assert (got["type"], text in got["text"]) == (kind, True), (what, got)
                continue
            assert got["type"] == "RankError", (what, got)
            assert got["ranks"] == (1,)
            assert got["text"].startswith("rank 1 failed: "), got
            assert (text or "interrupted") in got["text"], (what, got)
            if what not in ("interrupt", "ctrl-c", "left"):
                assert got["code"] == answers[1][what]["code"]
    alike = {
        "other header": "the header or size on rank 1 differs from rank 0; give all ranks the same file",
        "fewer files": "rank 1 has 1 file, but rank 0 has 2",
        "other call": 'rank 1 requested {"a": None}, but rank 0 requested {"b": None}',
    }
    for what, text in alike.items():
        for answer in answers:
            got = answer[what]
            assert (got["type"], got["ranks"]) == ("RankError", (1,))
            assert text in got["text"]
    for answer in answers:
        assert answer["left and gone on"]["type"] is None
        assert answer["closed"]["code"] == "API_CLOSED"


@pytest.mark.parametrize("turns", [6, pytest.param(16, marks=pytest.mark.nightly)])
def test_interrupts_at_random_moments(launcher: Launcher, tmp_path: Path, turns: int) -> None:
    path = write(tmp_path, file_of([(f"t{n}", "U16", [512, 256]) for n in range(100)]))
    answers = launcher.run("at_random_moments", 2, tmp_path, str(path), turns)
    others = [kind for rank, answer in enumerate(answers) for kind in answer["kinds"][1 - rank :: 2]]
    for rank, answer in enumerate(answers):
        assert set(answer["kinds"][rank::2]) == {"KeyboardInterrupt"}
    # An interrupt after every rank has loaded everything affects only the interrupted rank.
    assert set(others) <= {"RankError", None}
    assert "RankError" in others


@pytest.mark.nightly
def test_a_second_interrupt_does_not_wait(launcher: Launcher, tmp_path: Path) -> None:
    path = write(tmp_path, file_of(MANY))
    other, me = launcher.run("insisting", 2, tmp_path, str(path))
    assert me["type"] == "KeyboardInterrupt"
    assert 0.7 < me["seconds"] < 2
    assert (other["type"], other["ranks"]) == ("RankError", (1,))
    assert "interrupted twice" in other["text"]
    assert other["seconds"] < 10  # it learns that in the middle of collectives, well within the timeout of 20


def test_an_error_that_is_kept_keeps_no_memory(launcher: Launcher, tmp_path: Path) -> None:
    file = file_of([(f"m{n}", "I16", [6, 4]) for n in range(30)])
    for rank, answer in enumerate(launcher.run("kept_errors", 2, tmp_path, str(write(tmp_path, file)))):
        assert answer["errors"] == 3
        assert answer["made"][0] > 0
        assert answer["made"] == sorted(set(answer["made"]))
        # After the errors, with all tensors, with one and with none.
        assert answer["held"] == [0, 1, 1, 0]
        want = expected("I16", [6, 4], data_of(file)[-48:], 1, 2, rank)
        assert answer["raw"][1:] == want


NIGHT = pytest.mark.nightly


@pytest.mark.parametrize(
    ("where", "victim", "store", "hangs"),
    [
        ("reading", 1, "file", False),
        ("collective", 0, "tcp", False),
        ("collective", 1, "file", True),
        pytest.param("reading", 0, "file", False, marks=NIGHT),
        pytest.param("reading", 0, "tcp", False, marks=NIGHT),
        pytest.param("reading", 1, "file", True, marks=NIGHT),
        *(pytest.param("collective", victim, "file", False, marks=NIGHT) for victim in (0, 1)),
    ],
)
def test_a_rank_that_is_killed_or_hangs(
    launcher: Launcher, tmp_path: Path, where: str, victim: int, store: str, hangs: bool
) -> None:
    path = str(write(tmp_path, file_of(MANY)))
    dead = [] if hangs else [victim]
    answers = launcher.run("failing", 3, tmp_path, path, victim, where, hangs, store=store, dead=dead)
    for rank, answer in enumerate(answers):
        if rank in dead:
            continue
        first = answer["first"]
        assert first["type"] == "RankError", first
        assert first["seconds"] < (8 if hangs else 10)
        if store == "tcp":
            assert "store of the process group does not respond" in first["text"]
            assert "rank 0" in first["text"]
        elif rank != victim:
            assert first["ranks"] == (victim,), first
            assert f"rank {victim} " in first["text"]
        assert answer["again"]["seconds"] < 0.5
        assert "start all ranks again" in answer["again"]["text"]


def test_the_first_to_fail_stays_until_the_others_know(launcher: Launcher, tmp_path: Path) -> None:
    path = str(write(tmp_path, file_of(MANY)))
    answers = launcher.run("first_to_go", 3, tmp_path, path, store="tcp", hurry=True)
    assert answers[0]["type"] == "UnreadableError"
    for answer in answers[1:]:
        assert answer["ranks"] == (0,)
        assert answer["text"].startswith("rank 0 failed: ")


@pytest.mark.parametrize(
    ("backend", "on_accelerators", "words"),
    [
        ("cuda:gloo", False, 'no backend for cpu; it has only "cuda:gloo"'),
        # Before anything is read: there is no such file.
        ("cpu:gloo,cuda:gloo", True, "gloo cannot scatter tensors on cuda"),
    ],
)
def test_a_group_that_cannot_be_used(
    launcher: Launcher, tmp_path: Path, backend: str, on_accelerators: bool, words: str
) -> None:
    missing = str(tmp_path / "missing")
    for answer in launcher.run("other_group", 2, tmp_path, missing, backend, on_accelerators):
        assert (answer["type"], words in answer["text"]) == ("AccessError", True)


def test_ranks_that_share_an_accelerator_are_refused() -> None:
    _check_distinct([None, None])
    _check_distinct(["a", "b"])
    with pytest.raises(RankError, match="rank 0 and rank 2 use the same device") as caught:
        _check_distinct(["a", "b", "a"])
    assert caught.value.ranks == (0, 2)


def test_scattering_needs_two_rounds_of_memory(launcher: Launcher, tmp_path: Path) -> None:
    path = write(tmp_path, file_of([(f"t{n}", "U8", [64, 512]) for n in range(16)]))
    most = 64 << 10
    for answer in launcher.run("scattering", 2, tmp_path, str(path), most):
        assert most < answer["beside"] <= 2.1 * most


def test_without_a_group(tmp_path: Path) -> None:
    path = write(tmp_path, file_of(MANY))
    with pytest.raises(AccessError, match="init_process_group"):
        ShardedModel(path, device="cpu")
    with pytest.raises(AccessError, match="timeout must be"):
        ShardedModel(path, device="cpu", timeout=0)
    assert "RANK" not in os.environ
