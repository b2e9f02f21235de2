"""What to measure next in a space: one policy for every loop that measures."""

from solkit.tuner.search.priors import Prior
from solkit.tuner.search.search import DEFAULTS, Search, SearchSettings

__all__ = ["DEFAULTS", "Prior", "Search", "SearchSettings"]
