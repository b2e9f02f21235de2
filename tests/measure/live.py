"""Counts the bytes of live tensors, and of memory that two processes share, as a GPU would.

Operators that take memory of their own on CUDA but not on a CPU count as on CUDA: `equal` has a
truth for each element, and a sum of integers a 64-bit number for each.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from solkit.measure.guarded import correctness

_SUMMED_AS_THEY_ARE = (torch.int64, torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Live:
    """The bytes that live now, of all threads that count, and the most at each step."""

    def __init__(self, monkeypatch):
        self.stage = "loading"
        self.peaks = defaultdict(int)
        self._storages, self._shared = {}, 0
        self._lock = threading.RLock()
        allocate = correctness.allocate_block

        def counted(size, device):
            block = allocate(size, device)
            self._share(size)
            close = block.close

            def closed():
                close()
                self._share(-size)

            block.close = closed
            return block

        monkeypatch.setattr(correctness, "allocate_block", counted)

    def say(self, stage):
        self.stage = stage

    def counting(self):
        return _Counting(self)

    @property
    def most(self):
        return max(self.peaks.values())

    def _share(self, size):
        with self._lock:
            self._shared += size
            self.note()

    def take(self, tensors):
        with self._lock:
            for tensor in tensors:
                with contextlib.suppress(NotImplementedError):  # no storage
                    storage = tensor.untyped_storage()
                    key = storage._cdata
                    if key not in self._storages or self._storages[key][0].expired():
                        self._storages[key] = StorageWeakRef(storage), storage.nbytes()

    def note(self, more=0):
        with self._lock:
            gone = [key for key, (ref, _) in self._storages.items() if ref.expired()]
            for key in gone:
                del self._storages[key]
            now = sum(size for _, size in self._storages.values()) + self._shared + more
            self.peaks[self.stage] = max(self.peaks[self.stage], now)


class _Counting(TorchDispatchMode):
    def __init__(self, live):
        super().__init__()
        self._live = live

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inside = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        selected_tree_leaves = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        if "frombuffer" in str(function) or any(_is_mapped(x) for x in selected_tree_leaves):
            return result
        known_values = {x.untyped_storage()._cdata for x in inside if x.layout is torch.strided}
        views = [x for x in selected_tree_leaves if x.untyped_storage()._cdata in known_values]
        self._live.take([x for x in selected_tree_leaves if not any(x is view for view in views)])
        self._live.note(_own_bytes(function, inside))
        return result


class Moved(TorchDispatchMode):
    """Counts the bytes that operators of this thread read and write; views move none."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not function.is_view and "set_" not in str(function):
            leaves = tree_leaves((args, kwargs, result))
            tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
            self.bytes += sum(x.numel() * x.element_size() for x in tensors)
        return result


def _is_mapped(tensor):
    return tensor.layout is torch.strided and not tensor.untyped_storage().resizable()


def _own_bytes(function, inside):
    if function is torch.ops.aten.equal.default:
        return inside[0].numel()
    if function in (torch.ops.aten.sum.default, torch.ops.aten.sum.dim_IntList):
        return 0 if inside[0].dtype in _SUMMED_AS_THEY_ARE else 8 * inside[0].numel()
    return 0
