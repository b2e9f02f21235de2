"""Imported modules: which lie in a folder, and which hold autotuners.

There are thousands. To look at each takes milliseconds, and in a fork it copies a page of memory
for most of them. So a process that forks looks once (`look_ahead`), and its forks look only at what
was imported since.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

_OWN = ("torch", "triton", "solkit")
TUNER_TYPES = ("Autotuner", "Heuristics")
"""Names of the types of what `triton.autotune` and `triton.heuristics` make."""


@dataclass(frozen=True)
class _Preloaded:
    """Modules at the time of `look_ahead`.

    Attributes:
        count: how many there were.
        last: name of the last.
        by_folder: their names by folder.
        holders: names of those that held autotuners.
    """

    count: int = 0
    last: str = ""
    by_folder: Mapping[str, Sequence[str]] = field(default_factory=dict)
    holders: Sequence[str] = ()


_preloaded = _Preloaded()


def look_ahead() -> None:
    """Look at all modules for the forks of this process, which loaded what they share."""
    global _preloaded
    names = list(sys.modules)
    _preloaded = _Preloaded(len(names), names[-1], _by_folder(names), _holders(names))


def modules_in_folder(folder: str) -> list[str]:
    """Return names of modules imported from files right in a folder, as they were imported."""
    return _modules_in_folder(folder, len(sys.modules))


def holders_of_autotuners() -> list[ModuleType]:
    """Return modules that hold autotuners, but torch's, Triton's and SolKit's own."""
    named = (sys.modules.get(name) for name in _holders_of_autotuners(len(sys.modules)))
    return [module for module in named if module is not None]


# Repeated only if the number of modules changed.


@functools.lru_cache(maxsize=16)
def _modules_in_folder(folder: str, _count: int) -> list[str]:
    ahead, later = _parted_modules()
    return [*ahead.by_folder.get(folder, ()), *_by_folder(later).get(folder, ())]


@functools.lru_cache(maxsize=1)
def _holders_of_autotuners(_count: int) -> tuple[str, ...]:
    ahead, later = _parted_modules()
    return (*ahead.holders, *_holders(later))


def _parted_modules() -> tuple[_Preloaded, list[str]]:
    """Return what is known ahead, and the names of all later modules.

    Modules stand in the order of their import. If one was removed, nothing is known ahead.
    """
    later = len(sys.modules) - _preloaded.count
    newest = list(itertools.islice(reversed(sys.modules), max(later, 0) + 1))
    if _preloaded.count and newest.pop() == _preloaded.last:
        return _preloaded, newest[::-1]
    return _Preloaded(), list(sys.modules)


def _by_folder(names: Iterable[str]) -> dict[str, list[str]]:
    folders = defaultdict[str, list[str]](list)
    for name in names:
        file = _members(name).get("__file__")
        folders[str(file).rpartition("/")[0]].append(name)
    return dict(folders)


def _holders(names: Iterable[str]) -> tuple[str, ...]:
    outside = (name for name in names if name.partition(".")[0] not in _OWN)
    return tuple(
        name
        for name in outside
        if any(type(value).__name__ in TUNER_TYPES for value in list(_members(name).values()))
    )


def _members(name: str) -> Mapping[str, Any]:
    # not getattr(module, "__file__"): some modules define it, slowly
    members: Mapping[str, Any] = getattr(sys.modules.get(name), "__dict__", {})
    return members
