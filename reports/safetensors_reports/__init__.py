"""Run records and everything that is rendered from them."""
