"""One fault each, put into a file that was valid: by the part of the format that it breaks."""
