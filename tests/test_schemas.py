"""The published schemas of typed models are those that the models give."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from safetensors_conformance.implementations.descriptor import Descriptor
from safetensors_corpus.model import corpus_schema
from safetensors_corpus.publish.release import changes_schema
from safetensors_corpus.typed import json_schema
from safetensors_reference.audit.results import Row
from safetensors_reports.audit.report import Report
from safetensors_reports.differences.report import DiffDocument
from safetensors_reports.features import FeatureDocument
from safetensors_reports.fuzz_finding import FindingDocument
from safetensors_reports.history.directory import DirectoryDocument
from safetensors_reports.history.ledger import Line
from safetensors_reports.history.trend import TrendDocument
from safetensors_reports.record.file import Choice, Footer, Header, Problem, Result

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "reports" / "safetensors_reports" / "schemas"
FUZZ = ROOT / "fuzz" / "safetensors_fuzz" / "schemas"
AUDIT = ROOT / "reference" / "safetensors_reference" / "audit" / "schemas"
CONFORMANCE = ROOT / "conformance" / "safetensors_conformance" / "schemas"
Record = Header | Result | Choice | Problem | Footer
ABOUT = {
    "record": "A run of one implementation is a file of JSON lines in UTF-8: one header, then results, "
    "choices and problems as they come, one footer. No footer: the run was truncated. Readers ignore "
    "properties they do not know."
}
SCHEMAS: list[tuple[Path, str, Any]] = [
    (CONFORMANCE / "implementation.schema.json", "Descriptor of an implementation", Descriptor),
    (FUZZ / "finding.schema.json", "Finding of a fuzzing run, version 1", FindingDocument),
    (REPORTS / "record.schema.json", "Run record, version 1: one line", Record),
    (AUDIT / "audit-row.schema.json", "Row of an audit, version 1", Row),
    (REPORTS / "diff.schema.json", "Differential run, version 1", DiffDocument),
    (REPORTS / "report.schema.json", "Audit report, version 1", Report),
    (REPORTS / "trend.schema.json", "Trend over versions, version 1", TrendDocument),
    (REPORTS / "history.schema.json", "History of a program, version 1: one line", Line),
    (REPORTS / "features.schema.json", "Features by version, version 1", FeatureDocument),
    (
        REPORTS / "implementations.schema.json",
        "Programs with published reports, version 1",
        DirectoryDocument,
    ),
]


@pytest.mark.parametrize(("path", "title", "model"), SCHEMAS, ids=[path.name for path, _, _ in SCHEMAS])
def test_a_published_schema_is_that_of_its_model(path: Path, title: str, model: Any) -> None:
    name = path.name.partition(".")[0]
    compare(path, json_schema(name, title, model, ABOUT.get(name, "")))


@pytest.mark.parametrize("made", [corpus_schema(), changes_schema()], ids=["corpus", "changes"])
def test_the_schemas_of_the_corpus_are_those_of_its_models(made: dict[str, Any]) -> None:
    compare(ROOT / "corpus" / "schema" / made["$id"].rpartition("/")[2], made)


def compare(path: Path, made: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(made)
    text = json.dumps(made, indent=1) + "\n"
    if "WRITE_SCHEMAS" in os.environ:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run: WRITE_SCHEMAS=1 pytest tests/test_schemas.py"
