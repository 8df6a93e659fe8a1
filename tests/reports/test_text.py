"""Texts made safe and short, and classes of messages."""

from __future__ import annotations

import pytest

from safetensors_reports.text import (
    difference_class,
    listed,
    message_class,
    report_key,
    visible,
    without_folders,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (2, "a, b"), (3, "a, b, c"), (4, "a, b and 2 more"), (1_502, "a, b and 1,500 more")],
)
def test_a_list_never_leaves_one_out(count: int, text: str) -> None:
    items = [*"abcd", *map(str, range(count))][:count]
    assert listed(items, 2) == text


def test_one_report_has_one_key_under_all_its_names() -> None:
    names = [
        "o/lib#40",
        "other/lib#40",
        "https://github.com/o/lib/issues/40",
        "https://github.com/o/lib/pull/40/",
    ]
    assert {report_key(name) for name in names} == {"lib#40"}
    assert report_key("A review 2023") == "A review 2023"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error file=a::b", "\\u003a:error file=a::b"),
        ("it said ::stop-commands::x", "it said \\u003a:stop-commands::x"),
        ("see ##[group]x", "see \\u0023#[group]x"),
        ("std::bad_alloc", "std::bad_alloc"),
    ],
)
def test_no_line_of_a_log_can_become_a_command(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_kinds_of_messages_and_differences() -> None:
    assert message_class("bad tensor w: [1, 2, 3]", ["w"]) == "bad tensor #: [#]"
    assert message_class("Error: tensor 'a' ends at 12, \"b\" at 4") == "Error: tensor # ends at #, # at #"
    assert difference_class('tensor "metadata": dtype U8, the file says F8_E4M3') == "dtype"
    assert difference_class('metadata "dtype" is missing') == "metadata"
    assert difference_class('tensor "\\"shape\\": x": shape [1], the file says [2]') == "shape"
    assert difference_class('tensor "dtype" is missing') == "missing"
    assert difference_class('tensor "a" is reported twice') == "twice"
    assert difference_class('tensor "a" is reported, the file has none of that name') == "reported"


@pytest.mark.parametrize(
    "folder", ["/dev/shm/stc-fuzz-hj8x2qpj/", "/tmp/x/", "/tmp/stc-run-_k_4__0a/deep/er/"]
)
def test_a_message_is_classed_without_the_folder_that_a_run_made(folder: str) -> None:
    said = (
        f"InvalidFileError: {folder}12.safetensors: HDR_DUP_KEY at 3: a name twice, far behind in the message"
    )
    assert message_class(said) == "InvalidFileError: #.safetensors: HDR_DUP_KEY at #: a name tw"
    assert message_class(f"no such file: '{folder}a'") == "no such file: #"
    assert without_folders(f"{folder}12.safetensors and '{folder}a b'") == "12.safetensors and 'a b'"


@pytest.mark.parametrize("folder", ["stc-fuzz-hj8x2qpj", "safetensors-case-_k4"])
def test_the_folder_of_a_run_goes_by_itself_too(folder: str) -> None:
    assert without_folders(f"cannot list /dev/shm/{folder}: gone") == "cannot list : gone"
    assert without_folders(f"cannot list '/tmp/{folder}'") == "cannot list ''"


def test_what_is_no_folder_stays_in_the_class() -> None:
    assert message_class("F32/F64 is neither and/or both, see https://a.b/c/d") == (
        "F#/F# is neither and/or both, see https://a.b/c/d"
    )
