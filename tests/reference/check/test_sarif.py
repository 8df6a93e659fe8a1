"""SARIF output: complete by the members that SARIF 2.1.0 demands, and true about the files."""

from __future__ import annotations

import hashlib
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_corpus import load_manifest
from safetensors_reference import Fault, explain, rule_book
from safetensors_reference.check.result import CheckResult, check_input
from safetensors_reference.check.sarif import FINGERPRINT, SarifLog, artifact_uri, message_text
from safetensors_reference.files.names import FileInput
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.cwe import CWE_NAMES, CWE_OF_CODE

from ..support import ABCD, W, entry, make
from .support import BROKEN, VALID, check_log, check_uri, load_log, notifications, results, run

BOOK = rule_book()


def log_of(*results: CheckResult, each: int = 1) -> dict[str, Any]:
    log = SarifLog(results[0].profile if results else "hardened")
    for result in results:
        log.add(result)
    parsed: dict[str, Any] = json.loads(log.to_text(1))
    check_log(parsed, each)
    return parsed


def of_bytes(data: bytes, name: str = "a.safetensors", profile: ProfileName = "hardened") -> CheckResult:
    seen = explain(data, profile)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, seen)


@pytest.mark.parametrize("each", [10, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_corpus_makes_one_sound_log_that_says_every_fault(each: int) -> None:
    paths = [str(case.path) for case in load_manifest().reading[::each]]
    corpus = [check_input(FileInput(path), "hardened") for path in paths]
    log = log_of(*corpus, each=50)
    said = []
    for r in results(log):
        if r["level"] != "none":
            place = r["locations"][0]["physicalLocation"]
            region, at = place["region"], place["artifactLocation"]["index"]
            span = region["byteOffset"], region["byteOffset"] + region["byteLength"]
            said.append((at, r["ruleId"], r["properties"]["code"], *span))
    expected = [
        (at, f.rule, f.code, f.start, f.end) for at, result in enumerate(corpus) for f in result.faults
    ]
    assert said == expected
    assert len(said) > 600 / each
    prints = [r["partialFingerprints"][FINGERPRINT] for r in results(log)]
    assert len(set(prints)) == len(prints)


def test_the_log_comes_on_top_of_what_is_printed_and_names_every_file(tmp_path: Path) -> None:
    out = tmp_path / "out.sarif"
    files = [tmp_path / name for name in ("a", "b", "missing")]
    files[0].write_bytes(BROKEN)
    files[1].write_bytes(VALID)
    plain, logged = run("--profile", "text", *files), run("--profile", "text", "--sarif", out, *files)
    assert (logged.stdout, logged.stderr, logged.exit_code) == (plain.stdout, plain.stderr, 2)
    text = out.read_bytes()
    assert text.endswith(b"}\n")
    log = load_log(out)
    (the_run,) = log["runs"]
    assert [r["ruleId"] for r in results(log)] == ["HDR-09", "OFF-08"]
    assert (the_run["invocations"][0]["exitCode"], the_run["properties"]) == (2, {"profile": "text"})
    places = [(artifact["location"]["uri"], artifact.get("length")) for artifact in the_run["artifacts"]]
    sizes = (len(BROKEN), len(VALID), None)
    assert places == [(path.as_uri(), size) for path, size in zip(files, sizes, strict=True)]
    (notification,) = notifications(log)
    assert (notification["level"], "missing" in notification["message"]["text"]) == ("error", True)
    run("--profile", "text", "--sarif", out, *files)
    assert out.read_bytes() == text


def test_faults_that_were_left_out_are_not_kept_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "many").write_bytes(make("{" + ",".join(f'"t{i}":null' for i in range(30)) + "}"))
    (tmp_path / "few").write_bytes(BROKEN)
    for limit, cut in ((10, True), (1000, False)):
        monkeypatch.setattr(import_module("safetensors_reference.header.explain"), "FAULT_LIMIT", limit)
        result = run("--sarif", tmp_path / "out.sarif", tmp_path / "many", tmp_path / "few")
        assert result.exit_code == 1
        assert ("the reader stopped here" in result.stdout) == cut
        log = load_log(tmp_path / "out.sarif")
        told = notifications(log)
        assert [n["level"] for n in told] == ["warning"] * cut
        assert all("many: there are more faults" in n["message"]["text"] for n in told)
        rows = run("--json", tmp_path / "many", tmp_path / "few").stdout.splitlines()
        assert [json.loads(row)["complete"] for row in rows] == [not cut, True]


def test_levels_follow_the_rules_and_tolerated_faults_are_notes() -> None:
    """HDR-02 and HDR-09 are musts, ENT-04 is a may that only the hardened profile refuses."""
    loose = make(f' {{"w":{W[:-1]},"x":1}},"w":{W}}}', ABCD)
    hardened = results(log_of(of_bytes(loose)))
    levels = {r["ruleId"]: r["level"] for r in hardened}
    assert levels == {"HDR-02": "error", "HDR-09": "error", "ENT-04": "warning"}
    official = results(log_of(of_bytes(loose, profile="official")))
    assert {r["level"] for r in official} == {"note"}
    assert len(official) == 3
    assert all(r["message"]["text"].endswith(" (tolerated by the profile)") for r in official)
    choices = {"leading-whitespace", "duplicate-tensor-names", "unknown-entry-fields"}
    assert {r["properties"]["choice"] for r in official} == choices
    assert not any("tolerated" in r["message"]["text"] for r in hardened)


def test_rules_are_all_that_a_file_can_break_with_help() -> None:
    rules = {rule["id"]: rule for rule in log_of()["runs"][0]["tool"]["driver"]["rules"]}
    # The others speak about data, writers and loaders.
    assert [*rules] == [r for r in BOOK.rules if r[:3] not in ("DAT", "WRT", "API", "NET", "EXP")]
    for name, level in {"HDR-02": "error", "HDR-20": "warning", "ENT-04": "note"}.items():
        rule, about = rules[name], BOOK.rules[name]
        assert rule["fullDescription"]["text"].replace("{{", "{").replace("}}", "}") == about.statement
        assert about.source in rule["help"]["text"]
        assert rule["defaultConfiguration"] == {"level": level}
        wanted = {name: getattr(about, name) for name in ("level", "basis", "choice")}
        assert rule["properties"].items() >= {**wanted, "codes": [*about.codes]}.items()


def test_every_code_that_a_file_can_have_is_looked_up_in_the_cwe() -> None:
    programs = ("WRT", "API", "IO_", "UNC")
    assert set(CWE_OF_CODE) == {code for code in BOOK.codes if code[:3] not in programs}
    used = {number for numbers in CWE_OF_CODE.values() for number in numbers}
    # The others are of what a reader did, whatever is wrong with the file.
    assert set(CWE_NAMES) - used == {20, 248, 362, 367, 684}
    (taxonomy,) = log_of()["runs"][0]["taxonomies"]
    assert {int(t["id"]): t["shortDescription"]["text"] for t in taxonomy["taxa"]} == CWE_NAMES


@pytest.mark.parametrize(
    ("data", "code", "weaknesses"),
    [
        (make(f'{{"w":{entry(offsets="[0,5]")}}}', ABCD + b"!"), "OFF_SIZE_MISMATCH", [1288, 125, 787]),
        (make("{}", length=99), "FRM_HEADER_PAST_EOF", [130, 125]),
        (make("{}", length=2**63), "FRM_HEADER_OVER_LIMIT", [789, 1284]),
        (make(f'{{"w":{entry(shape="[4294967296,4294967296]")}}}', ABCD), "SHP_OVERFLOW", [190, 131]),
        (make(f'{{"w":{entry("U9")}}}', ABCD), "DTY_UNKNOWN", []),
    ],
)
def test_results_name_the_weaknesses_of_their_code(data: bytes, code: str, weaknesses: list[int]) -> None:
    log = log_of(of_bytes(data))
    (result,) = results(log)
    assert result["properties"]["code"] == code
    assert [int(t["id"]) for t in result.get("taxa", ())] == weaknesses
    rule = log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
    tags = rule["properties"]["tags"]
    assert {f"external/cwe/cwe-{n:03}" for n in weaknesses} <= set(tags)
    assert ("security" in tags) == bool(rule.get("relationships"))


def prints(data: bytes, name: str = "a.safetensors") -> dict[str, str]:
    """Fingerprint by rule and place in the header."""
    out = {}
    for r in results(log_of(of_bytes(data, name))):
        place = r["locations"][0].get("logicalLocations", [{"fullyQualifiedName": ""}])[0]
        out[f"{r['ruleId']} {place['fullyQualifiedName']}"] = r["partialFingerprints"][FINGERPRINT]
    return out


def test_fingerprints_stay_when_bytes_move_and_differ_between_faults_and_files() -> None:
    w, v = entry("U9"), entry("U9", offsets="[4,8]")
    before = make(f'{{"w":{w},"v":{v}}}', ABCD + ABCD)
    after = make(f'{{"__metadata__":{{"a":"b"}},  "v":{v},"w":{w}}}     ', ABCD + ABCD)
    assert prints(before) == prints(after)
    assert not set(prints(before).values()) & set(prints(before, "b.safetensors").values())
    faults = [Fault("ENT_NOT_OBJECT", "ENT-01", "x", 0, 1, ("n" * 200 + end,)) for end in "abb"]
    found = results(log_of(CheckResult("a", "hardened", 10, faults)))
    assert len({r["partialFingerprints"][FINGERPRINT] for r in found}) == 3
    assert len(set(prints(before).values())) == 2


def test_fingerprints_never_change_from_release_to_release() -> None:
    """Services would close and open every alert again; a change needs another version behind the slash."""
    (result,) = results(log_of(of_bytes(make(f'{{"w":{entry("U9")}}}', ABCD), "sub/a.safetensors")))
    identity = ["sub/a.safetensors", "DTY-01", "DTY_UNKNOWN", "'w'", "'dtype'", 1]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    assert result["partialFingerprints"] == {"brokenRuleInFile/v1": digest}


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a.safetensors", "a.safetensors"),
        ("./sub//a b#c?.safetensors", "sub/a%20b%23c%3F.safetensors"),
        ("c:x", "c%3Ax"),
        ("/tmp/x y", "file:///tmp/x%20y"),
        ("\udcff", "%FF"),
        ("sub/../a", "a"),
        ("../a", "TOP/a"),
        ("..a", "..a"),
    ],
)
def test_uris(name: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert artifact_uri(name) == uri.replace("TOP", tmp_path.as_uri())
    check_uri(artifact_uri(name))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_name_becomes_a_uri_that_leads_back_to_it(name: str) -> None:
    uri = artifact_uri(f"sub/x{name}")
    check_uri(uri)
    if not uri.startswith("file:"):
        assert unquote_to_bytes(uri) == os.fsencode(os.path.normpath(f"sub/x{name}"))


@given(st.text(st.sampled_from("[](){}\\ax")))
@example("[a](b)")
def test_message_text_reads_as_what_it_was(text: str) -> None:
    out = message_text(text)
    assert "](" not in out
    assert out.replace("{{", "{").replace("}}", "}").replace("]\\(", "](") == text.replace("]\\(", "](")
