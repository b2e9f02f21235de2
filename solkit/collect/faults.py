"""Failures that are the machine's, not the kernel's."""

from __future__ import annotations

import errno
import os

__all__ = ["is_machine_fault"]

_TOLD = (
    *map(os.strerror, (errno.ENOSPC, errno.EDQUOT)),  # tools and Python say it in the same words
    "`ptxas` failed with error code -9",  # Triton's words; the system kills where memory is short
)


def is_machine_fault(text: str) -> bool:
    """Whether a message says that the disk was full, or that the compiler was killed."""
    return any(words in text for words in _TOLD)
