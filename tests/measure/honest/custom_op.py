"""Registers an op of its own with the dispatcher.

Looks like: overriding an op of torch's
Problem: gated
"""

import torch


@torch.library.custom_op("solkit_honest::gate", mutates_args=())
def gate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * w + 0.5)


@gate.register_fake
def _(x, w):
    return torch.empty_like(x)


def kernel(x, w):
    return gate(x, w)
