"""Likely causes: what really is one mistake of an implementation, told once and with all its cases."""

from .cause import Cause, causes

__all__ = ["Cause", "causes"]
