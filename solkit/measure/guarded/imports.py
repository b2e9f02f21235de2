"""Forgetting what the import of one kernel file left behind, before the next one comes."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

__all__ = ["Imports"]


@dataclass(frozen=True)
class Imports:
    """What a process had imported at some moment, and from where it imports.

    Attributes:
        path: the module path.
        modules: names.
    """

    path: tuple[str, ...]
    modules: frozenset[str]

    @classmethod
    def now(cls) -> Imports:
        """As it is."""
        return cls(tuple(sys.path), frozenset(sys.modules))

    def restore(self) -> None:
        """Forget kernel files that came since. Libraries stay: importing them takes long."""
        sys.path[:] = self.path
        for name in sys.modules.keys() - self.modules:
            if name.startswith("solkit_kernel_"):
                del sys.modules[name]
        linecache.clearcache()
