"""Writes the results of ``stc check`` as an unsigned in-toto statement (test-result v0.1)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ..rules.book import ProfileName
    from .result import CheckResult, ModelResult, Status

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file with its digest and verdict; ``warned`` is True if the profile tolerates one of its faults."""

    name: str
    sha256: str | None
    status: Status
    warned: bool = False


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model with its verdict and its files, in the order in which they were checked."""

    name: str
    folder: str
    status: Status
    files: tuple[str, ...]


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
        self.models.append(CheckedModel(result.name, result.folder, result.status, paths))

    @property
    def verdict(self) -> Literal["PASSED", "WARNED", "FAILED"]:
        items: list[CheckedFile | CheckedModel] = [*self.files, *self.models]
        if self.failed or not items or any(item.status != "valid" for item in items):
            return "FAILED"
        return "WARNED" if any(file.warned for file in self.files) else "PASSED"


def rule_book_digest() -> str:
    """Return the SHA-256 of rules.toml followed by choices.toml, which is also used in audit reports."""
    package = files("safetensors_reference.rules")
    return hashlib.sha256(
        b"".join(package.joinpath(name).read_bytes() for name in ("rules.toml", "choices.toml"))
    ).hexdigest()


def statement(checked: CheckRecord) -> Json:
    subject = [{"name": f.name, "digest": {"sha256": f.sha256}} for f in checked.files if f.sha256]
    if not subject:
        raise ValueError("a statement needs at least one file, but none could be read")
    sound = [f for f in checked.files if f.status == "valid"]
    broken = [f.name for f in checked.files if f.status != "valid"]
    broken += [model.name for model in checked.models if model.status != "valid"]
    settings: Json = {"profile": checked.profile, "suite": version("safetensors-conformance")}
    return {
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": {
            "result": checked.verdict,
            "configuration": [
                {"name": "rules.toml+choices.toml", "digest": {"sha256": rule_book_digest()}},
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


def statement_text(checked: CheckRecord) -> str:
    return json.dumps(statement(checked), indent=1) + "\n"
