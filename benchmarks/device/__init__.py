"""``stc bench device``: loading files onto a device, against other loaders and the limits of the machine.

Runs by ``python -m safetensors_reference.bench_device`` too, where only NumPy, torch, click and rich are
installed. Nothing here imports torch before it is needed: the process that is measured starts a clean one.
"""
