"""Build hook: puts corpus and examples into the wheel; in a checkout they are read where they lie."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CorpusHook(BuildHookInterface[Any]):
    """Adds the data to standard wheels only; an editable install needs no copy."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Extend the list of files that the wheel takes from outside the packages."""
        if version == "standard":
            for name in ("files", "corpus.json", "corpus.sha256", "schema"):
                build_data["force_include"][f"corpus/{name}"] = f"safetensors_corpus/data/{name}"
            build_data["force_include"]["docs/examples"] = "safetensors_conformance/examples"
