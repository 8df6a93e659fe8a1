"""The conformance corpus.

Functions define the cases, and the build writes the files and a language-independent manifest.
"""

from __future__ import annotations

from .document import ManifestError
from .manifest import Case, Expectation, Manifest, load_manifest

__all__ = ["Case", "Expectation", "Manifest", "ManifestError", "load_manifest"]
