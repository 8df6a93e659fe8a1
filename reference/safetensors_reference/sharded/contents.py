"""Old location of ``safetensors_reference.model.read``, kept for one more release."""

from ..model.read import Shard, shard_of

__all__ = ["Shard", "shard_of"]
