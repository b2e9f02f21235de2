"""Load what the processes of a measurement share, before they are forked.

Hashing Triton's 400 MB, and importing what its first launch imports, would take each candidate's
process over a second, in which the GPU is held.
"""

from __future__ import annotations

import importlib
import threading


def warm_up() -> None:
    """Import what the referee and candidates need, in the server that forks them.

    Nothing here may ask torch whether there is a GPU: then no fork could use CUDA.
    """
    hashing = threading.Thread(target=_prepare_triton)
    hashing.start()
    try:
        importlib.import_module("solkit.measure.guarded.referee")  # torch
        importlib.import_module("solkit.measure.guarded.candidate")
    finally:
        hashing.join()  # a thread must not run on while the process forks
    from solkit import kernelfiles
    from solkit.measure.anti_cheating import cheat_detection

    cheat_detection.record_originals()
    kernelfiles.look_ahead()


def _prepare_triton() -> None:
    """Hash and import; without Triton, candidates that use it say so."""
    try:
        from solkit.adapters import triton_startup
    except ImportError:
        return
    triton_startup.prepare()
    from solkit.adapters import pinned_autotuners

    pinned_autotuners.watch()  # before the originals are recorded: it replaces a method
