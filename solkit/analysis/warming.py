"""Load what the processes of an analysis share, before they are forked.

Importing torch takes over a second, and hashing Triton's 400 MB for its cache half of that. Hashing
needs no torch and mostly no lock of Python's, so it begins first. So does importing sympy, which
torch's fake tensors ask for: most of its 500 modules' time goes into finding and reading files.
"""

from __future__ import annotations

import contextlib
import importlib
import threading

from solkit.adapters import triton_startup

__all__ = ["warm_up"]


def warm_up() -> None:
    """Load and compute what every worker needs, so that forks inherit it."""
    ahead = [threading.Thread(target=work) for work in (triton_startup.prepare, _import_sympy)]
    for thread in ahead:
        thread.start()
    try:
        from solkit.analysis import worker  # imports torch

        worker.warm_up()
    finally:
        for thread in ahead:
            thread.join()  # a thread must not run on while the process forks


def _import_sympy() -> None:
    with contextlib.suppress(ImportError):  # whatever needs it meets the error
        importlib.import_module("sympy")
