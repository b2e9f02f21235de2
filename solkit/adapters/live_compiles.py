"""A cache that was filled ahead, in a live process: its kernels are put where Triton looks.

Nothing is imported here: it waits for Triton.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from solkit.adapters.cache_transfer import add_folder_to_cache, cache_folder, versions_of_cache
from solkit.processes.startup import call_after_imports

__all__ = ["CompileWatch"]

_KNOBS = "triton.knobs"


@dataclass
class CompileWatch:
    """Notes which kernels a process compiles though a cache was filled for it.

    Attributes:
        cache: the cache that was filled.
        compiled: how many kernels were compiled after all, by name.
        hits: how many were in a cache.
        why: why the cache could not be used; empty if it could.
    """

    cache: Path
    compiled: dict[str, int] = field(default_factory=dict)
    hits: int = 0
    why: str = ""
    _knobs: ModuleType | None = None
    _before: Any = None

    def start(self) -> None:
        """Put the cache where Triton and Inductor look, and note compiles from Triton's import."""
        os.environ.setdefault("TRITON_CACHE_DIR", str(cache_folder()))  # Inductor's is another
        try:
            add_folder_to_cache(self.cache, cache_folder())
        except (OSError, ValueError) as error:
            self.why = f"{type(error).__name__}: {error}"
        call_after_imports([_KNOBS], self._watch)

    def stop(self) -> None:
        """Note nothing further."""
        if self._knobs is not None and self._knobs.compilation.listener == self._note:
            self._knobs.compilation.listener = self._before
        self._knobs = None

    def sentence(self) -> str:
        """Say what was compiled after all."""
        if self.why:
            return f"{self.cache} cannot be used: {self.why}"
        if not self.compiled:
            return f"all {self.hits} compiled kernels came from a cache"
        counts = (f"{name} ({n} times)" if n > 1 else name for name, n in self.compiled.items())
        return f"compiled after all: {', '.join(sorted(counts))}{self._other_version()}"

    def _other_version(self) -> str:
        here = str(getattr(sys.modules.get("triton"), "__version__", ""))
        versions = versions_of_cache(self.cache)
        if not versions or here in versions:
            return ""
        return f"; {self.cache} is of Triton {', '.join(sorted(versions))}, and this is {here}"

    def _watch(self) -> None:
        self._knobs = sys.modules[_KNOBS]
        self._before = self._knobs.compilation.listener
        self._knobs.compilation.listener = self._note

    def _note(self, *, src: Any, cache_hit: bool, **event: Any) -> None:
        if cache_hit:
            self.hits += 1
        else:
            name = str(getattr(src, "name", ""))
            self.compiled[name] = self.compiled.get(name, 0) + 1
        if self._before is not None:
            self._before(src=src, cache_hit=cache_hit, **event)
