"""The suite that pytest collects."""
