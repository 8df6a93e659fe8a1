"""Former location of ``safetensors_fuzz.findings.replay``. It will be removed after one release."""
