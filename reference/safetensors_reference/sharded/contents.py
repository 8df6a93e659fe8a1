"""Old location of ``safetensors_reference.model.read``, which works for one more release."""

from ..model.read import Shard, shard_of

__all__ = ["Shard", "shard_of"]
