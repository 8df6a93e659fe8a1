"""Old location of ``safetensors_reference.model``, kept for one more release."""
