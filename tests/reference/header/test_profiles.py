"""Profiles: one file, three answers, each the option that choices.toml gives."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import pytest
from hypothesis import given

from safetensors_reference import PROFILES, explain, rule_book
from safetensors_reference.rules.book import ProfileName

from ..naive import Content
from ..strategies import FEWER, mutants
from ..support import ABCD, W, entry, make

U64 = 2**64 - 1
SEEN = Content({"w": ("U8", (4,), 0, 4)}, None)
"""What most files here say to a reader that accepts them."""


@dataclass(frozen=True)
class Disputed:
    """A file on which profiles may differ. ``says``: option -> content; an option that is missing refuses."""

    choice: str
    data: bytes
    says: dict[str, Content]
    silent: bool = False
    """True when even a reader that tolerates the file has nothing to report."""


def empty(shape: str, dims: tuple[int, ...]) -> tuple[bytes, Content]:
    return make(f'{{"w":{entry("U8", shape, "[0,0]")}}}'), Content({"w": ("U8", dims, 0, 0)}, None)


def deep(arrays: int) -> bytes:
    return make(f'{{"w":{W[:-1]},"x":{"[" * arrays}{"]" * arrays}}}}}', ABCD)


BEFORE, BEFORE_SAYS = empty(f"[{U64},2,0]", (U64, 2, 0))
BEHIND, BEHIND_SAYS = empty(f"[0,{U64},2]", (0, U64, 2))
LARGE, LARGE_SAYS = empty(f"[0,{2**63}]", (0, 2**63))
FILES = [
    Disputed("leading-whitespace", make(f' \n{{"w":{W}}}', ABCD), {"accept": SEEN}),
    Disputed("trailing-whitespace", make(f'{{"w":{W}}} \t\r\n', ABCD), {"accept": SEEN}),
    Disputed(
        "duplicate-tensor-names", make(f'{{"w":{W},"w":{W}}}', ABCD), {"last-wins": SEEN, "first-wins": SEEN}
    ),
    Disputed(
        "duplicate-tensor-names",
        make(f'{{"w":{entry("I8", "[2,2]")},"w":{W}}}', ABCD),
        {"last-wins": SEEN, "first-wins": Content({"w": ("I8", (2, 2), 0, 4)}, None)},
    ),
    Disputed(
        "duplicate-metadata-keys",
        make(f'{{"__metadata__":{{"k":"1","k":"2"}},"w":{W}}}', ABCD),
        {"last-wins": Content(SEEN.tensors, {"k": "2"}), "first-wins": Content(SEEN.tensors, {"k": "1"})},
    ),
    Disputed(
        "lone-surrogates",
        make(rf'{{"w\ud800":{W}}}', ABCD),
        {
            "keep": Content({"w\ud800": ("U8", (4,), 0, 4)}, None),
            "replace": Content({"w\ufffd": ("U8", (4,), 0, 4)}, None),
        },
    ),
    Disputed("deep-nesting", deep(126), {"accept": SEEN}),
    Disputed("entry-as-array", make('{"w":["U8",[4],[0,4]]}', ABCD), {"accept": SEEN}),
    Disputed("unknown-entry-fields", deep(125), {"ignore": SEEN}),
    Disputed("unknown-entry-fields", make(f'{{"w":{W[:-1]},"x":1,"x":2}}}}', ABCD), {"ignore": SEEN}),
    Disputed(
        "dtype-as-object",
        make('{"w":{"dtype":{"U8":null},"shape":[4],"data_offsets":[0,4]}}', ABCD),
        {"accept": SEEN},
    ),
    Disputed("zero-dim-overflow", BEFORE, {"accept": BEFORE_SAYS}),
    Disputed("zero-dim-overflow", BEHIND, {"accept": BEHIND_SAYS, "by-position": BEHIND_SAYS}),
    Disputed("large-dimension", LARGE, {"accept": LARGE_SAYS}, silent=True),
    Disputed(
        "high-rank",
        make(f'{{"w":{entry("U8", str([1] * 1000), "[0,1]")}}}', b"a"),
        {"accept": Content({"w": ("U8", (1,) * 1000, 0, 1)}, None)},
        silent=True,
    ),
    Disputed("metadata-null", make(f'{{"__metadata__":null,"w":{W}}}', ABCD), {"absent": SEEN}),
    Disputed(
        "tensor-like-metadata",
        make('{"__metadata__":{"dtype":"U8","shape":"[4]","data_offsets":"[0,4]"}}'),
        {"accept": Content({}, {"dtype": "U8", "shape": "[4]", "data_offsets": "[0,4]"})},
        silent=True,
    ),
    Disputed(
        "bool-bytes",
        make(f'{{"w":{entry("BOOL")}}}', b"\0\1\2\xff"),
        {"keep": Content({"w": ("BOOL", (4,), 0, 4)}, None)},
        silent=True,
    ),
]


def option(choice: str, profile: ProfileName) -> str:
    positions = rule_book().choices[choice].positions
    taken = positions[profile] or positions["hardened"]
    assert taken is not None
    return taken


BY_SIZE = {"header-cap", "many-tensors", "long-name", "much-metadata", "large-ignored-field", "long-number"}
"""Choices that only large files show; the resource cases of the corpus hold them."""
BY_VALUE = {"rare-ignored-values"}
"""Choices about what an unknown field holds; to the strict reader the field is the fault."""


def test_every_choice_of_reading_has_a_file_here() -> None:
    """Only ``number-range`` needs a second choice beside it and is tested below."""
    reading = {
        choice.id
        for choice in rule_book().choices.values()
        if not choice.settled and choice.rule[:3] not in ("WRT", "API", "IDX", "NET")
    }
    assert {f.choice for f in FILES} == reading - {"number-range"} - BY_SIZE - BY_VALUE
    assert reading >= BY_SIZE | BY_VALUE


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.choice)
def test_a_profile_takes_the_option_of_choices_toml(file: Disputed, profile: ProfileName) -> None:
    explanation = explain(file.data, profile)
    expected = file.says.get(option(file.choice, profile))
    assert explanation.valid == (expected is not None)
    if expected is None:
        assert file.choice in {f.choice for f in explanation.faults}
        assert file.choice not in {f.choice for f in explanation.tolerated}
        assert explanation.header is None
    else:
        assert {f.choice for f in explanation.tolerated} == (set() if file.silent else {file.choice})
        assert explanation.header is not None
        rows = explanation.header.tensors.values()
        seen = {t.name: (t.dtype, t.shape, t.begin, t.end) for t in rows}
        assert Content(seen, explanation.header.metadata) == expected


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 400, "[[1e400]]", '{"k":1e309}'])
def test_numbers_out_of_range_are_a_choice_of_their_own(number: str) -> None:
    data = make(f'{{"w":{W[:-1]},"x":{number}}}}}', ABCD)
    assert option("number-range", "official") == "reject"
    explanation = explain(data, "official")
    assert [(f.rule, f.choice) for f in explanation.faults] == [("HDR-18", "number-range")]
    assert [f.choice for f in explanation.tolerated] == ["unknown-entry-fields"]


@pytest.mark.parametrize("number", ["1e308", "1e-999", "-0", "1" * 300, "0e999999"])
def test_numbers_in_range_are_no_fault_in_an_ignored_field(number: str) -> None:
    assert explain(make(f'{{"w":{W[:-1]},"x":{number}}}}}', ABCD), "official").valid


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "header",
    [
        "{}\t\0",
        "\0{}",
        "\ufeff{}",
        f'{{"w":{W[:-1]},"dtype":"U8"}}}}',
        '{"__metadata__":{},"__metadata__":{}}',
        '{"__metadata__":null,"__metadata__":null}',
        '{"w":["U8",[4],[0,4],0]}',
        '{"w":{"dtype":{"U8":{}},"shape":[4],"data_offsets":[0,4]}}',
        '{"w":{"dtype":{"U8":null,"U8":null},"shape":[4],"data_offsets":[0,4]}}',
        '{"w":{"dtype":{"XX":null},"shape":[4],"data_offsets":[0,4]}}',
        '{"w":["U8",[4],"x"]}',
    ],
)
def test_what_no_choice_covers_is_refused_under_every_profile(header: str, profile: ProfileName) -> None:
    data = b"" if "w" not in header else ABCD
    assert not explain(make(header, data), profile).valid


def test_a_tolerated_fault_keeps_its_place() -> None:
    data = make(f'{{"w":{W},"w":{W}}}', ABCD)
    (fault,) = explain(data, "official").tolerated
    at = data.rindex(b'"w"')
    assert (fault.code, fault.start, fault.end, fault.path) == ("HDR_DUP_KEY", at, at + 3, ("w",))


def test_faults_beside_a_tolerated_one_still_count() -> None:
    explanation = explain(make(f' {{"w":{W}}}', ABCD + b"!"), "official")
    assert [f.code for f in explanation.faults] == ["OFF_TRAILING"]
    assert [f.code for f in explanation.tolerated] == ["HDR_BAD_START"]


@pytest.mark.parametrize(
    "first",
    [
        entry("U8", "[5]"),
        entry("U8", "[4294967296,4294967296]"),
        entry("F4", "[1]"),
        pytest.param(entry("U8", "[4]", "[4,0]"), id="reversed"),
    ],
)
def test_a_reader_that_keeps_the_last_entry_checks_the_size_of_no_other(
    first: str, request: pytest.FixtureRequest
) -> None:
    """The official library parses every entry but validates only those it kept (rule HDR-09)."""
    assert explain(make(f'{{"w":{first},"w":{W}}}', ABCD), "official").valid


@pytest.mark.parametrize(
    "first", [entry("F33"), "null", '{"dtype":"U8"}', entry("U8", "[-1]"), entry("U8", "[4]", "[4]")]
)
def test_a_reader_that_keeps_the_last_entry_still_parses_the_others(first: str) -> None:
    assert not explain(make(f'{{"w":{first},"w":{W}}}', ABCD), "official").valid


def official_version() -> str | None:
    try:
        return version("safetensors")
    except PackageNotFoundError:
        return None


@pytest.mark.skipif(official_version() != "0.8.0", reason="the profile describes safetensors 0.8.0")
@FEWER
@given(mutants())
def test_the_official_profile_gives_the_verdict_and_content_of_the_official_library(data: bytes) -> None:
    from safetensors import SafetensorError, deserialize

    header = explain(data, "official").header
    try:
        found = {name: (info["dtype"], tuple(info["shape"])) for name, info in deserialize(data)}  # type: ignore[no-untyped-call]
    except SafetensorError:
        assert header is None
    else:
        assert header is not None
        assert found == {t.name: (t.dtype, t.shape) for t in header.tensors.values()}
