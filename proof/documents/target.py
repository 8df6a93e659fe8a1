"""The libFuzzer target of ``python -m proof.documents``: ``python -m ... NAME FOLDER [libFuzzer flags]``."""

from __future__ import annotations

import sys
from pathlib import Path

# atheris must instrument modules before anything else imports them.
from safetensors_fuzz.engines.atheris.target import load_atheris

WATCHED = {
    "index": "safetensors_reference",
    "slice": "safetensors_reference",
    "manifest": "safetensors_corpus",
    "record": "safetensors_reports",
    "answer": "safetensors_conformance",
}
"""Package whose branches guide the run, for each target."""
MAX_LEN = 1 << 17


def main() -> None:
    """Run the target until a libFuzzer flag ends the run."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    arguments = [sys.argv[0], *sys.argv[3:]]
    atheris = load_atheris()
    with atheris.instrument_imports(include=[WATCHED[name]]):
        from .document_targets import TARGETS, mutated
    target = TARGETS[name](folder)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return mutated(data, seed, lambda part: bytes(atheris.Mutate(part, len(part) + 64)), most)

    def one(data: bytes) -> None:
        target.run(data)

    atheris.Setup(arguments, one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
