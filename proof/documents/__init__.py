"""Documents of others as inputs: index, slice, manifest, record and answer."""
