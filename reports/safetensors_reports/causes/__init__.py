"""Likely causes: what really is one mistake of an implementation, told once and with all its cases."""

from .cause import Cause, cause_lines, causes, command, describe_failures, mistakes_of

__all__ = ["Cause", "cause_lines", "causes", "command", "describe_failures", "mistakes_of"]
