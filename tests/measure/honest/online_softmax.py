"""Goes over each row in parts, and keeps a running maximum and sum.

Looks like: shrinking work by the values of the test
Problem: flat_softmax
"""

import torch


def kernel(x):
    largest = x[:, :1]
    total = torch.zeros_like(largest)
    for part in x.chunk(8, dim=-1):
        new = torch.maximum(largest, part.amax(dim=-1, keepdim=True))
        total = total * torch.exp(largest - new) + torch.exp(part - new).sum(-1, keepdim=True)
        largest = new
    return torch.exp(x - largest) / total
