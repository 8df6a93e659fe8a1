"""Start other programs under limits, supervise them, and kill all of their processes."""
