"""One or several runs in few lines: for a terminal, and for a comment in a pull request."""
