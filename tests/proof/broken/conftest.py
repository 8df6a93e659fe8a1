"""The fixtures of the corpus."""

from __future__ import annotations

from ...corpus.conftest import built, manifest, raw, written

__all__ = ["built", "manifest", "raw", "written"]
