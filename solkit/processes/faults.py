"""Failures caused by the machine, not the kernel."""

from __future__ import annotations

import errno
import os

__all__ = ["is_machine_fault"]

_TOLD = (
    *map(os.strerror, (errno.ENOSPC, errno.EDQUOT)),  # the same words in tools and Python
    # the system kills processes when memory is short
    "`ptxas` failed with error code -9",  # Triton's words
    "died due to signal 9",  # nvcc's, of cicc, ptxas and others that it runs
    "Killed signal terminated program",  # g++'s, of cc1plus
    "terminated with signal 9",  # g++'s, of the linker
)


def is_machine_fault(text: str) -> bool:
    """Whether a message says that the disk was full, or that the compiler was killed.

    Args:
        text: all of it: a compiler's reason may be in the last of many lines.
    """
    return any(words in text for words in _TOLD)
