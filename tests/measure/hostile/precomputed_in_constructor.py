"""The constructor draws the inputs that KernelBench's seed gives, and computes the answer.

Trick: precomputing in the constructor
Problem: linear
Verdict: wrong
Defence: seeds that nobody can guess
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        torch.manual_seed(42)
        x = torch.randn(features, features)  # as many rows as features
        self.answer = torch.sigmoid(self.linear(x)).detach()

    def forward(self, x):
        return self.answer[: len(x)].to(x.device)
