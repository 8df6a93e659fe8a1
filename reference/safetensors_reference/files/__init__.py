"""Files behind paths and addresses: names, folders, ranges of bytes, and progress."""
