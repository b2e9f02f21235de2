"""The class keeps an activation function for every instance: a function, no result.

Looks like: cached outputs
Problem: linear
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    activation = staticmethod(torch.sigmoid)

    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return ModelNew.activation(self.linear(x))
