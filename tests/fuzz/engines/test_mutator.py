"""The grammar as libFuzzer's mutator, and the files beside a target; none of it needs atheris."""

from __future__ import annotations

import random
import sys
import zipfile
from pathlib import Path

import pytest

from safetensors_corpus.features.tree import Obj, parse
from safetensors_fuzz.engines.atheris import mutator as mutator_module
from safetensors_fuzz.engines.atheris.files import (
    LARGEST_SEED,
    LONGEST_WORD,
    dictionary,
    main,
    quoted,
    seeds,
    write_all,
)
from safetensors_fuzz.engines.atheris.mutator import Mutator
from safetensors_fuzz.engines.campaign import stage_of
from safetensors_fuzz.grammar.grammar import MAX_FAULTS
from safetensors_fuzz.loop.question import opinion
from safetensors_reference import explain

from ..samples import built, raw


def made(mutator: Mutator, count: int, max_size: int = 1024) -> list[bytes]:
    """Mutate and cross as libFuzzer does: mostly what came out before."""
    rng = random.Random(7)
    pool = [b"\x00"]
    out = []
    for seed in range(count):
        if rng.random() < 0.5:
            data = mutator.mutate(rng.choice(pool), max_size, seed)
        else:
            data = mutator.cross(rng.choice(pool), rng.choice(pool), max_size, seed)
        out.append(data)
        pool.append(data)
        del pool[:-200]
    return out


@pytest.mark.parametrize("max_size", [1, 7, 8, 10, 40, 64, 200, 1024])
def test_no_input_is_larger_than_allowed_or_empty(max_size: int) -> None:
    assert all(0 < len(data) <= max_size for data in made(Mutator(), 400, max_size))


def test_most_inputs_are_trees_and_many_get_deep() -> None:
    mutator = Mutator()
    inputs = made(mutator, 1500)
    assert inputs == made(Mutator(), 1500)
    assert len(set(inputs)) > 1200
    for data in inputs:
        file = mutator.known(data)
        assert file is not None
        assert len(file.faults) <= MAX_FAULTS
        assert file.render() == data
    trees = sum(type(parse(data).root) is Obj for data in inputs)
    stages = [3 if not explain(data).faults else stage_of(opinion(data).codes) for data in inputs]
    assert trees >= 0.6 * len(inputs)
    assert sum(stage >= 1 for stage in stages) >= 0.6 * len(inputs)
    assert sum(stage == 3 for stage in stages) >= 0.1 * len(inputs)


def test_a_joined_file_keeps_the_data_of_both() -> None:
    mutator = Mutator()
    one, other = built(("a", "U8", [2], b"AA")).render(), built(("b", "U8", [3], b"BBB")).render()
    joined = [mutator.cross(one, other, 1024, seed) for seed in range(60)]
    whole = [data for data in joined if not explain(data).faults and b'"a"' in data and b'"b"' in data]
    assert whole
    assert all(data.endswith(b"AABBB") for data in whole)


def test_shapes_and_ranges_of_any_size_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutator_module, "CACHE", 16)
    entry = '{"dtype":"U8","shape":[9223372036854775808,3],"data_offsets":[4611686018427387904,2]}'
    data = raw(f'{{"a":{entry}}}', b"xx")
    mutator = Mutator()
    outputs = [mutator.mutate(data, 1024, seed) for seed in range(400)]
    outputs += [mutator.cross(data, data, 1024, seed) for seed in range(200)]
    assert max(map(len, outputs)) <= 1024
    assert len(set(outputs)) > 300


def test_the_native_mutation_gets_its_part() -> None:
    asked: list[int] = []

    def native(data: bytes, most: int) -> bytes:
        asked.append(most)
        return data + b"!" * 50

    mutator = Mutator(native)
    outputs = [mutator.mutate(b"12345678{}", 20, seed) for seed in range(1000)]
    assert 20 < len(asked) < 150
    assert set(asked) == {20}
    assert sum(data == b"12345678{}!!!!!!!!!!" for data in outputs) == len(asked)


def test_the_dictionary_is_in_the_syntax_of_libfuzzer(tmp_path: Path) -> None:
    words = dictionary()
    assert all(0 < len(word) <= LONGEST_WORD for word in words)
    assert b'"data_offsets"' in words
    assert b'"F8_E4M3"' in words
    assert quoted(b'a"\\\x00\xff') == r'"a\"\\\x00\xFF"'
    write_all(tmp_path / "a" / "b", "t")
    lines = (tmp_path / "a" / "b" / "t.dict").read_text("ascii").splitlines()[1:]
    read = [line[1:-1].encode("ascii").decode("unicode_escape").encode("latin-1") for line in lines]
    assert read == list(words)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(sys, "argv", ["files", str(tmp_path / "file"), "t"])
    with pytest.raises(SystemExit, match=r"file'$"):
        main()


def test_seeds_are_small_of_every_kind_and_none_twice() -> None:
    found = seeds()
    assert len(set(found.values())) == len(found)
    assert all(0 < len(data) <= LARGEST_SEED for data in found.values())
    valid = sum(not explain(data).faults for data in found.values())
    assert 30 < valid < len(found) - 60
    rules = {fault.rule for data in found.values() for fault in explain(data).faults}
    assert {"OFF-07", "HDR-09", "FRM-03", "DTY-01", "SHP-02", "MET-01"} <= rules


def test_the_seed_corpus_is_the_same_on_every_build(tmp_path: Path) -> None:
    first, second = (tmp_path / f"{target}_seed_corpus.zip" for target in "ab")
    write_all(tmp_path, "a")
    write_all(tmp_path, "b")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == seeds()
