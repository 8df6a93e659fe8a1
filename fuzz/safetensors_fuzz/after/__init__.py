"""Former location of ``safetensors_fuzz.findings.replay``. This package will be removed after one release."""
