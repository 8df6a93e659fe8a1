"""What an engine without grammar achieves: bytes and tokens changed in a few valid files, at random.

It is here to be compared with and for nothing else.
"""

from __future__ import annotations

import random

from ..grammar.model import File, parse
from ..grammar.valid import valid_file
from ..loop.campaign import Campaign
from ..loop.recorder import Settings, Tally
from ..loop.subjects import Slots

SEEDS = 16


def run_bytes(campaign: Campaign, settings: Settings, slots: Slots) -> Tally:
    """Change up to four bytes of a valid file at a time, until the settings say stop."""
    rng = random.Random(settings.seed)  # noqa: S311 - reproducible on purpose
    bases = [valid_file(rng).render() for _ in range(SEEDS)]
    for _ in range(settings.max_execs or 0):
        data = bytearray(rng.choice(bases))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    data[at:at] = rng.randbytes(1)
                case _ if len(data) > 1:
                    del data[at]
        campaign.one(bytes(data), slots, _opaque(bytes(data)))
        if settings.first and campaign.tally.findings:
            break
    return campaign.tally


def _opaque(data: bytes) -> File:
    file = parse(data)
    file.faults = ("bytes",)
    return file
