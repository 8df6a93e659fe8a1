"""Experiments that check the README's table of formats. Each library's environment imports this package."""
