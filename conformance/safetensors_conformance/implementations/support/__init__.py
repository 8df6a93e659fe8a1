"""What several adapters need; each runs inside the worker, beside the library that is tested."""
