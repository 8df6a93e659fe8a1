"""The corpus: cases as decorated functions, built into files and a language-free manifest."""

from __future__ import annotations

from .manifest import Case, Expectation, Manifest, ManifestError, load_manifest

__all__ = ["Case", "Expectation", "Manifest", "ManifestError", "load_manifest"]
