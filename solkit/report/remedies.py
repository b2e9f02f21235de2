"""Remedies for each cause of a large factor of the gap, in the words of the kernel's language.

`solkit.roofline.kernel.causes` finds the causes; their figures fill the sentences here.
"""

from __future__ import annotations

from solkit.core import Cause

_CONFLICTS = (
    "{place}: a {kind} of shared memory takes {wavefronts:.3g} wavefronts; without bank "
    "conflicts {least:.3g} would do. "
)
_SCATTERED = (
    "{place}: this {kind} touches {per_request:.3g} sectors a request where {least:.3g} would do. "
    "{also}"
)
_NARROW = "{place}: this {kind} moves {wide} a lane and request, in {requests:,} requests"
_LITTLE = (
    "{kernel} keeps too little in flight: {resident} of {warps} on an SM, "
    "limited by {limiter}. {remedy}, or "
)
_OPERATOR = (
    "{place}: PyTorch's {kernel} is a kernel of its own. It moves {moved}{times}, and "
    "takes {percent:.0f} % of the modelled time. "
)
REMEDIES = {
    "arithmetic instructions": (
        "{kernel} is limited by issuing instructions, {each:.4g} a warp, most of them arithmetic: "
        "use cheaper formulas (multiply instead of pow or a division, exp2 instead of exp)."
    ),
    "bank conflicts": _CONFLICTS
    + "Try another tile shape, another num_warps, or one reduction behind the loop instead of one "
    "in each iteration.",
    "bank conflicts of a turned operand": _CONFLICTS
    + "wgmma takes {dtype} operands only with K contiguous, so this one is transposed first. Keep "
    "the narrower input type if it has 16 bits, or make K contiguous in memory.",
    "bank conflicts of one's own layout": _CONFLICTS
    + "Pad the tile's rows by one word, or swizzle the index.",
    "branches": (
        "{kernel} is limited by issuing instructions: {branches} branches depend on data, and a "
        "warp executes every path that one of its lanes takes. Group like elements, or compute "
        "one formula with tl.where."
    ),
    "busy shared memory": (
        "{place}: {kernel} is limited by shared memory, {percent:.0f} % of it by this {kind}: let "
        "each warp compute a larger tile (larger blocks with as many warps), so that each value "
        "is used more often once it is in registers."
    ),
    "contended atomics": (
        "{place}: atomics at one address wait for one another, {operations:,} at the busiest of "
        "{addresses:,}. Reduce within the block first, with larger or looping blocks, or give each "
        "block a place of its own and add those up afterwards."
    ),
    "conversions": (
        "{kernel} is limited by issuing instructions, most of them conversions: convert each "
        "value once, and keep it in one type."
    ),
    "dispatch": ("{kernel} has {evidence}: use larger blocks, or fewer that loop."),
    "doubles": (
        "{kernel} computes {millions:.4g} million operations in fp64, which the problem does not "
        "need: use tl.float32 (sums of differences from the mean keep it accurate)."
    ),
    "few blocks": ("{kernel} has {blocks} for {sms} SMs: split the work into more ({how})."),
    "few elements a lane": _NARROW
    + ": all that a lane has of it. It could move 16 with a larger BLOCK or fewer warps.",
    "hand-over": (
        "{place}: {kernel} writes {megabytes:.4g} MB ({argument}) that {reader} reads again "
        "({read_as}): fuse the two launches, so that it stays on the chip."
    ),
    "hand-over of steps": (
        "{place}: each of {count} launches of {kernel} writes {megabytes:.4g} MB ({argument}) that "
        "the next one reads again ({read_as}): do several steps in one launch, on tiles with a rim "
        "that is computed twice, so that they stay on the chip."
    ),
    "index arithmetic": (
        "{kernel} is limited by issuing instructions, {percent:.0f} % of them integer: compute "
        "indices in 32 bits, once a block where they allow, and avoid // and % (a grid of more "
        "dimensions, or tl.constexpr sizes)."
    ),
    "launch": ("Launches take much of the time: use a CUDA graph, or fuse with a neighbour."),
    "launches": ("{kernel} is launched {count} times: do it in one launch."),
    "library copy": _OPERATOR + "Read the original in your kernel: pass its strides, convert after "
    "the load.",
    "library fill": _OPERATOR + "Let a kernel write every element, so that nothing must be cleared "
    "before.",
    "library launches": (
        "{count} of {every} launches are PyTorch's operators, most often {kernel} ({place}): fuse "
        "them into your kernel, or use a CUDA graph."
    ),
    "library operator": _OPERATOR + "Fuse it into your kernel.",
    "library product": _OPERATOR + "What reads its result could be its epilogue: fuse the two.",
    "library product in fp32": (
        "{place}: PyTorch's {kernel} multiplies on the scalar pipe, as fp32 does by default: allow "
        "tf32 where the tolerance does (torch.set_float32_matmul_precision('high')), or multiply "
        "in your own kernel."
    ),
    "little under way": _LITTLE + "more elements a step.",
    "lost from L2": (
        "{place}: {argument} is read again after L2 has evicted it: make one pass over it, or "
        "keep parts in registers or L2 between passes."
    ),
    "narrow requests": _NARROW
    + ". It could move 16 if sizes and strides were multiples of 16 (tl.multiple_of tells of "
    "them), or masks ended at one.",
    "one element a request": (
        "{place}: each of {requests:,} requests of this load is for one element, which all lanes "
        "of a warp want: its block is spread along the lanes of a tile. Let its axis be the last "
        "one of that tile (x[None, :] instead of x[:, None]), or load it once for more rows."
    ),
    "one trip at a time": (
        "{kernel} fills the SM with {warps:.3g} warps and still waits: let each thread load "
        "several elements before it uses the first (a larger BLOCK)."
    ),
    "order of blocks": (
        "{place}: {argument} is read {times:.3g} times and L2 does not hold it so long: use an "
        "order of blocks that brings those that share it together (grouped program ids), or larger "
        "tiles."
    ),
    "part-filled wave": (
        "{kernel} ends in a part-filled wave: try other tiles, or a persistent kernel that "
        "splits the last ones."
    ),
    "products alone": (
        "{kernel}'s tensor cores wait for the work between two products, with too few other blocks "
        "to fill in ({resident} on an SM, limited by {limiter}): use smaller tiles, or "
        "warps that take turns."
    ),
    "products beside L2": (
        "{kernel}'s tensor cores wait for the work between two products while L2 is nearly as busy "
        "({resident} on an SM, limited by {limiter}): use warps that take turns (warp "
        "specialisation) or more stages, but no smaller tiles."
    ),
    "read by several launches": (
        "{place}: {argument} ({megabytes:.4g} MB) is read from DRAM by {launches} launches "
        "({kernels}): fuse them, so that it is read once."
    ),
    "repeated reads": (
        "{place}: {argument} is read {times:.3g} times: use larger tiles, so that less passes "
        "through L2, which is the limit."
    ),
    "scalar product": (
        "{kernel} multiplies on the scalar pipe: use tl.dot on tiles of at least 16 in each "
        "dimension, in the inputs' own type{precision}."
    ),
    "scattered requests": _SCATTERED + "Let neighbouring lanes access neighbouring addresses.",
    "several passes": (
        "{place}: {argument} is read {times:.3g} times by {kernel}, one pass after the other: keep "
        "it in registers, or make one pass."
    ),
    "spills": ("{kernel} {what}, to local memory: use smaller tiles, or more warps to share them."),
    "uncoalesced": (
        "{place}: this {kind} is not coalesced: it moves {sectors:,} sectors for "
        "{megabytes:.4g} MB, {percent:.0f} % of what they hold. {also}"
        "Let neighbouring lanes access neighbouring addresses."
    ),
    "uneven blocks": (
        "{kernel}'s blocks differ in length: start the longest first, or balance them."
    ),
    "unneeded work": (
        "{kernel} computes {times:.3g} times what the problem needs: skip what is masked, "
        "padded or computed twice."
    ),
    "waits for loads": (
        "{kernel} waits for each step's loads: use more pipeline stages (num_stages), and loads "
        "that can be copied asynchronously."
    ),
    "warp products": (
        "{kernel} multiplies with mma.sync, at 63 % of the tensor cores' rate: wgmma takes tiles "
        "of at least 64 rows and a multiple of 4 warps (here {warps})."
    ),
    "wide product": ("{kernel} multiplies as {dtype}: keep the narrower input type."),
}
"""By cause: a description and the change most likely to help."""

IN_CUDA = {
    "branches": (
        "{kernel} is limited by issuing instructions: {branches} branches depend on data, and a "
        "warp executes every path that one of its threads takes. Sort or group like elements, so "
        "that the threads of a warp agree."
    ),
    "arithmetic instructions": (
        "{kernel} is limited by issuing instructions, {each:.4g} a warp, most of them arithmetic: "
        "use cheaper functions (products instead of powf, __expf, __fdividef)."
    ),
    "busy shared memory": (
        "{place}: {kernel} is limited by shared memory, {percent:.0f} % of it by this {kind}: let "
        "each thread compute several results (a tile in registers), so that each value is used "
        "more often once it is loaded; read it as float4."
    ),
    "doubles": (
        "{kernel} computes {millions:.4g} million operations in fp64, which the problem does not "
        "need: a literal without an f (0.5) is a double, and so is what it touches; write 0.5f, "
        "and use float and its functions."
    ),
    "contended atomics": (
        "{place}: atomics at one address wait for one another, {operations:,} at the busiest of "
        "{addresses:,}. Count or add up in shared memory or registers first (a warp's by "
        "__reduce_add_sync), make one atomic a block, and let fewer blocks loop over more."
    ),
    "dispatch": (
        "{kernel} has {evidence}: use larger blocks, or fewer that loop (a grid-stride loop)."
    ),
    "index arithmetic": (
        "{kernel} is limited by issuing instructions, {percent:.0f} % of them integer: index with "
        "32-bit int, move what does not change out of loops, and avoid / and % by sizes known "
        "only at run time (a grid of more dimensions, or template parameters)."
    ),
    "little under way": _LITTLE + "let each thread load several elements at once (#pragma unroll).",
    "narrow requests": _NARROW
    + ": load and store 16 at once (float4), where pointers and sizes are aligned to 16 bytes.",
    "one element a request": (
        "{place}: each of {requests:,} requests of this load is for one element, which all threads "
        "of a warp want: load several at once (float4), keep them in registers or shared memory, "
        "and use each for more results."
    ),
    "one trip at a time": (
        "{kernel} fills the SM with {warps:.3g} warps and still waits: let each thread load "
        "several elements (float4, or an unrolled grid-stride loop) before it uses the first."
    ),
    "order of blocks": (
        "{place}: {argument} is read {times:.3g} times and L2 does not hold it so long: use an "
        "order of blocks that brings those that share it together (swizzled blockIdx), or larger "
        "tiles."
    ),
    "products beside L2": (
        "{kernel}'s tensor cores wait for the work between two products while L2 is nearly as busy "
        "({resident} on an SM, limited by {limiter}): use warp specialisation or more "
        "buffers, but no smaller tiles."
    ),
    "scalar product": (
        "{kernel} multiplies on the scalar pipe: use the tensor cores, by mma or wgmma "
        "(nvcuda::wmma, CUTLASS), in the inputs' own type."
    ),
    "scattered requests": _SCATTERED
    + "Let neighbouring threads access neighbouring addresses, or go through shared memory.",
    "several passes": (
        "{place}: {argument} is read {times:.3g} times by {kernel}, one pass after the other: keep "
        "it in registers or shared memory, or make one pass."
    ),
    "spills": (
        "{kernel} {what}, in local memory: index arrays only by constants (unrolled loops), or "
        "keep less per thread; __launch_bounds__ and -maxrregcount set the limit of registers."
    ),
    "uncoalesced": _SCATTERED
    + "Let neighbouring threads access neighbouring addresses, or go through shared memory.",
    "waits for loads": (
        "{kernel} waits for each step's loads: load the next tile while this one is in use "
        "(cp.async or TMA, with two or more buffers)."
    ),
    "wide product": ("{kernel} multiplies as {dtype}: use the mma of the narrower input type."),
}
"""The same for CUDA C++, where its words differ."""


def advice_on(cause: Cause | None) -> str:
    """Return the sentence about the cause of a gap's factor; empty if the cause is unknown."""
    if cause is None:
        return ""
    template = REMEDIES[cause.name]
    if cause.figures.get("language") == "CUDA C++":
        template = IN_CUDA.get(cause.name, template)
    figures = {"also": "", "precision": "", **cause.figures}
    return template.format_map({**figures, "resident": _resident_blocks(cause)})


def _resident_blocks(cause: Cause) -> str:
    """Return the blocks on an SM at once, e.g. ``"1 block"``, ``"2.5 blocks"``."""
    blocks = cause.figures.get("blocks")
    if not isinstance(blocks, (int, float)):
        return str(blocks)
    return f"{blocks:.3g} block{'s' * (blocks != 1)}"
