"""Groups are summed by atomics: the order differs from run to run, and so do the last bits.

Looks like: less precision than the problem has
Problem: histogram
"""

import torch


def kernel(x, index, groups):
    out = torch.zeros(groups, x.shape[1], device=x.device)
    return out.scatter_add_(0, index[:, None].expand_as(x), x)
