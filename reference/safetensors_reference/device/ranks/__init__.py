"""One model loaded by several ranks: what each reads, and how all come to one answer."""
