"""Promotion: what is new becomes a case, what adds nothing is refused, and the corpus still builds."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proof import promote as promoting
from proof.broken import matrix
from proof.promote import (
    MATRIX,
    MUTANTS,
    ROOT,
    Checkout,
    News,
    NothingNewError,
    PromotionError,
    command,
    entry_of,
    look_for_news,
    primary_first,
    promote,
    rendered,
)
from safetensors_cases.from_fuzzing import case_of, found_cases
from safetensors_corpus import recipe
from safetensors_corpus.author.case import all_cases
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.document import parsed, read_document
from safetensors_corpus.packed import corpus_root
from safetensors_corpus.publish import build as building
from safetensors_fuzz.finding import ENTRY, Finding, write
from safetensors_reference import explain

from ..fuzz.samples import built, corpus, hole, of_builder, two_tensors

LAYOUT = "layout/"


@pytest.fixture(scope="session")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed results, cut down: the cases about the layout, and some surviving mutants."""
    folder = tmp_path_factory.mktemp("some")
    cases = read_document(corpus_root()).raw
    cases["cases"] = [case for case in cases["cases"] if case["id"].startswith(LAYOUT)]
    mutants = json.loads((ROOT / MUTANTS).read_bytes())
    mutants["survivors"] = [m for m in mutants["survivors"] if m["name"].startswith("header.explain:")][:6]
    assert len(mutants["survivors"]) == 6
    for name, document in (("corpus/corpus.json", cases), (MUTANTS, mutants)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    (folder / MATRIX).parent.mkdir()
    (folder / MATRIX).symlink_to(ROOT / MATRIX)
    return folder


@pytest.fixture
def checkout(some: Path, tmp_path: Path) -> Checkout:
    """The documents of a checkout, with an empty ``found.toml``."""
    folder = tmp_path / "checkout"
    for name in ("corpus/corpus.json", MATRIX, MUTANTS):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).symlink_to(some / name)
    (folder / "corpus/safetensors_cases").mkdir()
    (folder / "corpus/safetensors_cases/found.toml").write_text("# A header.\n")
    return Checkout.at(folder)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is new about every finding, without looking."""
    news = News({}, ("reader/no-checks",), (), 7)
    monkeypatch.setattr(promoting, "look_for_news", lambda *_: news)


def overlap_and_hole() -> Finding:
    """A file of three faults that no case has together."""
    builder = FileBuilder()
    builder.tensor("a", "U8", [8])
    builder.tensor("b", "U8", [8], begin=4, end=12)
    builder.gap(3)
    builder.tensor("z", "F16", [0])
    builder.trailer = b"abc"
    codes = sorted({fault.code for fault in explain(builder.render()).faults})
    return of_builder(builder, ("OFF-06", "OFF-07", "OFF-08"), *codes, selector="mlx==0.31.1",
                      versions={"mlx==0.31.1": "0.31.1"})  # fmt: skip


def content() -> Finding:
    """A valid file with names and metadata that TOML has to quote."""
    tensors = [('"x".y', "BF16", [2, 0, 3]), ("a", "U8", [200], bytes(200)), ("\x00名", "F64", [1, 1, 1])]
    return of_builder(built(*tensors, metadata={"k e\ny": 'v"', "é": "\u202e"}), ("API-19",))


def found(checkout: Checkout) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = tomllib.loads(checkout.found.read_text()).get("case", [])
    return cases


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("made", [overlap_and_hole, content])
def test_a_row_gives_the_file_and_the_expectation_of_the_finding(made: Any) -> None:
    finding = made()
    row = entry_of(finding)
    assert tomllib.loads(rendered(row))["case"] == [row]
    case = case_of(row)
    builder = FileBuilder()
    case.body(builder, *case.arguments)
    assert builder.render() == finding.files[ENTRY] == recipe.expand(row["bytes"])
    if finding.expectation["outcome"] == "accept":
        assert builder.content() == finding.expectation["content"]
    assert case.source == {"kind": "fuzz"}
    assert row["source"]["engine"] == "tuple"
    assert "/" not in row["source"]["found_on"]  # the folders of the finder


def test_a_promoted_finding_carries_where_it_is_from(checkout: Checkout) -> None:
    url = "https://example.org/issues/1"
    made = promote(
        overlap_and_hole(), checkout, case_id="layout/overlap-then-hole", title="A title.", issue=url
    )
    (row,) = found(checkout)
    assert row == made.row
    assert row["source"] == {"engine": "tuple", "seed": 3, "found_on": "mlx 0.31.1", "issue": url}
    assert row["id"] == "layout/overlap-then-hole"
    assert row["codes"][0] == "OFF_OVERLAP"  # that of the first rule
    assert (row["level"], row["importance"], row["title"]) == ("must", "high", "A title.")
    assert checkout.found.read_text().startswith("# A header.\n\n[[case]]")
    assert made.news.variants
    assert not made.news.alike


def test_the_same_bytes_are_refused(checkout: Checkout, quick: None) -> None:
    with pytest.raises(NothingNewError, match="132 bytes are already case layout/hole-between-two"):
        promote(hole(), checkout)
    promote(overlap_and_hole(), checkout, case_id="layout/one")
    with pytest.raises(NothingNewError, match="are case layout/one, which has not been built yet"):
        promote(overlap_and_hole(), checkout, case_id="layout/two")
    assert len(found(checkout)) == 1


def another_hole() -> Finding:
    """A file whose hole nobody takes for anything else than the holes of the corpus."""
    builder = FileBuilder()
    builder.tensor("weight", "F32", [1])
    builder.gap(4)
    builder.tensor("bias", "F32", [1])
    return of_builder(builder, ("OFF-07",), "OFF_HOLE")


SAME = r"kills no surviving mutant.*; the same \d+ broken readers fail layout/hole"


def test_what_fails_the_same_broken_readers_as_a_case_is_refused(checkout: Checkout) -> None:
    with pytest.raises(NothingNewError, match=SAME):
        promote(another_hole(), checkout)
    assert found(checkout) == []


def test_a_mutant_that_survived_is_reason_enough(checkout: Checkout) -> None:
    killed = "header.explain:check_layout:compare:2"
    results = json.loads((ROOT / MUTANTS).read_bytes())
    names = [name for name in results["killers"] if name.startswith("header.explain:check_layout")]
    assert killed in names
    names = [killed, *names[::4]]
    (checkout.root / MUTANTS).unlink()
    survivors = [{"name": name} for name in [*names, "header.explain:gone:compare:1"]]
    (checkout.root / MUTANTS).write_text(json.dumps({"survivors": survivors}))
    case = corpus().by_id["layout/hole-between-two"]
    news = look_for_news(case, corpus().cases, checkout.root)
    assert "layout/hole-between-two" in news.alike
    assert news.mutants
    assert set(news.mutants) < set(names)
    assert news.anything
    assert any(line.startswith("kills mutant header.explain:check_layout") for line in news.lines)


ALONE = "1 broken reader fails it, and none of 3 cases has exactly this set: a"


@pytest.mark.parametrize(
    ("news", "anything", "words"),
    [
        (News({}, (), (), 3), False, "no broken reader fails it"),
        (News({}, ("a", "b"), ("x/y",), 3), False, "the same 2 broken readers fail x/y"),
        (News({}, ("a",), (), 3), True, ALONE),
        (News({"m": "< -> <="}, (), (), 3), True, "kills mutant m: < -> <="),
    ],
)
def test_what_is_new_is_said(news: News, anything: bool, words: str) -> None:
    assert news.anything is anything
    assert words in news.lines


@pytest.mark.parametrize(
    ("case_id", "words"),
    [
        *((used, "is already used") for used in ("layout/hole-between-two", "layout/file-size-4096")),
        ("layout/bad-hole", r"states the required behaviour \(bad\)"),
        ("layout/Hole", "area/slug"),
        ("slice/x", "area/slug"),
        ("nothing", "area/slug"),
    ],
)
def test_ids_that_a_case_cannot_have_are_refused(
    checkout: Checkout, quick: None, case_id: str, words: str
) -> None:
    raw = read_document(checkout.corpus).raw
    next(case for case in raw["cases"] if case["id"] == "layout/file-size-4096")["status"] = "withdrawn"
    (checkout.corpus / "corpus.json").unlink()
    (checkout.corpus / "corpus.json").write_text(json.dumps(raw))
    with pytest.raises(PromotionError, match=words):
        promote(overlap_and_hole(), checkout, case_id=case_id)
    assert found(checkout) == []


def refusal(code: str) -> dict[str, Any]:
    """Expectation of a refusal."""
    return {"outcome": "reject", "codes": [code]}


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (of_builder(two_tensors(before=b" "), ("HDR-02",), "HDR_BAD_START"), "choice leading-whitespace"),
        (of_builder(built(("a", "BOOL", [3], b"\0\1\2")), ("DAT-05",)), "choice bool-bytes"),
        (replace(overlap_and_hole(), expectation={"outcome": "open"}), "neither accept nor reject"),
        (replace(overlap_and_hole(), step="slice"), "found at step slice; only findings of open and read"),
        (replace(overlap_and_hole(), step="write", files={}), "found at step write"),
        (replace(overlap_and_hole(), action={"do": "x"}), "more than one file"),
        (replace(overlap_and_hole(), rules=()), "rule is not known"),
        (replace(content(), expectation=refusal("OFF_HOLE")), "does not agree"),
        (replace(overlap_and_hole(), expectation=refusal("HDR_DUP_KEY")), "does not agree"),
        (replace(content(), expectation={"outcome": "accept", "content": {}}), "cannot be determined"),
        (replace(content(), files={ENTRY: content().files[ENTRY].replace(bytes(200), b"x" * 200)}),
         "no bytes of tensor 'a' with the required digest"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_case_is_refused_with_the_reason(
    checkout: Checkout, finding: Finding, words: str
) -> None:
    with pytest.raises(PromotionError, match=re.escape(words)):
        promote(finding, checkout)
    assert found(checkout) == []


def test_a_choice_that_is_named_makes_a_case_of_the_choice(checkout: Checkout, quick: None) -> None:
    builder = two_tensors(before=b" ")
    options = {
        "accept": {"outcome": "accept", "content": builder.content()},
        "reject": refusal("HDR_BAD_START"),
    }
    expectation = {"choice": "leading-whitespace", "options": options}
    finding = replace(of_builder(builder, ("HDR-02",)), expectation=expectation)
    made = promote(finding, checkout)
    case = case_of(made.row)
    assert (case.choice, set(case.options)) == ("leading-whitespace", {"accept", "reject"})
    other = {"outcome": "accept", "content": two_tensors().content() | {"metadata": None}}
    differing = {**expectation, "options": {**options, "reject": other}}
    with pytest.raises(PromotionError, match="different contents"):
        entry_of(replace(finding, expectation=differing))


def test_the_command_says_what_is_new_and_what_to_do_next(
    checkout: Checkout, quick: None, tmp_path: Path
) -> None:
    place = write(overlap_and_hole(), tmp_path)
    more = ("--checkout", checkout.root, "--id", "layout/one", "--title", "A title.")
    dry = run(place, *more, "--dry-run")
    assert (dry.exit_code, found(checkout)) == (0, [])
    assert "would add layout/one" in dry.stdout
    done = run(place, *more)
    assert done.exit_code == 0
    assert "1 broken reader fails it" in done.stdout
    assert "stc corpus build" in done.stdout
    assert [row["id"] for row in found(checkout)] == ["layout/one"]
    again = run(place, *more)
    assert (again.exit_code, "not promoted: the same" in again.stdout) == (1, True)
    slicing = write(replace(overlap_and_hole(), step="slice"), tmp_path / "other")
    refused = run(slicing, *more)
    assert (refused.exit_code, "not promoted: it was found at step slice" in refused.stderr) == (2, True)


def test_broken_readers_are_measured_against_the_committed_matrix() -> None:
    case = corpus().by_id["layout/hole-between-two"]
    rows = [row for row in matrix.committed(corpus()).rows if row.kind == "read"]
    expected = {row.name for row in rows if case.id in row.fails}
    assert set(promoting.failing_variants(case, {row.name for row in rows})) == expected


def test_a_promoted_case_is_built_like_any_other(
    checkout: Checkout, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = {"layout/overlap-then-hole": overlap_and_hole(), "data/odd-names": content()}
    for case_id, finding in findings.items():
        promote(finding, checkout, case_id=case_id)
    hand = [case for case in all_cases() if case.id.startswith("layout/hole")]
    cases = [*hand, *found_cases(checkout.found.read_text())]
    monkeypatch.setattr(building, "all_cases", lambda: cases)
    built = building.build()
    building.write(built, tmp_path / "built")
    rows = {row["id"]: row for row in parsed(Path("corpus.json"), built.files["corpus.json"])["cases"]}
    assert list(rows) == [case.id for case in cases]
    for case_id, finding in findings.items():
        row, ordered = rows.pop(case_id), primary_first(finding)
        assert (tmp_path / "built" / row["input"]["file"]).read_bytes() == ordered.files[ENTRY]
        assert (row["expect"], row["source"]) == (ordered.expectation, {"kind": "fuzz"})
        assert row["steps"] == ["open", "read"]
    assert rows == {row["id"]: row for row in corpus().raw["cases"] if row["id"] in rows}
