"""Old location of ``safetensors_reference.model.read``, kept for one more release."""

from ..model.read import explain_index, explain_index_source, open_index

__all__ = ["explain_index", "explain_index_source", "open_index"]
