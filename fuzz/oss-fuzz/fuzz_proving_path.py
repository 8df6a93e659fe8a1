"""Fuzz target: compares the fast path of the reference with its explaining path.

Whatever the fast path proves must be free of faults on the explaining path, with the same tensors, under the
strictest reading of the format (profile ``hardened``).
"""

# Imported so that it is packed. It has no types and need not be installed for type checking.
import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401

from safetensors_fuzz.engines.atheris.target import main

DEFAULTS = {
    "STC_FUZZ_IMPLS": "reference",
    "STC_FUZZ_STEPS": "prove",
    "STC_FUZZ_PROFILE": "hardened",
    "STC_FUZZ_RAISE": "1",
}

if __name__ == "__main__":
    main(DEFAULTS)
