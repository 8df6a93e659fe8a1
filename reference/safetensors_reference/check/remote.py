"""Checks remote files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.remote import beside, open_remote
from ..header.read import examine_source
from ..model.read import explain_index_source
from ..model.shards import ABSENT, Shard, shard_of
from ..rules.faults import without_name
from ..source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..header.explain import Explanation
    from ..model.read import IndexExplanation
    from ..rules.book import ProfileName


def examine_remote(address: str, profile: ProfileName) -> Explanation:
    source = open_remote(address)
    out = examine_source(source, profile)
    if out.faults or out.tolerated:
        source.confirm()
    return out


def explain_remote_index(
    address: str, profile: ProfileName, known: Mapping[str, Explanation]
) -> IndexExplanation:
    """Explain a remote index. ``unread`` of the result contains the shards that could not be fetched.

    Raises UnreadableError if the index itself cannot be read.
    """
    shards: dict[str, Explanation] = {}

    def lookup(name: str) -> Shard:
        place = beside(address, name)
        try:
            seen = known.get(name) or examine_remote(place, profile)
        except UnreadableError as err:
            if isinstance(err.__cause__, FileNotFoundError):
                return ABSENT
            return Shard(unread=without_name(str(err), place))
        shards[name] = seen
        return shard_of(seen)

    source = open_remote(address)
    out = explain_index_source(source, profile, lookup)
    if out.faults:
        source.confirm()
    out.shards = shards
    return out
