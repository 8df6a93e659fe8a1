"""Fuzz target: what the fast path of the reference proves, its explaining path must find without fault.

Both must see the same tensors, under the strictest reading of the format (profile ``hardened``).
"""

# Named here so that it is packed. It has no types, and need not be installed where types are checked.
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
