"""SVG drawings of file contents, standalone or embedded in pages."""
