"""SVG drawings of the content of files, standalone or embedded in pages."""
