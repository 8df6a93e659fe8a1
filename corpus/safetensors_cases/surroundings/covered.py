"""Cases in the area ``surroundings``, one for each row of the covering sets."""

from __future__ import annotations

from safetensors_corpus.author.case import ACCEPT, CaseFunction, Importance, Reject, register
from safetensors_corpus.steps import KINDS

from .model import Model, Row
from .sets import rows, topics

AREA = "surroundings"
IMPORTANCE: dict[str, Importance] = {
    **dict.fromkeys(("FRM-02", "FRM-04", "FRM-05", "OFF-01", "OFF-03", "OFF-04", "OFF-05"), "critical"),
    **dict.fromkeys(("OFF-06", "OFF-07", "OFF-08", "OFF-09", "OFF-12", "HDR-09", "HDR-10"), "high"),
    **dict.fromkeys(("HDR-11", "HDR-12", "FRM-07", "SHP-03", "SHP-04"), "high"),
    "SHP-05": "critical",
}
"""Broken rule -> importance of rejecting the file. All other rules have medium importance."""


def case_of(model: Model, name: str, row: Row) -> CaseFunction:
    topic = model.topics[name]
    rules, codes = topic.rules_of(row), topic.codes_of(row)
    phrase = ", ".join(
        prop.levels[row[key]] for key, prop in model.properties.items() if prop.levels[row[key]]
    )
    about = topic.about[0].upper() + topic.about[1:]
    return CaseFunction(
        id=f"{AREA}/{name}-{model.slug(row)}",
        title=f"{about} ({phrase or 'no other unusual property'}).",
        rules=rules,
        options={"": Reject(codes) if codes else ACCEPT},
        body=lambda f, topic, row: topic.make(row, f),
        arguments=(topic, row),
        importance=IMPORTANCE.get(rules[0], "medium") if codes else "medium",
        steps=KINDS["read"].steps,
        source={"kind": "covering"},
    )


_ROWS = rows()
for _topic, _model in topics().items():
    for _row in _ROWS[_topic]:
        register(case_of(_model, _topic, _row))
