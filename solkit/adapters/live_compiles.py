"""A cache that was filled ahead, in a live process: its kernels are put where Triton looks.

Two places tell what is compiled: Triton's listener, of this process; and Inductor's tuners, whose
kernels other processes compile. Nothing is imported here: it waits for both.
"""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from solkit.adapters.cache_transfer import add_folder_to_cache, cache_folder, versions_of_cache
from solkit.adapters.live_tuned import INDUCTOR
from solkit.errors import UnsupportedError
from solkit.processes.startup import call_after_imports

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
    _seen: set[str] = field(default_factory=set)
    _knobs: ModuleType | None = None
    _before: Any = None
    _wrapped: tuple[Any, Any] | None = None

    def start(self) -> None:
        """Put the cache where Triton and Inductor look, and note compiles from Triton's import."""
        os.environ.setdefault("TRITON_CACHE_DIR", str(cache_folder()))  # Inductor's is another
        try:
            add_folder_to_cache(self.cache, cache_folder())
        except (OSError, ValueError) as error:
            self.why = f"{type(error).__name__}: {error}"
        except UnsupportedError as error:
            self.why = str(error)
        call_after_imports([_KNOBS], self._watch)
        call_after_imports([INDUCTOR], self._watch_inductor)

    def stop(self) -> None:
        """Note nothing further."""
        if self._knobs is not None and self._knobs.compilation.listener == self._note:
            self._knobs.compilation.listener = self._before
        self._knobs = None
        if self._wrapped is not None:
            form, wrapper = self._wrapped
            if form.precompile is wrapper:  # else others wrapped it since, and it passes calls on
                form.precompile = wrapper.__wrapped__
        self._wrapped = None

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

    def _note(self, *, src: Any, metadata: Any, cache_hit: bool, **event: Any) -> None:
        self._count(str(getattr(src, "name", "")), str(metadata.get("hash", "")), cache_hit)
        if self._before is not None:
            self._before(src=src, metadata=metadata, cache_hit=cache_hit, **event)

    def _count(self, name: str, key: str, is_hit: bool) -> None:
        if key in self._seen:
            return
        self._seen.update({key} - {""})
        if is_hit:
            self.hits += 1
        else:
            self.compiled[name] = self.compiled.get(name, 0) + 1

    def _watch_inductor(self) -> None:
        form = getattr(sys.modules[INDUCTOR], "CachingAutotuner", None)
        if form is None:
            return
        original = form.precompile

        @wraps(original)
        def precompile(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tuner, *args, **kwargs)
            if self._wrapped is not None:
                self._note_results(tuner)
            return result

        form.precompile = precompile
        self._wrapped = form, precompile

    def _note_results(self, tuner: Any) -> None:
        """Count what another process compiled for a tuner; what this one did is counted."""
        for result in getattr(tuner, "compile_results", ()):
            key = str(getattr(getattr(result, "kernel", None), "hash", ""))
            if key:
                is_hit = (self.cache / _folder_of_key(key)).is_dir()
                self._count(str(getattr(tuner.fn, "__name__", "")), key, is_hit)


def _folder_of_key(key: str) -> str:
    """Return the name of a key's folder; see triton/runtime/cache.py, `_base32`."""
    try:
        return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")
    except ValueError:
        return key
