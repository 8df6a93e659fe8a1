"""Names that the tests in existing finding folders import."""

from ..findings.replay import failure

__all__ = ["failure"]
