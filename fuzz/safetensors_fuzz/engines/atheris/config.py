"""What the libFuzzer target is asked to do.

libFuzzer starts itself again for ``-fork`` and ``-minimize_crash`` and passes on nothing but its own flags,
so everything else comes in variables:

STC_FUZZ_IMPLS     selectors, one a line (default: reference; see ``atheris_subjects`` for ``here:``)
STC_FUZZ_STEPS     steps, with commas between (default: read)
STC_FUZZ_PROFILE   whose options are demanded (default: undisputed musts only)
STC_FUZZ_OUTPUT    folder for findings (default: they are only told)
STC_FUZZ_ENV       names of variables that workers get beside the usual ones, with commas between
STC_FUZZ_TALLY     folder for the counts of each process (default: none)
STC_FUZZ_RAISE     1: end at a finding as at a crash, as -minimize_crash and services need it;
                   a part of a signature: end at such findings only, so that one does not become another
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    # Nothing of the reference may be imported before atheris watches the imports.
    from safetensors_reference.rules.book import ProfileName

DEFAULTS = {
    "IMPLS": "reference",
    "STEPS": "read",
    "PROFILE": "",
    "OUTPUT": "",
    "ENV": "",
    "TALLY": "",
    "RAISE": "",
}
CANNOT_START = 2
"""Exit status when the target cannot do what it was asked, which is no finding."""
INTERRUPTED = 72
"""Exit status after a signal, as libFuzzer has it."""


@dataclass(frozen=True)
class Config:
    """What the target was asked to do."""

    impls: tuple[str, ...]
    steps: tuple[str, ...]
    profile: ProfileName | None
    output: Path | None
    tally: Path | None
    raises: str
    seed: int
    env: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str], arguments: Sequence[str]) -> Config:
        """Take the configuration from the environment, and the seed from libFuzzer's flags.

        Raises ValueError for a profile that does not exist.
        """
        given = {key: environment.get(f"STC_FUZZ_{key}", "") or value for key, value in DEFAULTS.items()}
        seeds = [a.removeprefix("-seed=") for a in arguments if a.startswith("-seed=")]
        profile = given["PROFILE"]
        if profile not in ("", "text", "official", "hardened"):
            raise ValueError(f"STC_FUZZ_PROFILE: {profile!r} is none of text, official, hardened")
        return cls(
            impls=tuple(line.strip() for line in given["IMPLS"].splitlines() if line.strip()),
            steps=tuple(step.strip() for step in given["STEPS"].split(",") if step.strip()),
            profile=cast("ProfileName", profile) if profile else None,
            output=Path(given["OUTPUT"]) if given["OUTPUT"] else None,
            tally=Path(given["TALLY"]) if given["TALLY"] else None,
            raises="" if given["RAISE"] == "0" else given["RAISE"],
            seed=int(seeds[-1]) if seeds and seeds[-1].isdigit() else 0,
            env=tuple(name for name in given["ENV"].split(",") if name),
        )


def environment_of(
    impls: Sequence[str],
    steps: Sequence[str],
    profile: str | None,
    output: Path | None = None,
    tally: Path | None = None,
    env: Sequence[str] = (),
) -> dict[str, str]:
    """Return the variables that make the target do this."""
    return {
        "STC_FUZZ_IMPLS": "\n".join(impls),
        "STC_FUZZ_STEPS": ",".join(steps),
        "STC_FUZZ_PROFILE": profile or "",
        "STC_FUZZ_OUTPUT": str(output.resolve()) if output else "",
        "STC_FUZZ_ENV": ",".join(env),
        "STC_FUZZ_TALLY": str(tally.resolve()) if tally else "",
    }
