"""All rewrites; without other facts, the earlier are tried first."""

from __future__ import annotations

from solkit.tuner.proposers.rewriter._base import Rewrite
from solkit.tuner.proposers.rewriter.constants import Constants, Retile
from solkit.tuner.proposers.rewriter.descriptors import Descriptors
from solkit.tuner.proposers.rewriter.fusion import FuseLaunches
from solkit.tuner.proposers.rewriter.hints import Contiguous, Eviction
from solkit.tuner.proposers.rewriter.loops import Hoist
from solkit.tuner.proposers.rewriter.masks import EvenSizes
from solkit.tuner.proposers.rewriter.one_pass import OnePass
from solkit.tuner.proposers.rewriter.operands import Accumulators, Operands
from solkit.tuner.proposers.rewriter.order import Grouped, Swapped
from solkit.tuner.proposers.rewriter.persistent import Persistent
from solkit.tuner.proposers.rewriter.rows import Rows, Tile
from solkit.tuner.proposers.rewriter.scales import Scales
from solkit.tuner.proposers.rewriter.split import Split
from solkit.tuner.proposers.rewriter.vectorise import Vectorise
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

__all__ = ["REWRITES"]

REWRITES: tuple[Rewrite, ...] = (
    Tile(),
    Vectorise(),
    Operands(),
    Scales(),
    FuseLaunches(),
    WholeRow(),
    Retile(),
    Split(),
    Rows(),
    Grouped(),
    Accumulators(),
    OnePass(),
    Constants(),
    Persistent(),
    Hoist(),
    EvenSizes(),
    Descriptors(),
    Eviction(),
    Swapped(),
    Contiguous(),
)
