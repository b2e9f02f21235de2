"""Forget the import of one kernel file before the next one."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

__all__ = ["Imports"]


@dataclass(frozen=True)
class Imports:
    """Imports of a process at some moment."""

    path: tuple[str, ...]  # the module path
    modules: frozenset[str]  # names of the loaded modules

    @classmethod
    def now(cls) -> Imports:
        """Return the present state."""
        return cls(tuple(sys.path), frozenset(sys.modules))

    def restore(self) -> None:
        """Forget kernel files imported since then. Libraries stay: importing them takes long."""
        sys.path[:] = self.path
        for name in sys.modules.keys() - self.modules:
            if name.rpartition(".")[2].startswith("solkit_kernel_"):  # it may lie in a package
                del sys.modules[name]
        linecache.clearcache()
