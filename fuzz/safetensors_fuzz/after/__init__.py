"""Former place of ``safetensors_fuzz.findings.replay``; removed after one release."""
