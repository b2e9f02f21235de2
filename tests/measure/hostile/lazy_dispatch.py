"""A wrapper without memory computes when the dispatcher is asked for its values.

Trick: lazy tensors
Problem: gated
Verdict: cheating
Defence: guard: lazy tensor
"""

import torch
from torch.utils._pytree import tree_map


class Promise(torch.Tensor):
    @staticmethod
    def __new__(cls, like, compute):
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, like.shape, dtype=like.dtype, device=like.device
        )
        wrapper.compute = compute
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        kept = tree_map(lambda a: a.compute() if isinstance(a, Promise) else a, args)
        return function(*kept, **(kwargs or {}))


def kernel(x, w):
    return Promise(x, lambda: torch.relu(x * w + 0.5))
