"""SVG diagrams of file contents, standalone or embedded in pages."""
