"""Small correct implementations, from which the broken ones are derived."""
