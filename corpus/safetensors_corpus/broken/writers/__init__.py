"""Writers with one fault each."""
