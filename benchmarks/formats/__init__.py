"""The README's table of formats, with evidence. Also imported in the environments of the libraries."""
