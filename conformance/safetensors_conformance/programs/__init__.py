"""Start foreign programs with limits, supervise them, and end them with all their processes."""
