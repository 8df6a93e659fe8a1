"""Old location of ``safetensors_reference.model``, which works for one more release."""
