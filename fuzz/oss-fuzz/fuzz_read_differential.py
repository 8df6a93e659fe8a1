"""Fuzz target: compares the official library with the reference.

Both run in this process. The profile ``official`` allows everything that the official library is known to
accept beyond the written format, so anything that stops the run is new.
"""

# Imported so that it is packed. It has no types and need not be installed for type checking.
import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401

from safetensors_fuzz.engines.atheris.target import main

DEFAULTS = {
    "STC_FUZZ_IMPLS": "here:safetensors",
    "STC_FUZZ_STEPS": "read",
    "STC_FUZZ_PROFILE": "official",
    "STC_FUZZ_RAISE": "1",
}

if __name__ == "__main__":
    main(DEFAULTS)
