"""Watchers of kernels' launches on the fake GPU, recorded or not: a reference may make some."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Set

import torch

LaunchWatcher = Callable[[str, Mapping[str, torch.Tensor], Set[str], Set[str]], None]
"""Takes a kernel's name, its tensors by parameter, the parameters that it may write to, and those
of them that it also loads from."""

_watchers: list[LaunchWatcher] = []


@contextlib.contextmanager
def watching_launches(watcher: LaunchWatcher) -> Iterator[None]:
    """Tell `watcher` of each launch."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def notify_watchers(
    name: str, tensors: Mapping[str, torch.Tensor], written: Set[str], read_back: Set[str]
) -> None:
    """Tell all watchers of a launch; see `LaunchWatcher`."""
    for watcher in _watchers:
        watcher(name, tensors, written, read_back)
