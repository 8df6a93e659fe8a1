"""Tools that measure the project itself. They belong to no package and run from a checkout."""
