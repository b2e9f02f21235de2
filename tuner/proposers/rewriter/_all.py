"""All rewrites; without other facts, the earlier are tried first."""

from __future__ import annotations

from solkit.tuner.proposers.rewriter._mutation import Rewrite
from solkit.tuner.proposers.rewriter.aligned_rows import AlignedRows
from solkit.tuner.proposers.rewriter.column_tiles import ColumnTiles
from solkit.tuner.proposers.rewriter.compiler_hints import Contiguous, Eviction
from solkit.tuner.proposers.rewriter.descriptors import Descriptors
from solkit.tuner.proposers.rewriter.fixed_numbers import FixedNumbers
from solkit.tuner.proposers.rewriter.flat_index import Unflatten
from solkit.tuner.proposers.rewriter.flat_loops import FlatLoops
from solkit.tuner.proposers.rewriter.full_trips import FullTrips
from solkit.tuner.proposers.rewriter.fusion import FuseLaunches
from solkit.tuner.proposers.rewriter.joined_launches import JoinLaunches
from solkit.tuner.proposers.rewriter.lanes import Lanes
from solkit.tuner.proposers.rewriter.library_products import LibraryProducts
from solkit.tuner.proposers.rewriter.loop_ends import LoopEnds
from solkit.tuner.proposers.rewriter.loop_hoisting import Hoist
from solkit.tuner.proposers.rewriter.mask_removal import EvenSizes
from solkit.tuner.proposers.rewriter.needless_copies import NeedlessCopies
from solkit.tuner.proposers.rewriter.one_pass import OnePass
from solkit.tuner.proposers.rewriter.operand_scales import Scales
from solkit.tuner.proposers.rewriter.operands import Accumulators, Operands, Precision
from solkit.tuner.proposers.rewriter.parallel_loops import ParallelLoops
from solkit.tuner.proposers.rewriter.persistent import Persistent
from solkit.tuner.proposers.rewriter.private_sums import PrivateSums
from solkit.tuner.proposers.rewriter.product_fusion import FuseProducts
from solkit.tuner.proposers.rewriter.program_fusion import FusePrograms
from solkit.tuner.proposers.rewriter.program_order import Grouped, Swapped
from solkit.tuner.proposers.rewriter.repeated_loads import RepeatedLoads
from solkit.tuner.proposers.rewriter.row_gathers import GatherRows
from solkit.tuner.proposers.rewriter.row_passes import RowPasses
from solkit.tuner.proposers.rewriter.row_tiles import Rows, Tile
from solkit.tuner.proposers.rewriter.score_fusion import FuseScores
from solkit.tuner.proposers.rewriter.single_trips import SingleTrips
from solkit.tuner.proposers.rewriter.sliding_windows import SlidingWindows
from solkit.tuner.proposers.rewriter.split_loops import SharedLoops, Split
from solkit.tuner.proposers.rewriter.tile_constants import Constants, Retile
from solkit.tuner.proposers.rewriter.turned_blocks import TurnedBlocks
from solkit.tuner.proposers.rewriter.vectorise import Chunks, Vectorise
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

REWRITES: tuple[Rewrite, ...] = (
    LibraryProducts(),  # a launch that the others can read
    NeedlessCopies(),
    FuseLaunches(),  # other rewrites change one launch each, so as few as possible are best
    FusePrograms(),
    FuseScores(),
    JoinLaunches(),
    GatherRows(),
    Tile(),
    ParallelLoops(),
    SingleTrips(),
    SlidingWindows(),
    Chunks(),
    Vectorise(),
    Operands(),
    Precision(),
    Scales(),
    LoopEnds(),
    FullTrips(),
    FuseProducts(),
    RepeatedLoads(),
    TurnedBlocks(),
    FlatLoops(),
    WholeRow(),
    Unflatten(),
    ColumnTiles(),
    Retile(),
    PrivateSums(),
    Split(),
    SharedLoops(),
    RowPasses(),
    Lanes(),
    Rows(),
    Grouped(),
    Accumulators(),
    OnePass(),
    AlignedRows(),
    Constants(),
    Persistent(),
    FixedNumbers(),
    Hoist(),
    EvenSizes(),
    Descriptors(),
    Eviction(),
    Swapped(),
    Contiguous(),
)

_STRUCTURAL = (
    *(
        LibraryProducts,
        NeedlessCopies,
        Tile,
        ParallelLoops,
        SlidingWindows,
        Chunks,
        Vectorise,
        Operands,
        Precision,
        Scales,
        LoopEnds,
        FullTrips,
        FuseLaunches,
    ),
    *(FusePrograms, FuseProducts, FuseScores, JoinLaunches, RepeatedLoads, WholeRow),
    TurnedBlocks,
    *(
        FlatLoops,
        Unflatten,
        ColumnTiles,
        PrivateSums,
        Split,
        SharedLoops,
        RowPasses,
        Lanes,
        Rows,
        OnePass,
        AlignedRows,
        GatherRows,
        SingleTrips,
    ),
)
STRUCTURAL = frozenset(rewrite.kind for rewrite in _STRUCTURAL)
"""Kinds that change what a program does; the others only how. They come first, and in pairs."""
