"""The fixtures of the corpus."""

from __future__ import annotations

from ...corpus.conftest import manifest, raw, written

__all__ = ["manifest", "raw", "written"]
