"""Group the failures of a run by their likely causes."""

from .cause import Cause, cause_lines, causes, command, describe_failures, mistakes_of

__all__ = ["Cause", "cause_lines", "causes", "command", "describe_failures", "mistakes_of"]
