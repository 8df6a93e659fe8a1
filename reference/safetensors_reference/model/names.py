"""Old location of ``safetensors_reference.files.names``, kept for one more release."""

from ..files.names import find_models

__all__ = ["find_models"]
