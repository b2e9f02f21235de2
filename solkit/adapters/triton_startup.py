"""Work that a process does once before Triton compiles, done ahead so that nothing waits."""

from __future__ import annotations

import contextlib
import importlib
import threading

from triton.runtime.cache import triton_key

_HASHING: list[threading.Thread] = []


def hash_meanwhile() -> None:
    """Begin to hash Triton's 400 MB for the keys of its cache, beside this thread.

    It takes 0.3 s or more, most of it without Python's lock, and imports nothing.
    """
    if not _HASHING:
        _HASHING.append(threading.Thread(target=_hash, name="solkit-triton-key", daemon=True))
        _HASHING[0].start()


def prepare() -> None:
    """Hash Triton for its cache, and import what the first launch imports.

    Forks of this process inherit both.
    """
    for thread in _HASHING:
        thread.join()  # a fork has no such thread, and hashes again if it was not done
    triton_key()
    import_launching()


def import_launching() -> None:
    """Import what Triton's first launch imports."""
    with contextlib.suppress(ImportError):
        importlib.import_module("triton.experimental.gluon.nvidia.hopper")
        importlib.import_module("triton.tools.tensor_descriptor")


def _hash() -> None:
    with contextlib.suppress(Exception):  # who needs the key meets the error
        triton_key()
