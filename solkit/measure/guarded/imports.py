"""Forget the import of one kernel file before the next one."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

__all__ = ["Imports"]


@dataclass(frozen=True)
class Imports:
    """What a process had imported at some moment.

    Attributes:
        path: the module path.
        modules: names of the loaded modules.
    """

    path: tuple[str, ...]
    modules: frozenset[str]

    @classmethod
    def now(cls) -> Imports:
        """The present state."""
        return cls(tuple(sys.path), frozenset(sys.modules))

    def restore(self) -> None:
        """Forget kernel files imported since then. Libraries stay: importing them takes long."""
        sys.path[:] = self.path
        for name in sys.modules.keys() - self.modules:
            if name.startswith("solkit_kernel_"):
                del sys.modules[name]
        linecache.clearcache()
