"""Run records and all the documents that are rendered from them."""
