"""The ``stc`` commands that the harness provides."""
