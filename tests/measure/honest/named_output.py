"""Returns a named tuple.

Looks like: lazy containers
Problem: gated
"""

from typing import NamedTuple

import torch


class Output(NamedTuple):
    gated: torch.Tensor


def kernel(x, w):
    return Output(torch.relu(x * w + 0.5))
