"""Tools that measure the project itself. They are not part of any package and run from a checkout."""
