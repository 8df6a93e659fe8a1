"""The conformance corpus.

Each case is defined by a function. The build turns these functions into test files and a language-independent
manifest.
"""

from __future__ import annotations

from .document import ManifestError
from .manifest import Case, Expectation, Manifest, load_manifest

__all__ = ["Case", "Expectation", "Manifest", "ManifestError", "load_manifest"]
