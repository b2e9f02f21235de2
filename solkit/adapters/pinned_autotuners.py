"""Choices of Triton's autotuners: told once they are made, and kept by later processes.

An autotuner compiles and times its list in each process that has no choice for a key yet. A process
that is told what an earlier one chose leaves only that configuration on the list, after the
kernel's own pruning: the launches are those of a program whose autotuner chose before. What does
not match is left to the autotuner.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from triton import knobs
from triton.runtime.autotuner import Autotuner

from solkit.core.tuned import TunerChoice


@dataclass
class _Watched:
    """Autotuners that have timed since the last `pin`, with keys, and the choices to keep."""

    pinned: Mapping[tuple[str, str], str] = field(default_factory=dict)
    timed: list[tuple[weakref.ref[Any], tuple[str, ...]]] = field(default_factory=list)
    announce: Callable[[int], object] = lambda _: None
    compiled_s: float = 0.0


_WATCHED = _Watched()


def watch() -> None:
    """Watch all autotuners of this process, and let each keep what is pinned."""
    original = Autotuner.prune_configs

    @wraps(original)
    def prune_configs(self: Any, kwargs: dict[str, Any]) -> Any:
        pruned = list(original(self, kwargs))
        key = _key_of(self, kwargs)
        _WATCHED.timed.append((weakref.ref(self), key))
        config = _WATCHED.pinned.get((_name_of(self), repr(key)))
        kept = [one for one in pruned if str(one) == config]
        to_time = kept if len(kept) == 1 else pruned  # equal texts may have other hooks
        if len(to_time) > 1 and threading.current_thread() is threading.main_thread():
            _WATCHED.announce(len(to_time))
        return to_time

    Autotuner.prune_configs = prune_configs
    before = knobs.compilation.listener

    def note(**event: Any) -> None:
        if before is not None:
            before(**event)
        if not event["cache_hit"]:
            _WATCHED.compiled_s += event["times"].total / 1e6

    knobs.compilation.listener = note


def announce(tell: Callable[[int], object]) -> None:
    """Call `tell` before an autotuner times a list, with the number of its configurations."""
    _WATCHED.announce = tell


def compiled_s() -> float:
    """Return the seconds that Triton's compiler has taken since the last `pin`."""
    return _WATCHED.compiled_s


def pin(choices: Iterable[TunerChoice]) -> None:
    """Keep these choices from now on, instead of those of before; forget which were made."""
    _WATCHED.timed.clear()
    _WATCHED.compiled_s = 0.0
    _WATCHED.pinned = {(choice.tuner, choice.key): choice.config for choice in choices}


def chosen() -> list[TunerChoice]:
    """Return what autotuners chose since the last `pin`, as their caches say."""
    choices: dict[TunerChoice, None] = {}
    for reference, key in _WATCHED.timed:
        if (tuner := reference()) is not None:
            config = {_texts(own): config for own, config in tuner.cache.items()}.get(key)
            if config is not None:
                choices[TunerChoice(_name_of(tuner), repr(key), str(config))] = None
    return list(choices)


def _key_of(tuner: Any, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of the launch that is being timed, as `Autotuner.run` makes it."""
    arguments = {**tuner.nargs, **kwargs}
    passed = {name: arguments[name] for name in arguments if name in tuner.arg_names}
    dtypes = [arg.dtype for arg in passed.values() if hasattr(arg, "dtype")]
    return _texts((*(passed[name] for name in tuner.keys if name in passed), *dtypes))


def _texts(key: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, key))


def _name_of(tuner: Any) -> str:
    """Return what tells an autotuner apart: where its function is written, and its list."""
    code, listed = tuner.base_fn.__code__, repr((tuner.keys, *map(str, tuner.configs)))
    digest = hashlib.sha256(listed.encode()).hexdigest()
    return f"{code.co_filename}:{code.co_firstlineno} {digest}"
