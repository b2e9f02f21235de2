"""Analysis of kernels without a GPU.

Nothing is imported here: most modules of this room need torch, and callers need not have it.
"""
