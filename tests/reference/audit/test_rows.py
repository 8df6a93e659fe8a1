"""Rows say what the explaining path says; what a server does wrong is never a fault of a file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_corpus.server import BEHAVIOURS, Behaviour, FileServer
from safetensors_reference.audit import work
from safetensors_reference.audit.results import Row, Tally, Writer, encode_row, row_address
from safetensors_reference.audit.work import MAX_KEYS, AuditOptions, file_row
from safetensors_reference.files import reading
from safetensors_reference.files.reading import Head, LocalFetcher
from safetensors_reference.header.read import examine
from safetensors_reference.model.read import explain_index
from safetensors_reference.rules.book import PROFILES

from ..support import entry, make
from .support import BROKEN, INDEX, MODEL, VALID, alike, all_alike, long_file, read_row, rows_of, write_tree

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.usefixtures("quick_retries")

LARGE_HEADER = long_file()
GOOD: set[Behaviour] = {"ranges", "chunked", "no-head", "head-forbidden", "redirect", "changed"}
"""Behaviours under which a file can be read: it is the same all the time."""
OUTCOMES: dict[Behaviour, str] = {
    "not-found": "missing",
    "unavailable": "unreachable",
    "closed": "unreachable",
    "cut": "unreachable",
    "short-unsaid": "unreachable",
    "redirect-loop": "unreachable",
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("data", [VALID, LARGE_HEADER], ids=["short", "long"])
def test_whatever_a_server_does_is_an_outcome(behaviour: Behaviour, data: bytes) -> None:
    with FileServer(data, behaviour) as server:
        (row,) = rows_of([server.url])
    if behaviour in GOOD or (data is VALID and behaviour in ("long", "long-unsaid", "from-start")):
        assert (row.verdict, row.size) == ("valid", len(data)), row.note
        assert row.requests <= 2
        assert row.read <= len(data)
    elif behaviour == "total-too-small" and data is LARGE_HEADER:
        assert row.verdict == "invalid"  # no request reaches the end, where the server contradicts itself
    else:
        assert row.verdict == OUTCOMES.get(behaviour, "no-ranges"), row.note
        assert row.note


def test_a_header_within_the_first_request_costs_one_and_a_longer_one_two() -> None:
    large = make(f'{{"w":{entry(shape="[1048576]", offsets="[0,1048576]")}}}', bytes(1 << 20))
    for data, requests, codes in (
        (VALID, 1, ()),
        (large, 1, ()),
        (LARGE_HEADER, 2, ()),
        (b"", 1, ("FRM_TOO_SHORT",)),
        (BROKEN, 1, ("OFF_OUT_OF_BOUNDS",)),
    ):
        with FileServer(data) as server:
            (row,) = rows_of([server.url])
        header = 8 + int.from_bytes(data[:8], "little")
        assert (row.codes, row.size) == (codes, len(data))
        if codes:
            continue
        assert (row.verdict, row.requests, len(server.log)) == ("valid", requests, requests)
        assert server.sent == row.read <= max(header, reading.FIRST)


@pytest.mark.parametrize("behaviour", ["unavailable", "cut", "closed"])
def test_a_failure_that_passes_is_asked_again(behaviour: Behaviour) -> None:
    with FileServer(LARGE_HEADER, behaviour) as server:
        answer, left = server.behaves, [3]

        def behaves(method: str) -> tuple[Behaviour, bytes]:
            left[0] -= 1
            return answer(method) if left[0] >= 0 else ("ranges", LARGE_HEADER)

        server.behaves = behaves  # type: ignore[method-assign]
        (row,) = rows_of([server.url])
    assert row.verdict == "valid"
    assert row.requests in (3, 5)  # aiohttp itself asks again where a connection is closed without a word


@pytest.mark.parametrize("behaviour", ["changed", "not-found", "unavailable", "no-ranges", "other-total"])
def test_what_happens_to_the_second_request_is_no_fault(behaviour: Behaviour) -> None:
    other = LARGE_HEADER[:-1] + b"\x01"
    with FileServer(LARGE_HEADER, behaviour, after=1, other=other) as server:
        (row,) = rows_of([server.url])
    if behaviour == "changed":  # asked again from the start, it is the other file
        assert (row.verdict, row.requests) == ("valid", 4)
    else:
        assert row.verdict in ("missing", "unreachable", "no-ranges", "changed")


def test_data_are_read_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "BLOCK", 50_000)
    with FileServer(LARGE_HEADER) as server:
        (row,) = rows_of([server.url], options=AuditOptions(data=True))
    assert row.data_sha256 == hashlib.sha256(LARGE_HEADER).hexdigest()
    assert row.odd_bools == 0
    assert row.requests == 2 + -(-len(LARGE_HEADER) // 50_000)


CORPUS = Path(__file__).parents[3] / "corpus" / "files"


def row_of(data: bytes) -> Any:
    return file_row(Head("x.safetensors", len(data), data))[0]


@pytest.fixture(scope="module", params=[10, pytest.param(1, marks=pytest.mark.nightly)])
def corpus(request: pytest.FixtureRequest) -> list[Any]:
    """Return the rows of the files of the corpus, or of every tenth file, and of all indexes."""
    files = sorted(path for path in CORPUS.rglob("*.safetensors") if CORPUS / "index" not in path.parents)
    return rows_of([CORPUS / "index", *files[:: request.param]], batch=200)


def test_every_file_and_index_of_the_corpus_has_the_answers_of_the_explaining_path(corpus: list[Any]) -> None:
    counts, wrong = Counter[str](), []
    for row in corpus:
        if row.kind == "model" and row.profiles is None:
            continue
        counts[row.kind] += 1
        look = examine if row.kind == "file" else explain_index
        seen = {profile: look(row.address, profile) for profile in PROFILES}
        answers = {profile: "valid" if found.valid else "invalid" for profile, found in seen.items()}
        told = {profile: getattr(row.profiles, profile) for profile in PROFILES}
        codes = {fault.code for found in seen.values() for fault in found.faults}
        if told != answers or set(row.codes) != codes or bool(codes) != (row.verdict != "valid"):
            wrong.append((row.address, told, answers, row.codes, codes))
    assert wrong == []
    assert counts["file"] > 500
    assert counts["model"] > 150


def test_a_row_of_a_valid_file() -> None:
    entries = f'"b":{entry("BOOL", "[2]", "[8,10]")},"a":{entry("F32", "[2]", "[0,8]")}'
    text = f'{{"__metadata__":{{"format":"pt","by":"me"}},{entries}}}   '
    data = make(text, bytes(8) + b"\0\1")
    row = row_of(data)
    assert (row.verdict, row.tensors, row.data_bytes, row.header_bytes) == ("valid", 2, 10, len(text))
    assert row.dtypes == (Tally("BOOL", 1, 2), Tally("F32", 1, 8))
    assert row.metadata_keys == ("format", "by")
    assert row.header_sha256 == hashlib.sha256(text.encode()).hexdigest()
    start = 8 + len(text)
    assert row.writer == Writer("dtype,shape,data_offsets", 3, start & -start, True, False, "pt")


@pytest.mark.parametrize(
    ("header", "fields", "compact"),
    [
        ("{}", "", True),
        ("{ }", "", False),
        (f'{{"a":{entry()}}}', "dtype,shape,data_offsets", True),
        ('{"a": {"shape": [4], "dtype": "U8", "data_offsets": [0, 4]}}', "shape,dtype,data_offsets", False),
        (
            '{"data_offsets":{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}}',
            "data_offsets,shape,dtype",
            True,
        ),
        ('{"__metadata__":{"a":"\\"data_offsets\\""},"a":' + entry() + "}", "dtype,shape,data_offsets", True),
    ],
)
def test_the_fingerprint_is_that_of_the_first_entry(header: str, fields: str, compact: bool) -> None:
    row = row_of(make(header, b"" if len(header) < 4 else b"abcd"))
    assert row.verdict == "valid"
    assert (row.writer.fields, row.writer.compact) == (fields, compact)


def test_what_is_written_about_a_file_has_bounds() -> None:
    keys = ",".join(f'"{n}{"k" * 5000}":"v"' for n in range(100))
    row = row_of(make(f'{{"__metadata__":{{"format":"{"f" * 9000}",{keys}}}}}' + " " * 9000))
    assert row.verdict == "valid"
    assert len(row.metadata_keys) == MAX_KEYS
    assert len(encode_row(row)) < 20_000
    assert row.writer.padding == 4096


def test_data_are_looked_at_only_when_asked_for(tmp_path: Path) -> None:
    data = make(f'{{"b":{entry("BOOL", "[5]", "[0,5]")},"c":{entry("U8", "[1]", "[5,6]")}}}', b"\0\1\2\3\1\7")
    write_tree(tmp_path, {"m.safetensors": data})
    (row,) = rows_of([tmp_path], options=AuditOptions(data=True))
    assert (row.data_sha256, row.odd_bools) == (hashlib.sha256(data).hexdigest(), 2)
    (row,) = rows_of([tmp_path])
    assert (row.data_sha256, row.odd_bools, row.requests) == (None, None, 1)


def test_a_model_has_a_row_beside_those_of_its_files(tmp_path: Path) -> None:
    """Without a shard, it is invalid; if a shard cannot be read, it is not judged."""
    second = tmp_path / "model-00002-of-00002.safetensors"
    *files, model = rows_of([write_tree(tmp_path, MODEL)])
    assert [(row.kind, row.verdict) for row in files] == [("file", "valid")] * 2
    assert (model.kind, model.verdict) == ("model", "valid")
    assert (model.shards, model.tensors, model.data_bytes, model.size) == (2, 2, 8, len(INDEX))
    assert model.dtypes == (Tally("U8", 2, 8),)
    (alone,) = rows_of([tmp_path / "model.safetensors.index.json"])
    assert alike(alone) == alike(model)
    second.unlink()
    found = [(row.verdict, row.codes) for row in rows_of([tmp_path])]
    assert found == [("valid", ()), ("invalid", ("IDX_SHARD_MISSING",))]
    second.mkdir()
    assert [row.verdict for row in rows_of([tmp_path])] == ["valid", "unreadable"]


def test_a_folder_of_very_many_files_is_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write_tree(tmp_path, MODEL | {f"{n}.safetensors": VALID for n in range(9)})
    whole = rows_of([tree])
    monkeypatch.setattr(work, "MAX_MODEL_FOLDER", 5)
    assert all_alike(rows_of([tree])) == all_alike(whole)
    assert len(whole) == 12


def test_a_file_that_is_written_to_is_changed_and_not_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def head(*_: object) -> Head:
        return Head("m.safetensors", len(VALID) - 1, VALID[:-1], "1")

    monkeypatch.setattr(LocalFetcher, "head", head)
    (row,) = rows_of([write_tree(tmp_path, {"m.safetensors": VALID[:-1]})])
    assert row.verdict == "changed"


def test_rows_are_read_as_they_are_written(corpus: list[Any]) -> None:
    assert all(read_row(encode_row(row)) == row for row in corpus)
    kinds = Counter(row.verdict for row in corpus)
    assert {"valid", "invalid", "per-profile"} <= set(kinds)


TEXT = st.text(st.characters(codec=None) | st.sampled_from("\\\\u\udcff\ud800"), max_size=8)
NUMBER = st.integers(0, 9)


TEXTS = st.lists(TEXT, max_size=2).map(tuple)
ROWS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("address", "verdict", "tag", "note"), TEXT),
        **dict.fromkeys(("header_sha256", "data_sha256"), TEXT | st.none()),
        **dict.fromkeys(("codes", "rules", "metadata_keys"), TEXTS),
        "dtypes": st.lists(st.builds(Tally, TEXT, NUMBER, NUMBER), max_size=2).map(tuple),
        "writer": st.none()
        | st.builds(Writer, TEXT, NUMBER, NUMBER, st.booleans(), st.booleans(), TEXT | st.none()),
    }
)


def row_of_texts(texts: dict[str, Any]) -> Row:
    return Row(time=datetime(2026, 1, 1, tzinfo=UTC), kind="file", **texts)


@given(ROWS.map(row_of_texts))
@example(row_of_texts({"address": "", "verdict": "", "tag": "\udcff", "dtypes": (Tally("\ud800", 1, 2),)}))
def test_a_row_is_one_line_whatever_its_texts_are(row: Row) -> None:
    line = encode_row(row)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    found = json.loads(line.decode("utf-8"))
    assert (found["address"], found["kind"]) == (row_address(row.address), "file")
    for name in ("tag", "note"):
        assert found.get(name, "") == getattr(row, name).encode("utf-8", "backslashreplace").decode()


@given(TEXT, TEXT)
@example("bad\udcff", "bad\\udcff")
@example("bad\\\\udcff", "bad\\udcff")
def test_different_names_have_different_addresses(one: str, other: str) -> None:
    assert (row_address(one) == row_address(other)) == (one == other)
    assert row_address("caf\udce9") == "caf\\udce9"


def test_a_row_that_cannot_be_written_costs_its_own_answer_alone() -> None:
    odd = msgspec.structs.replace(row_of_texts({"address": "a\udcff", "verdict": "valid"}), size=object())
    found = read_row(encode_row(odd))
    assert (found.address, found.verdict) == ("a\\udcff", "unreadable")
    assert found.note.startswith("this program failed: ")
