"""Old location of ``safetensors_reference.model.read``, which works for one more release."""

from ..model.read import explain_index, open_index

__all__ = ["explain_index", "open_index"]
