"""``stc check``: checks files and models with the reference reader."""
