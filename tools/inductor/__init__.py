"""Kernel files out of PyTorch's compiler, for ``datasets/inductor``.

`graphs`, `splits` and `templates` hold the functions that are compiled, by `lowering`; `files`
writes a file for each kernel that comes of them, with what `reference` (the same in aten calls),
`space` (launch parameters) and `tolerance` make; `check` runs such files on the CPU.
"""
