"""Benchmark that loads files onto a device with several loaders and measures the machine's limits.

Run it with ``python -m benchmarks device``, or with ``python -m benchmarks.device`` if only NumPy, torch,
click and rich are installed. Importing a module does not import torch, so every measurement starts in a clean
process.
"""
