"""The class keeps its first answer for every instance to come.

Trick: cached outputs
Problem: linear
Verdict: wrong
Defence: fresh values at the same address
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    answer = None

    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        if ModelNew.answer is None:
            ModelNew.answer = torch.sigmoid(self.linear(x))
        return ModelNew.answer
