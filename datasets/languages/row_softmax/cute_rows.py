"""CuTe DSL: a block a row, which it keeps in registers."""

import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

from solkit.datasets.languages.row_softmax.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"vector": [2, 4, 8], "threads": [64, 128, 256, 512]}


@cute.jit
def over_block(value, warps: cutlass.Constexpr, is_max: cutlass.Constexpr, shared: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    if cutlass.const_expr(is_max):
        value = cute.arch.warp_reduction(value, cute.arch.fmax)
    else:
        value = cute.arch.warp_reduction(value, lambda a, b: a + b)
    if thread % 32 == 0:
        shared[thread // 32] = value
    cute.arch.sync_threads()
    result = shared[0]
    for warp in cutlass.range_constexpr(1, warps):
        if cutlass.const_expr(is_max):
            result = cute.arch.fmax(result, shared[warp])
        else:
            result = result + shared[warp]
    cute.arch.sync_threads()
    return result


@cute.kernel
def softmax_rows(
    x: cute.Tensor, y: cute.Tensor, chunks: cutlass.Constexpr, threads: cutlass.Constexpr
):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    warps = threads // 32
    memory = cutlass.utils.SmemAllocator()
    shared = memory.allocate_tensor(cutlass.Float32, cute.make_layout(warps), byte_alignment=16)
    none = -cutlass.Float32.inf
    parts, largest, total = [], none, cutlass.Float32(0.0)
    for chunk in cutlass.range_constexpr(chunks):
        part = x[(None, (row, chunk * threads + thread))].load().to(cutlass.Float32)
        parts.append(part)
        part_largest = part.reduce(cute.ReductionOp.MAX, none, reduction_profile=0)
        largest = cute.arch.fmax(largest, part_largest)
    largest = over_block(largest, warps, True, shared)
    for chunk in cutlass.range_constexpr(chunks):
        parts[chunk] = cute.math.exp(parts[chunk] - largest, fastmath=True)
        zero = cutlass.Float32(0.0)
        total += parts[chunk].reduce(cute.ReductionOp.ADD, zero, reduction_profile=0)
    inverse = 1.0 / over_block(total, warps, False, shared)
    for chunk in cutlass.range_constexpr(chunks):
        place = (None, (row, chunk * threads + thread))
        y[place] = (parts[chunk] * inverse).to(cutlass.BFloat16)


@cute.jit
def softmax(x: cute.Tensor, y: cute.Tensor, vector: cutlass.Constexpr, threads: cutlass.Constexpr):
    tiles = cute.zipped_divide(x, (1, vector))
    results = cute.zipped_divide(y, (1, vector))
    chunks = x.shape[1] // (vector * threads)
    launched = softmax_rows(tiles, results, chunks, threads)
    launched.launch(grid=(x.shape[0], 1, 1), block=(threads, 1, 1))


COMPILED = {}


def kernel(x, *, vector=8, threads=256):
    y = torch.empty_like(x)
    tensors = [from_dlpack(tensor, assumed_align=16) for tensor in (x, y)]
    key = x.shape, vector, threads
    if key not in COMPILED:
        COMPILED[key] = cute.compile(softmax, *tensors, vector, threads)
    COMPILED[key](*tensors)
    return y
