"""Benchmark that loads files onto a device with several loaders and measures the machine's limits.

Run it with ``python -m benchmarks device``. If only NumPy, torch, click and rich are installed, use ``python
-m benchmarks.device``. No module imports torch early, so every measurement starts in a clean process.
"""
