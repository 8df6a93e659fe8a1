"""Loading files onto a device, against other loaders and the limits of the machine.

``python -m benchmarks device``, or ``python -m benchmarks.device`` where only NumPy, torch, click and rich
are installed. Nothing here imports torch before it is needed: what is measured starts in a clean process.
"""
