"""Results kept on disk, in Triton's own cache."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from triton.runtime.cache import get_cache_manager


def cached_result(
    key: bytes, names: Sequence[str], make: Callable[[], Sequence[bytes]]
) -> Sequence[bytes]:
    """Return what `make` does, from the cache if it is there.

    A cache that cannot be read or written, such as one on a full disk, keeps nothing.

    Args:
        key: identifies the result.
        names: of its files.
        make: makes their contents.
    """
    with contextlib.suppress(OSError):
        cache = get_cache_manager(hashlib.sha256(key).hexdigest())
        paths = [cache.get_file(name) for name in names]
        if None not in paths:
            return [Path(path).read_bytes() for path in paths if path is not None]
    contents = make()
    with contextlib.suppress(OSError):
        cache = get_cache_manager(hashlib.sha256(key).hexdigest())
        for name, content in zip(names, contents, strict=True):
            cache.put(content, name)
    return contents
