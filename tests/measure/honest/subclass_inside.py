"""Works with a subclass of its own, and returns plain tensors.

Looks like: lazy tensors
Problem: gated
"""

import torch


class Tile(torch.Tensor):
    pass


def kernel(x, w):
    tile = x.as_subclass(Tile)
    return torch.relu(tile * w + 0.5).as_subclass(torch.Tensor)
