"""Weights are laid out once, in the constructor's first call, as for serving.

Looks like: precomputing in the constructor
Problem: linear
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.t().contiguous()
        return torch.sigmoid(torch.addmm(self.linear.bias, x, self.packed))
