"""The tuner: search under a GPU budget.

`search` decides what to measure next in one space. The rest of the room spends a budget of GPU
seconds with it.
"""

from solkit.tuner.search import DEFAULTS, Prior, Search, SearchSettings

__all__ = ["DEFAULTS", "Prior", "Search", "SearchSettings"]
