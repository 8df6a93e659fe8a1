"""Loading files onto a device, against other loaders and the limits of the machine.

``python -m benchmarks device``, or ``python -m benchmarks.device`` where only NumPy, torch, click and rich
are installed. Nothing here imports torch early: every measurement starts in a clean process.
"""
