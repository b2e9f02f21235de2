"""Generators that are run once, by hand; no part of the package."""
