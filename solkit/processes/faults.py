"""Failures caused by the machine, not the kernel."""

from __future__ import annotations

import errno
import os

__all__ = ["is_machine_fault"]

_MESSAGES = (
    *map(os.strerror, (errno.ENOSPC, errno.EDQUOT)),  # the same in tools and Python
    # the system kills processes when memory is short
    "`ptxas` failed with error code -9",  # Triton
    "died due to signal 9",  # nvcc, about cicc, ptxas and others that it runs
    "Killed signal terminated program",  # g++, about cc1plus
    "terminated with signal 9",  # g++, about the linker
)


def is_machine_fault(text: str) -> bool:
    """Tell whether a whole log says that the disk was full, or that the compiler was killed."""
    return any(message in text for message in _MESSAGES)
