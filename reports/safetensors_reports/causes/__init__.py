"""Likely causes: failures of a run grouped by root cause."""

from .cause import Cause, cause_lines, causes, command, describe_failures, mistakes_of

__all__ = ["Cause", "cause_lines", "causes", "command", "describe_failures", "mistakes_of"]
