"""Fuzz target: compares the fast path of the reference with its explaining path.

If the fast path proves a file, the explaining path must find no fault and the same tensors, even under the
strictest profile, ``hardened``.
"""

# Imported so that the build packs it. It has no types, and type checking does not require it.
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
