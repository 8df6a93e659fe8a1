"""Writes the results of ``stc check`` as an unsigned in-toto statement or a CycloneDX bill of materials."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import uuid
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..rules.book import ProfileName, rule_book

if TYPE_CHECKING:
    from ..model.judge import Status
    from .result import CheckResult, ModelResult

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
PROPERTY_PREFIX = "safetensors-conformance:"
Json = dict[str, object]


class CheckedFile(NamedTuple):
    """A file with its digest and verdict; ``warned`` is True if the profile tolerates one of its faults."""

    name: str
    sha256: str | None
    status: Status
    warned: bool


class CheckedModel(NamedTuple):
    """A model with its verdict and its files, in the order in which they were checked."""

    name: str
    files: tuple[str, ...]
    status: Status


@dataclass(slots=True)
class CheckRecord:
    """All files and models of one run; ``failed`` lists the files that do not match the list of digests."""

    profile: ProfileName
    files: list[CheckedFile] = field(default_factory=list)
    models: list[CheckedModel] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def add_file(self, result: CheckResult, sha256: str | None) -> None:
        """Add a file. A file without a digest counts as unreadable."""
        status = "unreadable" if sha256 is None else result.status
        self.files.append(CheckedFile(result.name, sha256, status, bool(result.tolerated)))

    def add_model(self, result: ModelResult) -> None:
        judged = result.judgement
        names = dict.fromkeys((*judged.shards, *(() if judged.index is None else (judged.index,))))
        paths = tuple(result.path_of(name) for name in names)
        self.models.append(CheckedModel(result.name, paths, result.status))

    @property
    def verdict(self) -> Literal["PASSED", "WARNED", "FAILED"]:
        items: list[CheckedFile | CheckedModel] = [*self.files, *self.models]
        if self.failed or not items or any(item.status != "valid" for item in items):
            return "FAILED"
        return "WARNED" if any(file.warned for file in self.files) else "PASSED"


def statement_text(checked: CheckRecord) -> str:
    """Return an in-toto statement as JSON. Raises ValueError if no file could be read."""
    subject = [{"name": f.name, "digest": {"sha256": f.sha256}} for f in checked.files if f.sha256]
    if not subject:
        raise ValueError("a statement needs at least one file, but none could be read")
    sound = [f for f in checked.files if f.status == "valid"]
    broken = [f.name for f in checked.files if f.status != "valid"]
    broken += [model.name for model in checked.models if model.status != "valid"]
    settings: Json = {"profile": checked.profile, "suite": version("safetensors-conformance")}
    statement: Json = {
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": {
            "result": checked.verdict,
            "configuration": [
                {"name": "rules.toml+choices.toml", "digest": {"sha256": rule_book().digest}},
                {"name": "stc check", "annotations": settings},
            ],
            "passedTests": [
                *(f.name for f in sound if not f.warned),
                *(model.name for model in checked.models if model.status == "valid"),
            ],
            "warnedTests": [f.name for f in sound if f.warned],
            "failedTests": list(dict.fromkeys([*broken, *checked.failed])),
        },
    }
    return json.dumps(statement, indent=1) + "\n"


def bom_text(checked: CheckRecord) -> str:
    """Return a CycloneDX 1.6 document as JSON. Raises ImportError without the ``sbom`` extra."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    rows = [repr(tuple(item[:3])) for item in (*checked.files, *checked.models)]
    digest = hashlib.sha256("\n".join(rows).encode()).digest()
    bom = Bom(serial_number=uuid.UUID(bytes=digest[:16], version=4))
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    fixed = epoch.isascii() and epoch.isdigit() and len(epoch) < 12
    bom.metadata.timestamp = (
        dt.datetime.fromtimestamp(int(epoch), dt.UTC) if fixed else dt.datetime.now(dt.UTC)
    )
    name = "safetensors-conformance"
    tool = Component(name=name, version=version(name), type=ComponentType.APPLICATION, bom_ref="tool")
    bom.metadata.tools.components.add(tool)
    by_name = {file.name: file for file in checked.files}
    inside: set[str] = set()
    for model in checked.models:
        files = [by_name[name] for name in model.files if name in by_name]
        inside.update(file.name for file in files)
        bom.components.add(
            Component(
                name=model.name,
                type=ComponentType.MACHINE_LEARNING_MODEL,
                bom_ref=f"model:{model.name}",
                properties=_properties(model.status, checked),
                components=[_file(file, ComponentType.FILE, checked, model.name) for file in files],
            )
        )
    for file in checked.files:
        if file.name not in inside:
            bom.components.add(_file(file, ComponentType.MACHINE_LEARNING_MODEL, checked, ""))
    made = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    return str(made.output_as_string(indent=1)) + "\n"


def _file(file: CheckedFile, kind: Any, checked: CheckRecord, of: str) -> Any:
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component

    hashes = [] if file.sha256 is None else [HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)]
    properties = _properties(file.status, checked)
    # Two indexes may list the same file, but references in a bill of materials must be unique.
    ref = f"file:{of}:{file.name}"
    return Component(name=file.name, type=kind, bom_ref=ref, hashes=hashes, properties=properties)


def _properties(status: str, checked: CheckRecord) -> list[Any]:
    from cyclonedx.model import Property

    values = {"verdict": status, "profile": checked.profile}
    return [Property(name=f"{PROPERTY_PREFIX}{name}", value=value) for name, value in values.items()]
