"""The files that the page of trophies is made of, read and checked; trends made fit to be published."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from safetensors_corpus.steps import CASE_STEPS
from safetensors_reference.source import read_whole

from ..history.model import TURNS, turn_of
from ..schemas import schema_error
from ..text import same_project, visible
from .model import Expectations

LARGEST_DOCUMENT = 64 << 20
"""Most bytes of a trend or descriptor that is read."""
IMPLEMENTATIONS = Path("conformance") / "safetensors_conformance" / "implementations"


class TrophyError(Exception):
    """Data that cannot be used; the text names the file, what is wrong, and what to do."""


def file_name(implementation: str) -> str:
    """Return the name of the file that holds the published trend of an implementation."""
    return implementation.replace(":", "-") + ".json"


def published(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is published of a trend: the changes that show a bug reported in public, and their number.

    Left out are changes without a report, counts and remarks that tell of such, and what is wrong in the
    version that fails (``detail``), for that may hold paths and amounts.
    """
    passages = []
    for passage in document["passages"]:
        changes = [{**change, "detail": ""} for change in passage["changes"] if change["bugs"]]
        turns = Counter(change["turn"] for change in changes)
        passages.append({**passage, "counts": {turn: turns[turn] for turn in TURNS}, "changes": changes})
    versions = [{**row, "counts": {}, "remarks": []} for row in document["versions"]]
    return {**document, "versions": versions, "passages": passages}


def load_trends(folder: Path, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read every published trend of a folder. Raises TrophyError."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise TrophyError(f"{folder}: no trends; add one with: stc trophies --add FILE")
    out = []
    for path in paths:
        document = load_trend(path, manifest)
        if path.name != file_name(document["implementation"]):
            raise TrophyError(
                f"{path}: holds {visible(document['implementation'], 60)}, which belongs into "
                f"{visible(file_name(document['implementation']), 60)}"
            )
        if document != published(document):
            raise TrophyError(
                f"{path}: holds more than may be published; write it with: stc trophies --add FILE"
            )
        out.append(document)
    return out


def load_trend(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read one trend and hold it against its schema, itself and the corpus. Raises TrophyError."""
    try:
        document = json.loads(read_whole(path, LARGEST_DOCUMENT))
    except OSError as err:
        raise TrophyError(str(err)) from err
    except ValueError as err:
        raise TrophyError(f"{path}: not JSON ({visible(str(err), 120)}); is it cut short?") from err
    error = schema_error("trend", document)
    if error is not None:
        raise TrophyError(f"{path}: {error}")
    fault = _fault(document) or _corpus_fault(document, manifest)
    if fault:
        raise TrophyError(f"{path}: {visible(fault, 300)}")
    return dict(document)


def _fault(document: Mapping[str, Any]) -> str:
    ran = [row["version"] for row in document["versions"] if row["ran"]]
    if document["interrupted"] or len(ran) != len(document["versions"]):
        return "not every version was run; run stc trend again"
    try:
        [Version(v) for v in ran]
    except InvalidVersion as err:
        return f"{err}: versions must be of one kind to be put in order"
    if [(p["before"], p["after"]) for p in document["passages"]] != list(pairwise(ran)):
        return "its passages are not those between its versions"
    for passage in document["passages"]:
        for change in passage["changes"]:
            if turn_of(change["before"], change["after"]) != change["turn"]:
                return (
                    f"{change['case']} is called {change['turn']}, "
                    f"but went from {change['before']} to {change['after']}"
                )
    return ""


def _corpus_fault(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    name = document["implementation"]
    cases = {case["id"]: case for case in manifest["cases"]}
    for passage in document["passages"]:
        for change in passage["changes"]:
            case = cases.get(change["case"])
            if case is None:
                return f"{change['case']} is no case of the corpus; run stc trend again"
            own = {row["bug"] for row in case["affects"] if same_project(name, row["project"])}
            if {row["bug"] for row in change["bugs"]} != own:
                return f"{change['case']} names other bugs in the corpus; run stc trend again"
    return ""


def load_baselines(root: Path) -> list[Expectations]:
    """Read the baselines of a checkout, each for the version in its implementation's descriptor.

    Raises TrophyError.
    """
    out = []
    for path in sorted((root / IMPLEMENTATIONS).glob("*/expected_failures*.toml")):
        raw = _toml(path)
        name, rows = raw.get("implementation"), raw.get("expected", [])
        if not isinstance(name, str) or not isinstance(rows, list):
            raise TrophyError(f"{path}: no baseline; 'implementation' and [[expected]] are needed")
        for row in rows:
            _check_row(path, row)
        out.append(Expectations(name, _newest(path.with_name("implementation.toml")), tuple(rows)))
    return out


def _check_row(path: Path, row: Any) -> None:
    if not isinstance(row, dict) or not isinstance(row.get("case"), str):
        raise TrophyError(f"{path}: an entry has no 'case'")
    if not all(isinstance(row.get(key, ""), str) for key in (*CASE_STEPS, "issue", "versions", "profile")):
        raise TrophyError(f"{path}, {row['case']}: verdicts, issue, versions and profile must be strings")
    try:
        SpecifierSet(row.get("versions", ""))
    except InvalidSpecifier as err:
        raise TrophyError(f"{path}, {row['case']}: {err}") from err


def _newest(path: Path) -> str:
    version = _toml(path).get("install", {}).get("version")
    try:
        return str(Version(version))
    except (InvalidVersion, TypeError) as err:
        raise TrophyError(f"{path}: install.version = {version!r} is no version") from err


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_whole(path, LARGEST_DOCUMENT).decode())
    except OSError as err:
        raise TrophyError(str(err)) from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise TrophyError(f"{path}: not readable as TOML ({err})") from err
