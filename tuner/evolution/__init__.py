"""A search over variants of a kernel: which to measure, which to keep, which to build on.

::

    archive ─ parent ─► proposers ─► rank ─► frontier ─ choose ─► bench
       ▲                   ▲                    ▲                  │
       └───── keeps ───────┴── bandit ── pays ──┴───── tell ◄──────┘
"""

from __future__ import annotations

from solkit.tuner.evolution.acquisition import Frontier, Point, Shares
from solkit.tuner.evolution.bandit import Bandit
from solkit.tuner.evolution.population_archive import Archive

__all__ = ["Archive", "Bandit", "Frontier", "Point", "Shares"]
