"""Tools that measure the project itself, run from a checkout. They belong to no package."""
