"""Fuzz target that compares the official library with the reference reader.

Both run in this process. The profile ``official`` allows the known deviations of the official library, so
every crash is a new finding.
"""

# The build bundles only modules that the target imports. This module has no type information, so type
# checking skips it.
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
