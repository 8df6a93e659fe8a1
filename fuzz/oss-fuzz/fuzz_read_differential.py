"""Fuzz target: the official library must read what the reference reads, and refuse what it refuses.

Both run in this process. What the official library is known to take beyond the text is allowed (profile
``official``), so that anything that ends the run is news.
"""

# Named here so that it is packed. It has no types, and need not be installed where types are checked.
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
