"""Drawings of what files hold, as SVG that stands alone or inside a page."""
