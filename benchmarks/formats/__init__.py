"""The README's table of formats, with evidence. Imported in the environments of the libraries too."""
