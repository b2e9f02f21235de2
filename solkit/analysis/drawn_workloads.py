"""Workloads of a kernel file, whose inputs are drawn once if that takes long.

Recording and comparing runs of a launcher takes some ten draws for a file. Where ``inputs()`` draws
a thousand permutations, files of a search were captured for 6 to 12 s each.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from solkit.adapters.fake_cuda import InputCopies
from solkit.core import Params, Value, canonical
from solkit.errors import UnsupportedError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.kernelfiles.seeding import seeded_workload

_SLOW_S = 0.1
"""CPU seconds from which drawing is slow: copies take some milliseconds."""

Shape = Mapping[str, Value]


@dataclass(frozen=True)
class _Drawn:
    """A workload as it was drawn, with the states of generators behind that."""

    workload: Workload
    inputs: InputCopies
    states: tuple[Any, ...]

    def with_copies(self, workload: Workload) -> Workload:
        """Return a workload on a copy of the inputs, and leave generators as drawing does."""
        args, kwargs = self.inputs.make()
        again = partial(self.with_copies, workload)
        random.setstate(self.states[0])
        np.random.set_state(self.states[1])
        torch.default_generator.set_state(self.states[2])
        return replace(workload, args=args, kwargs=kwargs, again=again)


@dataclass(frozen=True)
class DrawnWorkloads:
    """Makes workloads on fake tensors, each on inputs of its own.

    Attributes:
        loaded: the kernel file.
    """

    loaded: LoadedKernel
    _kept: dict[str, _Drawn | None] = field(default_factory=dict)  # by shape

    def make(self, shape: Shape, params: Params) -> Workload:
        """Return `seeded_workload`, or the same on a copy of what was drawn before.

        Raises:
            InputError: as `seeded_workload`.
        """
        drawn = self._kept.get(name := canonical(shape))
        if drawn is not None:
            with contextlib.suppress(UnsupportedError):
                return drawn.with_copies(self.loaded.with_params(drawn.workload, params))
        began_s = time.process_time()
        workload = seeded_workload(self.loaded, shape, params)
        if name not in self._kept and time.process_time() - began_s > _SLOW_S:
            self._kept[name] = drawn = _drawn_once(workload)
            return workload if drawn is None else drawn.with_copies(workload)
        return workload


def _drawn_once(workload: Workload) -> _Drawn | None:
    """Return what copies are made of; ``None`` if these would be something else to a program."""
    inputs = workload.args, dict(workload.kwargs)
    has_model = getattr(workload.kernel, "model", None) is not None  # its state is its own
    if has_model or workload.destinations is not None or not InputCopies.may_copy(inputs):
        return None
    states = random.getstate(), np.random.get_state(), torch.default_generator.get_state()
    return _Drawn(workload, InputCopies(inputs), states)
