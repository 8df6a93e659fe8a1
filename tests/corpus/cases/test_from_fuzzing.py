"""Cases found by fuzzing: data that registers like functions do."""

from __future__ import annotations

import pytest

from safetensors_cases import from_fuzzing as found
from safetensors_corpus.author import case as registry
from safetensors_corpus.author.case import ACCEPT, CaseFunction, Reject
from safetensors_corpus.author.file import FileBuilder

HOLE = """
[[case]]
id = "layout/a-hole"
title = "A hole."
rules = ["OFF-07"]
level = "must"
importance = "high"
steps = ["open", "read"]
bytes = [{ hex = "0a00000000000000" }, { text = '{"a":12}' }, { repeat = { text = " " }, count = 2 }]
codes = ["OFF_HOLE", "ENT_NOT_OBJECT"]
source = { engine = "tuple", seed = 1, found_on = "lib 1.0", issue = "https://example.org/1" }
"""
CONTENT = """
[[case]]
id = "data/a-content"
title = "A content."
rules = ["API-19"]
level = "should"
importance = "low"
steps = ["read"]
bytes = [{ text = "abc" }]
metadata = { "" = "x" }
source = { engine = "tuple", seed = 1, found_on = "lib 1.0" }
[[case.tensor]]
name = "\\u0000 \\"\\\\"
dtype = "F4"
shape = [4]
data = [{ hex = "0102" }]
[[case.tensor]]
name = "n"
dtype = "U8"
shape = [0]
data = []
"""


def built(case: CaseFunction) -> FileBuilder:
    builder = FileBuilder()
    case.body(builder, *case.arguments)
    return builder


def test_content_is_what_is_told_and_not_what_the_file_says() -> None:
    (case,) = found.found_cases(CONTENT)
    builder = built(case)
    assert builder.render() == b"abc"
    assert case.options == {"": ACCEPT}
    content = builder.content()
    rows = [(t["name"], t["dtype"], t["shape"], t["nbytes"]) for t in content["tensors"]]
    assert rows == [('\0 "\\', "F4", [4], 2), ("n", "U8", [0], 0)]
    assert content["metadata"] == {"": "x"}
    assert builder.features() == ["dtype-f4", "dtype-u8"]
    assert (case.source, case.steps) == ({"kind": "fuzz"}, ("read",))


def test_a_case_of_a_choice_has_its_options() -> None:
    text = HOLE.replace(
        "codes = [", 'choice = "leading-whitespace"\noptions = { accept = [], reject = ['
    ).replace('"ENT_NOT_OBJECT"]', '"ENT_NOT_OBJECT"] }')
    (case,) = found.found_cases(text)
    assert built(case).render() == b'\n\0\0\0\0\0\0\0{"a":12}  '
    assert (case.id, case.title, case.level, case.importance) == ("layout/a-hole", "A hole.", "must", "high")
    assert case.description == "A fuzzing run (tuple) found this file with lib 1.0."
    assert case.source == {"kind": "fuzz", "issue": "https://example.org/1"}
    assert case.choice == "leading-whitespace"
    assert case.options == {"accept": ACCEPT, "reject": Reject(("OFF_HOLE", "ENT_NOT_OBJECT"))}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "A hole."\n', "", "title: missing"),
        ('"must"', '"most"', "level is 'most'"),
        ('"high"', '"huge"', "importance is 'huge'"),
        ('["open", "read"]', '["slice"]', "the only permitted steps are open and read"),
        ('["open", "read"]', "[]", "the only permitted steps are open and read"),
        ("layout/a-hole", "slice/a-hole", "area 'slice' does not contain cases that read files"),
        ("OFF-07", "OFF-99", "there is no rule 'OFF-99'"),
        ("count = 2", "count = 0", "must be a whole number >= 1"),
        ('"0a00000000000000"', '"0g"', "hex"),
        ("title =", "tilte =", "unknown key 'tilte'"),
        ("codes = [", 'choice = "x"\ncodes = [', "needs either codes, or a choice"),
        ('engine = "tuple", ', "", "source.engine: missing"),
        ('["OFF-07"]', '"OFF-07"', "rules is not a list"),
    ],
)
def test_mistakes_are_named_with_the_case(old: str, new: str, words: str) -> None:
    assert old in HOLE
    with pytest.raises(ValueError, match=r"found\.toml: case") as caught:
        found.found_cases(HOLE.replace(old, new, 1))
    assert words in str(caught.value)


def test_ids_that_are_taken_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CASES", {})
    (case,) = found.found_cases(HOLE)
    registry.register(case)
    with pytest.raises(ValueError, match="registered twice"):
        registry.register(case)
