"""The sets: the rows of each topic, and the files that they describe.

``covering.txt`` has a topic and a row on each line and only grows, so that a file keeps its name.
``python -m tools.covering`` finds rows and keeps those that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from safetensors_corpus.author.file import FileBuilder

from .model import Model
from .numbers import NUMBERS
from .strings import STRINGS
from .tensors import TENSORS
from .tokens import TOKENS

FILE = Path(__file__).parent / "covering.txt"
MODELS: tuple[Model, ...] = (TENSORS, STRINGS, NUMBERS, TOKENS)


class Made(NamedTuple):
    """The file of a row.

    Attributes:
        name: topic and row, as ``hole-of-one-last-r3-tight``.
        data: bytes of the file.
        content: what a reader must report, in the form of the manifest; None where it must refuse the file.
        choice: the choice that leaves the answer open: a reader may refuse, too.
    """

    name: str
    data: bytes
    content: dict[str, Any] | None
    choice: str | None = None


def rows(text: str | None = None) -> dict[str, list[dict[str, str]]]:
    """Return the rows of every topic. Raises ValueError naming the line.

    Args:
        text: content of a ``covering.txt``; None reads the committed one.
    """
    models = {topic: model for model in MODELS for topic in model.topics}
    out: dict[str, list[dict[str, str]]] = {topic: [] for topic in models}
    lines = (FILE.read_text(encoding="ascii") if text is None else text).splitlines()
    for number, line in enumerate(lines, 1):
        topic, _, slug = line.partition(" ")
        if topic not in models:
            raise ValueError(f"{FILE.name}:{number}: {topic!r} is no topic of a covering model")
        try:
            row = models[topic].row(slug)
        except ValueError as err:
            raise ValueError(f"{FILE.name}:{number}: {err}") from err
        if not models[topic].permitted(row):
            raise ValueError(f"{FILE.name}:{number}: levels that cannot meet")
        out[topic].append(row)
    return out


def files() -> Iterator[Made]:
    """Make the files of all sets, one after the other."""
    known = rows()
    for model in MODELS:
        for name, topic in model.topics.items():
            for row in known[name]:
                builder = FileBuilder()
                topic.make(row, builder)
                content = None if topic.codes_of(row) else builder.content()
                yield Made(f"{name}-{model.slug(row)}", builder.render(), content, topic.choice(row))
