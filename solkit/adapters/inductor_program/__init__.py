"""The whole program that Inductor makes of a reference, as a kernel file, without a GPU.

::

    reference ─ traced on fake tensors ─► graph ─ Inductor ─► module ─ rewritten ─► kernel file

Each module does one step: ``_graph``, `solkit.adapters.inductor`, ``_module``, ``_kernels`` (the
Triton functions and their parameters), ``_calls`` (the code that allocates and launches),
``_reference`` (a KernelBench model's weights), ``_entry`` (an entry point that the program serves)
and ``_file``.

Left out are the passes on the joint graph, which query a real GPU: attention written out in
PyTorch stays so. Where Inductor would time several configurations, its first is taken.

Needs `solkit.adapters.fake_cuda.install`. Patches are never undone: call it in a throw-away child
process.
"""

from __future__ import annotations

from solkit.adapters.inductor_program._entry import Caller, Returned, conditions_of
from solkit.adapters.inductor_program._file import Written, program_of
from solkit.adapters.inductor_program._reference import Reference, module_text

__all__ = [
    "Caller",
    "Reference",
    "Returned",
    "Written",
    "conditions_of",
    "module_text",
    "program_of",
]
