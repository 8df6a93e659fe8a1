"""Texts made safe, short and stable, classes of messages, and the order of versions in lists."""

from __future__ import annotations

from safetensors_reports.differences.signatures import difference_class, message_class, without_folders
from safetensors_reports.history.directory import directory
from safetensors_reports.history.ledger import Ledger
from safetensors_reports.page.results import tables
from safetensors_reports.text import label_key, listed, report_key, version_key, visible
from safetensors_reports.trophies.model import Expectations, trophies

from .samples import HOLE, corpus, failing, line, report, run


def test_a_list_never_leaves_one_out() -> None:
    for count, text in (
        (0, ""),
        (2, "a, b"),
        (3, "a, b, c"),
        (4, "a, b and 2 more"),
        (1_502, "a, b and 1,500 more"),
    ):
        items = [*"abcd", *map(str, range(count))][:count]
        assert listed(items, 2) == text


def test_one_report_has_one_key_under_all_its_names() -> None:
    addresses = [f"https://github.com/o/lib/{part}" for part in ("issues/40", "pull/40/")]
    assert {report_key(name) for name in ("o/lib#40", "other/lib#40", *addresses)} == {"lib#40"}
    assert report_key("A review 2023") == "A review 2023"


def test_no_line_of_a_log_can_become_a_command() -> None:
    for text, shown in (
        ("::error file=a::b", "\\u003a:error file=a::b"),
        ("it said ::stop-commands::x", "it said \\u003a:stop-commands::x"),
        ("see ##[group]x", "see \\u0023#[group]x"),
        ("std::bad_alloc", "std::bad_alloc"),
    ):
        assert visible(text) == shown


def test_kinds_of_messages_and_differences() -> None:
    assert message_class("bad tensor w: [1, 2, 3]", ["w"]) == "bad tensor #: [#]"
    assert message_class("Error: tensor 'a' ends at 12, \"b\" at 4") == "Error: tensor # ends at #, # at #"
    no_folder = "F32/F64 is neither and/or both, see https://a.b/c/d"
    assert message_class(no_folder) == no_folder.replace("32", "#").replace("64", "#")
    assert difference_class('tensor "metadata": dtype U8, the file says F8_E4M3') == "dtype"
    assert difference_class('metadata "dtype" is missing') == "metadata"
    assert difference_class('tensor "\\"shape\\": x": shape [1], the file says [2]') == "shape"
    assert difference_class('tensor "dtype" is missing') == "missing"
    assert difference_class('tensor "a" is reported twice') == "twice"
    assert difference_class('tensor "a" is reported, the file has none of that name') == "reported"


def test_a_message_is_classed_without_the_folder_that_a_run_made() -> None:
    for folder in ("/dev/shm/stc-fuzz-hj8x2qpj/", "/tmp/x/", "/tmp/stc-run-_k_4__0a/deep/er/"):
        said = f"InvalidFileError: {folder}12.safetensors: HDR_DUP_KEY at 3: a name twice, far behind"
        assert message_class(said) == "InvalidFileError: #.safetensors: HDR_DUP_KEY at #: a name tw"
        assert message_class(f"no such file: '{folder}a'") == "no such file: #"
        assert without_folders(f"{folder}12.safetensors and '{folder}a b'") == "12.safetensors and 'a b'"
        for own in ("stc-fuzz-hj8x2qpj", "safetensors-case-_k4"):
            assert without_folders(f"cannot list /dev/shm/{own}: gone") == "cannot list : gone"
            assert without_folders(f"cannot list '/tmp/{own}'") == "cannot list ''"


SHUFFLED = ["1.20.1", "1.31.0", "2.0.0", "0.10.0", "2.4.0", "0.9.0", "1.9.0", "0.10.0rc1", "0.3.0b4", "0.3.0"]
ORDERED = ["0.3.0b4", "0.3.0", "0.9.0", "0.10.0rc1", "0.10.0", "1.9.0", "1.20.1", "1.31.0", "2.0.0", "2.4.0"]
COMMITS = ["f" * 40, "0a" * 20]


def test_releases_are_sorted_by_number_behind_commits_that_keep_their_place() -> None:
    assert sorted([*SHUFFLED, *COMMITS], key=version_key) == [*COMMITS, *ORDERED]
    assert sorted([*COMMITS[::-1], "1"], key=version_key) == [*COMMITS[::-1], "1"]
    assert sorted(["2", "1" * 5000], key=version_key) == ["1" * 5000, "2"]


def test_labels_are_sorted_by_the_alphabet_and_one_entry_point_by_version() -> None:
    labels = ["Lib 10.0", "lib 9.0", "lib:fast 0.10", "lib:fast 0.9", "a command --that is=none", "mlib"]
    ordered = ["a command --that is=none", "lib 9.0", "Lib 10.0", "lib:fast 0.9", "lib:fast 0.10", "mlib"]
    assert sorted(labels, key=label_key) == ordered


def test_reports_histories_and_trophies_list_versions_in_their_order() -> None:
    ledger = Ledger("lib", "lib", tuple(line(version) for version in [*SHUFFLED, "1.9.0"]))
    assert ledger.versions == ORDERED
    runs = [Expectations("lib", version, ()) for version in SHUFFLED]
    assert list(trophies(corpus().raw, [], runs).versions["lib"]) == ORDERED
    made = report(*(run(failing(HOLE), name="lib", version=version) for version in SHUFFLED), public=True)
    assert [who.version for who in made.implementations] == ORDERED
    shuffled = [made.implementations[ORDERED.index(version)] for version in SHUFFLED]
    made.implementations[:] = shuffled  # as a report from before may hold them
    for table in tables(made):
        assert [row.who.version for row in table.rows] == ORDERED
    (program,) = directory({"report.json": made, "lib/report.json": made}, {}, "report.html").programs
    assert [row.version for row in program.versions] == ORDERED
    assert [row.version for row in program.entries] == ORDERED
