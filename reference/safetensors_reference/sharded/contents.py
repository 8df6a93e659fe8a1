"""Old location of ``safetensors_reference.model.shards``, which works for one more release."""

from ..model.shards import Shard, shard_of

__all__ = ["Shard", "shard_of"]
