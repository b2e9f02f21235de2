"""Load what the processes of an analysis share, before they are forked.

Importing torch takes over a second, and hashing Triton's 400 MB for its cache half of that. Hashing
needs no torch and mostly no lock of Python's, so it begins first.
"""

from __future__ import annotations

import threading

from solkit.adapters import triton_startup


def warm_up() -> None:
    """Load and compute what every worker needs, so that forks inherit it."""
    hashing = threading.Thread(target=triton_startup.prepare)
    hashing.start()
    try:
        from solkit.analysis import worker  # imports torch

        worker.warm_up()
    finally:
        hashing.join()  # a thread must not run on while the process forks
