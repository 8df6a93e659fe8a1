"""The implementation's side of the worker protocol: stand-alone scripts that run in other environments."""
