"""Expands a row, and writes it out.

Looks like: outputs that are not written out
Problem: spread
"""


def kernel(v, M):
    return (v * 2).expand(M, -1).contiguous()
