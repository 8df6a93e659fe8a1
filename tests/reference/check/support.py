"""Runs of ``stc check``, their output, and SARIF logs that are sound."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from click.testing import CliRunner, Result

from safetensors_reference.check.cli import check
from safetensors_reference.check.sarif import DIGEST
from safetensors_reference.files.names import shard_name

from ...sarif_official import sarif_errors
from ..audit.support import write_tree
from ..support import ABCD, W, make

VALID = make(f'{{"w":{W}}}', ABCD)
BROKEN = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!!!!")
"""A file with two faults."""
INDEX = "model.safetensors.index.json"


def run(*args: str | Path, env: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(check, [str(a) for a in args], env={"NO_COLOR": "1", **(env or {})})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def rows(result: Result, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the JSON objects on standard output, all of them or those of one kind."""
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return [row for row in found if kind in (None, row.get("kind"))]


def row(*args: str | Path) -> dict[str, Any]:
    """Return the only JSON object that a run prints."""
    (only,) = rows(run("--json", *args))
    return only


def write_model(folder: Path, count: int) -> Path:
    """Write shards with a tensor of four bytes each, and return the path of their index."""
    shards = {f"t{n}": shard_name("model", n + 1, count) for n in range(count)}
    files = {shard: make(f'{{"{name}":{W}}}', ABCD) for name, shard in shards.items()}
    index = json.dumps({"metadata": {"total_size": 4 * count}, "weight_map": shards}).encode()
    return write_tree(folder, {**files, INDEX: index}) / INDEX


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def load_log(path: Path) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    check_log(log)
    return log


def results(log: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = log["runs"][0]["results"]
    return out


def notifications(log: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    return out


def check_uri(uri: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]+", uri), uri
    assert re.sub("%[0-9A-F]{2}", "", uri).count("%") == 0
    assert urlsplit(uri).scheme in ("", "file")


def check_log(log: dict[str, Any], each: int = 1) -> None:
    """Assert that a log fits the official schema, and the references and texts that the schema leaves open.

    The schema is checked for every ``each``-th result and artifact, because it takes long.
    """
    (the_run,) = log["runs"]
    some = {part: the_run[part][::each] for part in ("results", "artifacts")}
    assert sarif_errors({**log, "runs": [{**the_run, **some}]}) == []
    for text in _texts(log):
        # Braces stand for placeholders unless they are doubled, and the messages have no arguments (3.11.5).
        assert "{" not in text.replace("{{", "")
        assert "}" not in text.replace("}}", "")
    driver, (taxonomy,) = the_run["tool"]["driver"], the_run["taxonomies"]
    assert (driver["name"], driver["organization"]) == ("stc check", "safetensors-conformance")
    assert driver["supportedTaxonomies"] == [{"name": taxonomy["name"], "index": 0}]
    for taxon in taxonomy["taxa"]:
        assert taxon["helpUri"] == f"https://cwe.mitre.org/data/definitions/{taxon['id']}.html"
    rules, artifacts = driver["rules"], the_run["artifacts"]
    references = [target["target"] for rule in rules for target in rule.get("relationships", ())]
    for artifact in artifacts:
        check_uri(artifact["location"]["uri"])
        assert artifact["roles"] == ["analysisTarget"]
    for result in the_run["results"]:
        (location,) = result["locations"]
        place = location["physicalLocation"]
        artifact = artifacts[place["artifactLocation"]["index"]]
        assert artifact["location"]["uri"] == place["artifactLocation"]["uri"]
        if result["ruleId"] == DIGEST:  # this is no rule of the format, and has no position in the file
            assert "region" not in place
            continue
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        region, size = place["region"], artifact.get("length", 0)
        assert 0 <= region["byteOffset"] <= region["byteOffset"] + region["byteLength"] <= size
        ((name, print_),) = result["partialFingerprints"].items()
        assert re.fullmatch(r"[A-Za-z]+/v[0-9]+", name)
        assert re.fullmatch("[0-9a-f]{64}", print_)
        references += result.get("taxa", ())
    for reference in references:
        assert taxonomy["taxa"][reference["index"]]["id"] == reference["id"]
        assert reference["toolComponent"] == {"name": taxonomy["name"], "index": 0}
    (invocation,) = the_run["invocations"]
    assert invocation["executionSuccessful"] is (invocation["exitCode"] in (0, 1))
    for notification in invocation["toolExecutionNotifications"]:
        assert notification["level"] in ("error", "warning")
        (location,) = notification["locations"]
        place = location["physicalLocation"]["artifactLocation"]
        assert artifacts[place["index"]]["location"]["uri"] == place["uri"]


def _texts(value: Any) -> list[str]:
    """Return the texts of all messages."""
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("text", "markdown") if isinstance(value.get(name), str)]
    return own + [text for item in value.values() for text in _texts(item)]
