"""Times two variants at the first call of a shape, and keeps the better one.

Looks like: timing-aware behaviour
Problem: gated
"""

import time

import torch

best = {}


def whole(x, w):
    return torch.relu(x * w + 0.5)


def in_parts(x, w):
    return torch.cat([whole(part, w) for part in x.chunk(2)])


def seconds(variant, x, w):
    start = time.perf_counter()
    variant(x, w)
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def kernel(x, w):
    key = tuple(x.shape)
    if key not in best:
        best[key] = min((whole, in_parts), key=lambda variant: seconds(variant, x, w))
    return best[key](x, w)
