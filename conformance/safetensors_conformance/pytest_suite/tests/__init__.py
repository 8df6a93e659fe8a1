"""The test module that pytest collects."""
