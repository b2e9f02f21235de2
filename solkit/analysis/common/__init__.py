"""What following Triton's and CUDA C++'s kernels share: caches, instruction mixes, PTX."""
