"""SARIF output: complete by the members that SARIF 2.1.0 demands, and true about the files."""

from __future__ import annotations

import hashlib
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_corpus import load_manifest
from safetensors_reference import Fault, explain, rule_book
from safetensors_reference.check.cli import check
from safetensors_reference.check.result import CheckResult, check_input
from safetensors_reference.check.sarif import DIGEST, FINGERPRINT, SarifLog, artifact_uri
from safetensors_reference.files.names import FileInput
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.cwe import CWE_NAMES, CWE_OF_CODE
from safetensors_reference.rules.sarif import message_text

from ..support import ABCD, W, entry, make

BOOK = rule_book()
VALID = make(f'{{"w":{W}}}', ABCD)
BROKEN = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!!!!")
LEVELS = {"none", "note", "warning", "error"}
MEMBERS = {
    # what: members that SARIF 2.1.0 gives it; of all that it allows, those used here
    "log": "$schema version runs",
    "run": "tool invocations taxonomies artifacts results properties",
    "driver": "name organization version shortDescription rules supportedTaxonomies",
    "taxonomy": "name organization shortDescription informationUri isComprehensive taxa",
    "taxon": "id shortDescription helpUri",
    "rule": "id name shortDescription fullDescription help defaultConfiguration relationships properties",
    "relationship": "target kinds",
    "reference": "id index toolComponent",
    "artifact": "location roles length",
    "result": "ruleId ruleIndex kind level message locations partialFingerprints taxa properties",
    "location": "physicalLocation logicalLocations",
    "physicalLocation": "artifactLocation region",
    "artifactLocation": "uri index",
    "region": "byteOffset byteLength",
    "logicalLocation": "fullyQualifiedName",
    "invocation": "executionSuccessful exitCode toolExecutionNotifications",
    "notification": "level message locations",
    "message": "text markdown",
}
"""A member of any other name would be refused by SARIF's own schema, property bags apart."""


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(check, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def log_of(*results: CheckResult, status: int = 1) -> dict[str, Any]:
    log = SarifLog(results[0].profile if results else "hardened")
    for result in results:
        log.add(result)
    parsed: dict[str, Any] = json.loads(log.to_text(status))
    check_structure(parsed)
    return parsed


def of_file(path: Path, profile: ProfileName = "hardened") -> CheckResult:
    return check_input(FileInput(str(path)), profile)


def of_bytes(data: bytes, name: str = "a.safetensors", profile: ProfileName = "hardened") -> CheckResult:
    seen = explain(data, profile)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, seen)


def results(log: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = log["runs"][0]["results"]
    return out


def check_members(what: str, value: dict[str, Any]) -> None:
    assert set(value) <= set(MEMBERS[what].split()), what


def check_message(message: dict[str, Any]) -> None:
    check_members("message", message)
    assert message["text"]
    for text in message.values():
        # Braces stand for placeholders unless doubled, and there are no arguments for any (3.11.5).
        assert "{" not in text.replace("{{", "")
        assert "}" not in text.replace("}}", "")


def check_uri(uri: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]+", uri), uri
    assert re.sub("%[0-9A-F]{2}", "", uri).count("%") == 0
    assert urlsplit(uri).scheme in ("", "file")


def check_structure(log: dict[str, Any]) -> None:
    """Assert the members and constraints of SARIF 2.1.0 that concern what is written here."""
    assert log["version"] == "2.1.0"
    assert log["$schema"] == (
        "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    )
    check_members("log", log)
    (the_run,) = log["runs"]
    check_members("run", the_run)
    driver = the_run["tool"]["driver"]
    check_members("driver", driver)
    assert (driver["name"], driver["organization"]) == ("stc check", "safetensors-conformance")
    check_message(driver["shortDescription"])
    assert re.fullmatch(r"[0-9]+(\.[0-9]+)*", driver["version"])
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    (taxonomy,) = the_run["taxonomies"]
    check_members("taxonomy", taxonomy)
    check_message(taxonomy["shortDescription"])
    taxa = taxonomy["taxa"]
    assert driver["supportedTaxonomies"] == [{"name": taxonomy["name"], "index": 0}]
    for rule in rules:
        check_members("rule", rule)
        for member in ("shortDescription", "fullDescription", "help"):
            check_message(rule[member])
        assert rule["defaultConfiguration"]["level"] in LEVELS
        assert re.fullmatch("[A-Za-z0-9]+", rule["name"])
        for relationship in rule.get("relationships", ()):
            check_members("relationship", relationship)
            assert relationship["kinds"] == ["relevant"]
            check_reference(relationship["target"], taxonomy)
    for taxon in taxa:
        check_members("taxon", taxon)
        check_message(taxon["shortDescription"])
        assert taxon["helpUri"] == f"https://cwe.mitre.org/data/definitions/{taxon['id']}.html"
    artifacts = the_run["artifacts"]
    for artifact in artifacts:
        check_members("artifact", artifact)
        check_uri(artifact["location"]["uri"])
        assert artifact["roles"] == ["analysisTarget"]
        assert artifact.get("length", 0) >= 0
    for result in the_run["results"]:
        check_members("result", result)
        if result["ruleId"] == DIGEST:  # no rule of the format, and no place in the file
            assert "region" not in result["locations"][0]["physicalLocation"]
            continue
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        check_message(result["message"])
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        check_location(location, artifacts)
        size = artifacts[location["physicalLocation"]["artifactLocation"]["index"]].get("length", 0)
        assert 0 <= region["byteOffset"] <= region["byteOffset"] + region["byteLength"] <= size
        (name,) = result["partialFingerprints"]
        assert re.fullmatch(r"[A-Za-z]+/v[0-9]+", name)
        assert re.fullmatch("[0-9a-f]{64}", result["partialFingerprints"][name])
        for taxon in result.get("taxa", ()):
            check_reference(taxon, taxonomy)
    (invocation,) = the_run["invocations"]
    check_members("invocation", invocation)
    assert invocation["executionSuccessful"] is (invocation["exitCode"] in (0, 1))
    for notification in invocation["toolExecutionNotifications"]:
        check_members("notification", notification)
        assert notification["level"] in ("error", "warning")
        check_message(notification["message"])
        (location,) = notification["locations"]
        check_location(location, artifacts)


def check_location(location: dict[str, Any], artifacts: list[dict[str, Any]]) -> None:
    check_members("location", location)
    check_members("physicalLocation", location["physicalLocation"])
    check_members("region", location["physicalLocation"].get("region", {}))
    artifact = location["physicalLocation"]["artifactLocation"]
    check_members("artifactLocation", artifact)
    assert artifacts[artifact["index"]]["location"]["uri"] == artifact["uri"]
    for logical in location.get("logicalLocations", ()):
        check_members("logicalLocation", logical)
        assert logical["fullyQualifiedName"].startswith("$")


def check_reference(reference: dict[str, Any], taxonomy: dict[str, Any]) -> None:
    check_members("reference", reference)
    assert taxonomy["taxa"][reference["index"]]["id"] == reference["id"]
    assert reference["toolComponent"] == {"name": taxonomy["name"], "index": 0}


CORPUS = [of_file(case.path) for case in load_manifest().reading]


def test_the_whole_corpus_makes_one_sound_log_that_says_every_fault() -> None:
    log = log_of(*CORPUS)
    said = [
        (
            r["locations"][0]["physicalLocation"]["artifactLocation"]["index"],
            r["ruleId"],
            r["properties"]["code"],
            r["locations"][0]["physicalLocation"]["region"]["byteOffset"],
            r["locations"][0]["physicalLocation"]["region"]["byteLength"],
        )
        for r in results(log)
    ]
    expected = [
        (index, f.rule, f.code, f.start, f.end - f.start)
        for index, result in enumerate(CORPUS)
        for f in result.faults
    ]
    assert said == expected
    assert len(said) > 600
    prints = [r["partialFingerprints"][FINGERPRINT] for r in results(log)]
    assert len(set(prints)) == len(prints)


def test_two_runs_over_the_same_files_give_the_same_log(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(BROKEN)
    (tmp_path / "b.safetensors").write_bytes(VALID)
    texts = []
    for name in ("1.sarif", "2.sarif"):
        run("--sarif", tmp_path / name, tmp_path)
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]
    assert texts[0].isascii()
    assert texts[0].endswith(b"}\n")


def test_the_log_comes_on_top_of_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(BROKEN)
    plain = run(tmp_path)
    logged = run("--sarif", tmp_path / "out.sarif", tmp_path)
    assert (logged.stdout, logged.stderr, logged.exit_code) == (plain.stdout, plain.stderr, 1)
    log = json.loads((tmp_path / "out.sarif").read_text(encoding="ascii"))
    check_structure(log)
    assert [r["ruleId"] for r in results(log)] == ["HDR-09", "OFF-08"]
    assert log["runs"][0]["invocations"][0]["exitCode"] == 1
    assert log["runs"][0]["properties"] == {"profile": "hardened"}


def test_a_valid_file_is_an_artifact_without_results(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(VALID)
    assert run("--profile", "text", "--sarif", tmp_path / "out.sarif", tmp_path / "a").exit_code == 0
    log = json.loads((tmp_path / "out.sarif").read_text(encoding="ascii"))
    check_structure(log)
    (the_run,) = log["runs"]
    assert the_run["results"] == []
    assert the_run["artifacts"] == [
        {"location": {"uri": (tmp_path / "a").as_uri()}, "roles": ["analysisTarget"], "length": len(VALID)}
    ]
    assert the_run["properties"] == {"profile": "text"}
    assert the_run["invocations"][0]["executionSuccessful"] is True


def test_what_was_not_read_is_a_notification_and_no_success(tmp_path: Path) -> None:
    result = run("--sarif", tmp_path / "out.sarif", tmp_path / "missing")
    assert result.exit_code == 2
    log = json.loads((tmp_path / "out.sarif").read_text(encoding="ascii"))
    check_structure(log)
    (invocation,) = log["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "error"
    assert "missing" in notification["message"]["text"]
    assert results(log) == []


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
        log = json.loads((tmp_path / "out.sarif").read_text(encoding="ascii"))
        check_structure(log)
        told = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
        assert [n["level"] for n in told] == ["warning"] * cut
        assert all("many: there are more faults" in n["message"]["text"] for n in told)
        rows = run("--json", tmp_path / "many", tmp_path / "few").stdout.splitlines()
        assert [json.loads(row)["complete"] for row in rows] == [not cut, True]


def test_an_interrupted_run_leaves_a_log_of_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.safetensors").write_bytes(BROKEN)

    def interrupted(item: FileInput, profile: ProfileName, known: object) -> CheckResult:
        if "b.safe" in item.address:
            raise KeyboardInterrupt
        return check_input(item, profile)

    monkeypatch.setattr("safetensors_reference.check.result.check_input", interrupted)
    assert run("--sarif", tmp_path / "out.sarif", tmp_path).exit_code == 130
    log = json.loads((tmp_path / "out.sarif").read_text(encoding="ascii"))
    check_structure(log)
    assert len(log["runs"][0]["artifacts"]) == 1
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(VALID)
    result = run("--sarif", tmp_path / "no" / "such\x1b" / "out.sarif", tmp_path / "a")
    assert result.exit_code == 2
    assert "No such file or directory (IO_ERROR)" in result.stderr
    assert "\x1b" not in result.stderr


def test_levels_follow_the_rules_and_tolerated_faults_are_notes() -> None:
    """HDR-02 and HDR-09 are musts, ENT-04 is a may that only the hardened profile refuses."""
    loose = make(f' {{"w":{W[:-1]},"x":1}},"w":{W}}}', ABCD)
    hardened = results(log_of(of_bytes(loose)))
    assert {(r["ruleId"], r["level"]) for r in hardened} == {
        ("HDR-02", "error"),
        ("HDR-09", "error"),
        ("ENT-04", "warning"),
    }
    official = results(log_of(of_bytes(loose, profile="official")))
    assert {r["level"] for r in official} == {"note"}
    assert len(official) == 3
    assert all(r["message"]["text"].endswith(" (tolerated by the profile)") for r in official)
    assert {r["properties"]["choice"] for r in official} == {
        "leading-whitespace",
        "duplicate-tensor-names",
        "unknown-entry-fields",
    }
    assert not any("tolerated" in r["message"]["text"] for r in hardened)


def test_rules_are_all_that_a_file_can_break_with_help() -> None:
    rules = log_of()["runs"][0]["tool"]["driver"]["rules"]
    # The others speak about data, writers and loaders.
    assert [rule["id"] for rule in rules] == [
        r for r in BOOK.rules if r[:3] not in ("DAT", "WRT", "API", "NET")
    ]
    for rule in rules:
        entry_ = BOOK.rules[rule["id"]]
        assert rule["fullDescription"]["text"].replace("{{", "{").replace("}}", "}") == entry_.statement
        assert entry_.source in rule["help"]["text"]
        level = {"must": "error", "should": "warning", "may": "note"}[entry_.level]
        assert rule["defaultConfiguration"] == {"level": level}
        properties = dict(rule["properties"])
        assert properties.pop("tags") is not None
        assert properties == {
            "level": entry_.level,
            "basis": entry_.basis,
            "choice": entry_.choice,
            "codes": list(entry_.codes),
        }


def test_the_taxonomy_is_the_cwe_and_a_part_of_it() -> None:
    (taxonomy,) = log_of()["runs"][0]["taxonomies"]
    assert {member: taxonomy[member] for member in ("name", "organization", "informationUri")} == {
        "name": "CWE",
        "organization": "MITRE",
        "informationUri": "https://cwe.mitre.org/",
    }
    assert taxonomy["isComprehensive"] is False
    assert {int(taxon["id"]): taxon["shortDescription"]["text"] for taxon in taxonomy["taxa"]} == CWE_NAMES


def test_every_code_that_a_file_can_have_is_looked_up_in_the_cwe() -> None:
    programs = {"WRT", "API", "IO_", "UNC"}
    assert set(CWE_OF_CODE) == {code for code in BOOK.codes if code[:3] not in programs}
    used = {number for numbers in CWE_OF_CODE.values() for number in numbers}
    # The others are of what a reader did, whatever is wrong with the file.
    assert set(CWE_NAMES) - used == {20, 248, 362, 367, 684}


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
    assert len(set(prints(before).values())) == 2
    assert not set(prints(before).values()) & set(prints(before, "b.safetensors").values())


def test_fingerprints_never_change_from_release_to_release() -> None:
    """Services would close and open every alert again; a change needs another version behind the slash."""
    (result,) = results(log_of(of_bytes(make(f'{{"w":{entry("U9")}}}', ABCD), "sub/a.safetensors")))
    identity = ["sub/a.safetensors", "DTY-01", "DTY_UNKNOWN", "'w'", "'dtype'", 1]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    assert result["partialFingerprints"] == {"brokenRuleInFile/v1": digest}


def test_equal_faults_at_one_place_have_fingerprints_of_their_own() -> None:
    data = make("{" + ",".join([f'"w":{W}'] * 3) + "}", ABCD)
    found = [r["partialFingerprints"][FINGERPRINT] for r in results(log_of(of_bytes(data)))]
    assert len(found) == len(set(found)) == 2


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a.safetensors", "a.safetensors"),
        ("./sub//a b#c?.safetensors", "sub/a%20b%23c%3F.safetensors"),
        ("é%20", "%C3%A9%2520"),
        ("c:x", "c%3Ax"),
        ("/tmp/x y", "file:///tmp/x%20y"),
        ("\udcff", "%FF"),
        ("a\nb", "a%0Ab"),
        ("sub/../a", "a"),
    ],
)
def test_uris(name: str, uri: str) -> None:
    assert artifact_uri(name) == uri
    check_uri(uri)


def test_a_path_out_of_the_current_folder_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert artifact_uri("../a") == (tmp_path / "a").as_uri()
    assert artifact_uri("..a") == "..a"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_name_becomes_a_uri_that_leads_back_to_it(name: str) -> None:
    uri = artifact_uri(f"sub/x{name}")
    check_uri(uri)
    if not uri.startswith("file:"):
        assert unquote_to_bytes(uri) == os.fsencode(os.path.normpath(f"sub/x{name}"))


@pytest.mark.parametrize(
    "name", ["[click](https://example.org)", "{0}", "{", "}}{", "[a](1)", "\x1b[31m", "\u202e"]
)
def test_names_in_a_file_cannot_put_links_or_placeholders_into_the_log(name: str) -> None:
    key = json.dumps(name)
    data = make(f"{{{key}:{W},{key}:{W}}}", ABCD)
    (result,) = results(log_of(of_bytes(data)))
    text = result["message"]["text"]
    assert re.search(r"(?<!\\)\]\(", text) is None
    assert text.isprintable()
    assert "again" in text


@given(st.text(st.sampled_from("[](){}\\ax")))
@example("[a](b)")
def test_message_text_reads_as_what_it_was(text: str) -> None:
    out = message_text(text)
    assert "](" not in out
    assert out.replace("{{", "{").replace("}}", "}").replace("]\\(", "](") == text.replace("]\\(", "](")


def test_a_long_name_is_cut_in_the_log() -> None:
    name = "n" * 100_000
    data = make(f'{{"{name}":{W},"{name}":{W}}}', ABCD)
    assert len(json.dumps(results(log_of(of_bytes(data))))) < 2000


def test_long_names_that_differ_only_at_their_end_have_different_fingerprints() -> None:
    faults = [Fault("ENT_NOT_OBJECT", "ENT-01", "x", 0, 1, ("n" * 200 + end,)) for end in "ab"]
    log = log_of(CheckResult("a", "hardened", 10, faults))
    first, second = (r["partialFingerprints"][FINGERPRINT] for r in results(log))
    assert first != second


def test_a_full_disk_leaves_the_log_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "out.sarif").write_text("before")
    monkeypatch.setattr("safetensors_reference.writing.atomic._write", full)
    result = run("--sarif", tmp_path / "out.sarif", tmp_path / "missing")
    assert result.exit_code == 2
    assert result.stderr.endswith("No space left on device (IO_ERROR)\n")
    assert (tmp_path / "out.sarif").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.sarif"]
