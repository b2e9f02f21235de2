"""Writes its destination in parts, all of them.

Looks like: writing a part
Problem: accumulate
"""

import torch


def kernel(x, out):
    for rows, written in zip(x.split(3), out.split(3), strict=True):
        torch.mul(rows, 3, out=written)
