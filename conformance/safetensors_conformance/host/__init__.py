"""The implementation's side of the worker protocol.

The files in this folder run as stand-alone scripts in other environments.
"""
