"""The surrogate that is installed."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from solkit.errors import UnsupportedError
from solkit.surrogate.shipped import shipped_trees_file

if TYPE_CHECKING:
    from solkit.surrogate.model import Surrogate


def shipped_model() -> Surrogate | None:
    """Return the shipped model; ``None`` if there is none: the kernel model speaks then."""
    from solkit.surrogate.model import Surrogate  # loaded only where something is forecast

    with contextlib.suppress(UnsupportedError):
        return Surrogate.load()
    return None


@functools.cache
def shared_model() -> Surrogate | None:
    """Return the same, read once by a process that forecasts often."""
    return shipped_model()


def model_file() -> str:
    """Return the identity of the model that is installed.

    Raises:
        UnsupportedError: there is none.
        OSError: likewise.
    """
    path = shipped_trees_file()
    status = path.stat()
    return repr((str(path), status.st_size, status.st_mtime_ns))
