"""Bounds on a kernel's speed: GPUs (`devices`, `nvml`), what a problem costs (`work`), the bound.

Nothing here measures; everything but `work` runs without torch.
"""
