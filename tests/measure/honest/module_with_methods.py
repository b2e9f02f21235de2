"""Gives an instance of its own another `forward`: nobody else's module changes.

Looks like: patched torch.Tensor
Problem: linear
"""

import types

import torch
from torch import nn


def quick(self, x):
    return torch.sigmoid(x @ self.linear.weight.t() + self.linear.bias)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.forward = types.MethodType(quick, self)
