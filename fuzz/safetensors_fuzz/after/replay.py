"""Names that tests of earlier findings import."""

from ..findings.replay import failure

__all__ = ["failure"]
