"""Choice of what to measure next in a space: one policy for every loop that measures."""

from solkit.tuner.search.priors import Prior, Recordings
from solkit.tuner.search.search import DEFAULTS, Search, SearchSettings

__all__ = ["DEFAULTS", "Prior", "Recordings", "Search", "SearchSettings"]
