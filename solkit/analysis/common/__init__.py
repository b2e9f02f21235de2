"""Shared parts of following Triton's and CUDA C++'s kernels: caches, instruction mixes, PTX."""
