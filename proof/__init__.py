"""What the product does, recorded on one commit and compared on another; no part of the wheel."""
