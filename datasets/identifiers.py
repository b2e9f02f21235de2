"""Identifiers of kernels and problems, and files as records."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from urllib.parse import quote

from solkit.core import Source, Value
from solkit.core.values import finite
from solkit.errors import InputError

MESSAGE_LIMIT = 2000
"""Characters kept of `Outcome.message`."""

_ID_DIGITS = 16  # 64 bits: two of a million kernels share one with a chance of 3 in 10^8


def kernel_id(source_sha256: str, problem_sha256: str, entry_point: str) -> str:
    """Return the name of a kernel: a function in the same files has the same name everywhere.

    Args:
        source_sha256: of the kernel's file, in hexadecimal.
        problem_sha256: of its reference's file, which may be the same.
        entry_point: the function's name.
    """
    text = "\0".join((source_sha256, problem_sha256, entry_point))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def problem_id(family: str, shape: Mapping[str, Value]) -> str:
    """Return the name of a problem, e.g. ``softmax/M=4096,N=1000,dtype=bfloat16``; sizes by name.

    Punctuation within a word is percent-encoded.
    """
    sizes = ",".join(f"{_quoted_word(name)}={_quoted_word(shape[name])}" for name in sorted(shape))
    return f"{_quoted_word(family)}/{sizes}"


def source_of(data: bytes, name: str) -> Source:
    """Return a file as a `Source`.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        return Source(hashlib.sha256(data).hexdigest(), name, data.decode())
    except UnicodeDecodeError as error:
        if name.endswith(".cubin"):
            what = "is machine code alone: it can be scored, but not ranked, tuned or logged"
            raise InputError(f"{name} {what}") from error
        raise InputError(f"{name} is not UTF-8 text: {error}") from error


@functools.lru_cache(maxsize=1 << 10, typed=True)  # the words of a space are few, its points many
def _quoted_word(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(finite(value)).strip('"')
    return quote(text, safe=" .:+-_()[]")
