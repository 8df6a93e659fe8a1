"""Fuzz target that compares the fast path of the reference reader with its explaining path.

If the fast path proves that a file is valid, the explaining path must find no fault and return the same
tensors, even under the strictest profile, ``hardened``.
"""

# Import atheris so that the build includes it. It has no type information, and type checking does not require
# it to be installed.
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
