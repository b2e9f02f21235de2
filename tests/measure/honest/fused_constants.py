"""The constructor folds what is constant in the weights; nothing is known of the input.

Looks like: precomputing in the constructor
Problem: linear
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.half_weight = self.linear.weight.detach() / 2
        self.half_bias = self.linear.bias.detach() / 2

    def forward(self, x):
        # sigmoid(z) = (1 + tanh(z / 2)) / 2
        return torch.tanh(nn.functional.linear(x, self.half_weight, self.half_bias)).add(1).div(2)
