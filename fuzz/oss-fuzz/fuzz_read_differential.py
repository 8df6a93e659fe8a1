"""Fuzz target that compares the official library with the reference reader.

Both run in this process. The profile ``official`` allows the known deviations of the official library, so
every crash is a new finding.
"""

# Import atheris so that the build includes it. It has no type information, and type checking does not require
# it to be installed.
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
