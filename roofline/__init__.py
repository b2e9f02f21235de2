"""How fast a kernel could run: GPUs (`devices`, `nvml`), what a problem costs (`work`), the bound.

Nothing here measures; everything but `work` runs without torch.
"""
