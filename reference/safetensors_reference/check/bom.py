"""Writes a CycloneDX bill of materials for the checked files (needs the ``sbom`` extra)."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import uuid
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .statement import CheckedFile, CheckRecord

NEEDED = "needs the sbom extra: pip install 'safetensors-conformance[sbom]'"
PREFIX = "safetensors-conformance:"


def bom_text(checked: CheckRecord) -> str:
    """Return a CycloneDX 1.6 document as JSON.

    The timestamp comes from SOURCE_DATE_EPOCH if that variable is set. Raises ImportError if the ``sbom``
    extra is not installed.
    """
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    rows = [repr((file.name, file.sha256, file.status)) for file in checked.files]
    rows += [repr((model.name, model.files, model.status)) for model in checked.models]
    digest = hashlib.sha256("\n".join(rows).encode()).digest()
    bom = Bom(serial_number=uuid.UUID(bytes=digest[:16], version=4))
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isascii() and epoch.isdigit() and len(epoch) < 12 else None
    bom.metadata.timestamp = (
        dt.datetime.now(dt.UTC) if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC)
    )
    tool = Component(
        name="safetensors-conformance",
        version=version("safetensors-conformance"),
        type=ComponentType.APPLICATION,
        bom_ref="tool",
    )
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
    # Two indexes may name the same file, but references in a bill of materials must be unique.
    return Component(
        name=file.name, type=kind, bom_ref=f"file:{of}:{file.name}", hashes=hashes, properties=properties
    )


def _properties(status: str, checked: CheckRecord) -> list[Any]:
    from cyclonedx.model import Property

    values = {"verdict": status, "profile": checked.profile}
    return [Property(name=f"{PREFIX}{name}", value=value) for name, value in values.items()]
