"""Build hook: packs the corpus into one file of the wheel, and adds the examples.

A checkout and an editable install read the files of the repository.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKED = ("files", "schema", "corpus.json", "corpus.sha256")


class CorpusHook(BuildHookInterface[Any]):
    """Adds data from outside the packages to standard wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            self._folder = tempfile.TemporaryDirectory()
            archive = Path(self._folder.name) / "corpus.tar.gz"
            archive.write_bytes(packed(Path(self.root) / "corpus"))
            build_data["force_include"][str(archive)] = "safetensors_corpus/corpus.tar.gz"
            build_data["force_include"]["docs/examples"] = "safetensors_conformance/examples"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version == "standard":
            self._folder.cleanup()


def packed(root: Path) -> bytes:
    """Return an archive of the corpus, which is the same for every build of the same files."""
    paths = [path for name in PACKED for path in (root / name, *(root / name).rglob("*")) if path.is_file()]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(paths):
            info = tarfile.TarInfo(path.relative_to(root).as_posix())
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)
    return gzip.compress(out.getvalue(), 9, mtime=0)
