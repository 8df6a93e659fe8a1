"""An audit report in the formats of other programs."""
