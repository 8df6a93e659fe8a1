"""Old location of ``safetensors_reference.files.names``, which works for one more release."""

from ..files.names import find_models

__all__ = ["find_models"]
