"""Sets: the committed rows of each topic.

Each line of ``covering.txt`` contains a topic and a row. Lines are only added, so that cases keep their ids.
``python -m tools.covering`` searches for rows and keeps the existing ones.
"""

from __future__ import annotations

from pathlib import Path

from .lists import LISTS
from .model import Model
from .numbers import NUMBERS
from .strings import STRINGS
from .tensors import TENSORS
from .tokens import TOKENS

FILE = Path(__file__).parent / "covering.txt"
MODELS: tuple[Model, ...] = (TENSORS, STRINGS, NUMBERS, TOKENS, LISTS)


def topics() -> dict[str, Model]:
    return {topic: model for model in MODELS for topic in model.topics}


def rows(text: str | None = None) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each topic in ``text`` or ``covering.txt``. Raises ValueError for a bad line."""
    models = topics()
    out: dict[str, list[dict[str, str]]] = {topic: [] for topic in models}
    lines = (FILE.read_text(encoding="ascii") if text is None else text).splitlines()
    for number, line in enumerate(lines, 1):
        topic, _, slug = line.partition(" ")
        if topic not in models:
            raise ValueError(f"{FILE.name}:{number}: {topic!r} is not a topic of a covering model")
        try:
            row = models[topic].row(slug)
        except ValueError as err:
            raise ValueError(f"{FILE.name}:{number}: {err}") from err
        if not models[topic].permitted(row):
            raise ValueError(f"{FILE.name}:{number}: the levels are mutually exclusive")
        out[topic].append(row)
    return out
