"""Features of checkpoints that need not be refused: the text of the index, its shards and other files."""

from __future__ import annotations

from safetensors_corpus.index_builder import numbered
from safetensors_reference.rules import rule_book

from ..features.feature import Feature, change, feature
from .index_text import CHOICES, LAYOUTS, metadata_choice
from .index_words import USUAL
from .question import Plan, PlanError
from .tensor_features import TENSORS, Lose

INDEXES: list[Feature[Plan]] = []


# ---- the text ----


def _laid_out(name: str, words: str) -> Lose:
    def lose(plan: Plan) -> bool:
        found: bool = plan["text"] == name
        plan["text"] = "plain" if found else plan["text"]
        return found

    lose.__doc__ = words
    return lose


for _name in CHOICES:
    feature(INDEXES, rule_book().choices[_name].rule)(_laid_out(_name, f"An index of the choice {_name}."))
for _name in LAYOUTS:
    if _name not in ("plain", "map-in-metadata"):
        feature(INDEXES, "IDX-01")(_laid_out(_name, f"An index written in another way ({_name})."))
feature(INDEXES, "IDX-02")(_laid_out("map-in-metadata", "Another map in the metadata."))


_TOTAL = 2**40 + 7
"""A total size that no plan has by accident; which one it is does not matter here."""


def _of_metadata(choice: str) -> Lose:
    def lose(plan: Plan) -> bool:
        try:
            text = None if plan["metadata"] is None else plan["metadata"].replace("$n", str(_TOTAL))
            found = metadata_choice(text, _TOTAL) == choice
        except PlanError:
            return False
        plan["metadata"] = USUAL if found else plan["metadata"]
        return found

    lose.__doc__ = f"Metadata of the choice {choice}."
    return lose


for _name in ("index-metadata", "index-metadata-type", "index-total-size", "index-total-size-type"):
    feature(INDEXES, rule_book().choices[_name].rule)(_of_metadata(_name))


@feature(INDEXES, "IDX-02")
def more_metadata(plan: Plan) -> bool:
    """Metadata beyond the total size."""
    more, plan["metadata"] = bool(plan["metadata"] != USUAL), USUAL
    return more


# ---- shards and other files ----


@feature(INDEXES, "IDX-04")
def dotted_shards(plan: Plan) -> bool:
    """A shard that is named with the folder in front."""

    def strip(pair: list[str]) -> None:
        while pair[1].startswith("./"):
            pair[1] = pair[1][2:]

    return change(plan["map"], lambda pair: pair[1].startswith("./"), strip)


@feature(INDEXES, "IDX-04")
def shards_below(plan: Plan) -> bool:
    """A shard in a folder below."""
    return _rename(plan, [shard["name"] for shard in plan["shards"] if "/" in shard["name"]])


def _rename(plan: Plan, names: list[str]) -> bool:
    """Give shards numbered names, here and in the map."""
    taken = {shard["name"] for shard in plan["shards"]}
    count = 2 * len(plan["shards"])
    free = (name for name in (numbered(n + 1, count) for n in range(count)) if name not in taken)
    new = {name: next(free) for name in names}
    for shard in plan["shards"]:
        shard["name"] = new.get(shard["name"], shard["name"])
    for pair in plan["map"]:
        pair[1] = new.get(pair[1], pair[1])
    return bool(new)


@feature(INDEXES, "IDX-15")
def odd_shard_names(plan: Plan) -> bool:
    """A shard that is not named by number."""
    used = {shard for _, shard in plan["map"]}
    names = [shard["name"] for shard in plan["shards"] if shard["name"] in used]
    return _rename(plan, [name for name in names if not name.startswith("model-")])


@feature(INDEXES, "IDX-16")
def other_indexes(plan: Plan) -> bool:
    """Another index in the folder."""
    others = [pair for pair in plan["others"] if not pair[0].endswith(".index.json")]
    found, plan["others"] = bool(others != plan["others"]), others
    return found


@feature(INDEXES, "IDX-15")
def strays(plan: Plan) -> bool:
    """A file in the folder that the index does not name."""
    used = {shard.removeprefix("./") for _, shard in plan["map"]}
    shards = [shard for shard in plan["shards"] if shard["name"] in used]
    if not plan["map"] or (shards == plan["shards"] and not plan["others"]):
        return False
    plan["shards"], plan["others"] = shards, []
    return True


@feature(INDEXES, "IDX-11")
def held_twice(plan: Plan) -> bool:
    """A tensor that two shards hold."""
    where = {tensor: shard.removeprefix("./") for tensor, shard in plan["map"]}
    found = False
    for shard in plan["shards"]:
        kept = [row for row in shard["tensors"] if where.get(row["name"], shard["name"]) == shard["name"]]
        found |= kept != shard["tensors"]
        shard["tensors"] = kept
    return found


@feature(INDEXES, "IDX-10")
def surplus(plan: Plan) -> bool:
    """A tensor that the index does not name."""
    mapped = {tensor for tensor, _ in plan["map"]}
    found = False
    for shard in plan["shards"] if mapped else []:
        kept = [row for row in shard["tensors"] if row["name"] in mapped]
        found |= kept != shard["tensors"]
        shard["tensors"] = kept
    return found


@feature(INDEXES, "IDX-01")
def empty_map(plan: Plan) -> bool:
    """An index that names no tensor."""
    if plan["map"]:
        return False
    plan["map"] = [[row["name"], shard["name"]] for shard in plan["shards"] for row in shard["tensors"]]
    return True


@feature(INDEXES, "MET-01")
def shard_metadata(plan: Plan) -> bool:
    """Metadata in a shard."""
    return change(
        plan["shards"],
        lambda shard: shard["metadata"] is not None,
        lambda shard: shard.update(metadata=None),
    )


@feature(INDEXES, "ENT-09")
def named_like_files(plan: Plan) -> bool:
    """A tensor that is named like a shard."""
    files = {shard["name"] for shard in plan["shards"]}
    names = {tensor for tensor, _ in plan["map"]} & files
    for row in [row for shard in plan["shards"] for row in shard["tensors"] if row["name"] in names]:
        row["name"] = row["name"].removesuffix(".safetensors")
    for pair in plan["map"]:
        pair[0] = pair[0].removesuffix(".safetensors") if pair[0] in names else pair[0]
    return bool(names)


INDEXES += TENSORS


@feature(INDEXES, "IDX-01")
def several_shards(plan: Plan) -> bool:
    """A second shard."""
    several = len({shard for _, shard in plan["map"]}) > 1
    if several:
        first = plan["map"][0][1]
        plan["map"] = [pair for pair in plan["map"] if pair[1] == first]
        plan["shards"] = [shard for shard in plan["shards"] if shard["name"] == first.removeprefix("./")]
    return several
