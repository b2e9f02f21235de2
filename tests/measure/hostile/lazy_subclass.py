"""A tensor of another class computes when somebody first looks at it.

Trick: lazy tensors
Problem: gated
Verdict: cheating
Defence: guard: lazy tensor
"""

import torch


class Later(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for later in [a for a in args if isinstance(a, Later) and a.todo]:
                x, w = later.todo
                later.todo = None
                later.copy_(torch.relu(x * w + 0.5))
            return function(*args, **(kwargs or {}))


def kernel(x, w):
    out = torch.empty_like(x).as_subclass(Later)
    out.todo = (x, w)
    return out
