"""``stc check``: files and folders read by the reference, and what is said of them."""
