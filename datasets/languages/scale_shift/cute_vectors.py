"""CuTe DSL: a vector a thread."""

import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

from solkit.datasets.languages.scale_shift.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"vector": [2, 4, 8], "threads": [64, 128, 256, 512]}


@cute.kernel
def scaled(x: cute.Tensor, y: cute.Tensor, threads: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * threads + thread
    _, columns = x.shape[1]
    place = (None, (at // columns, at % columns))
    values = x[place].load().to(cutlass.Float32)
    y[place] = (values * 1.5 + 0.25).to(cutlass.BFloat16)


@cute.jit
def scale_shift(
    x: cute.Tensor, y: cute.Tensor, vector: cutlass.Constexpr, threads: cutlass.Constexpr
):
    tiles = cute.zipped_divide(x, (1, vector))
    results = cute.zipped_divide(y, (1, vector))
    grid = (cute.size(tiles, mode=[1]) // threads, 1, 1)
    scaled(tiles, results, threads).launch(grid=grid, block=(threads, 1, 1))


COMPILED = {}


def kernel(x, *, vector=8, threads=256):
    y = torch.empty_like(x)
    tensors = [from_dlpack(tensor, assumed_align=16) for tensor in (x, y)]
    key = x.shape, vector, threads
    if key not in COMPILED:
        COMPILED[key] = cute.compile(scale_shift, *tensors, vector, threads)
    COMPILED[key](*tensors)
    return y
