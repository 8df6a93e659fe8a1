"""Adapters of the built-in implementations; each file runs inside the worker beside its reader."""
