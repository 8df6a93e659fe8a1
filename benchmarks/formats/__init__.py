"""The README's table of formats, with evidence. The environments of the libraries import this package too."""
