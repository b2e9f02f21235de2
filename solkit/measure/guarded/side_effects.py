"""Effects of a reference besides its outputs."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass

import torch

from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.chunked_tensors import equal_bytes
from solkit.measure.checking.inputs import fresh, tensors_of
from solkit.measure.checking.trials import Trial
from solkit.measure.guarded.sharing import Packed, pack
from solkit.measure.timing.machine import Machine

__all__ = ["Effects", "effects_of", "packed"]


@dataclass(frozen=True)
class Effects:
    """Effects of a reference besides its outputs."""

    # numbers of the inputs' storages that it writes to, or declares as written
    written: frozenset[int]
    aliases: bool  # whether its outputs lie in its inputs
    reference_s: float  # its wall-clock time


def effects_of(trial: Trial, machine: Machine) -> Effects:
    """Run the reference once more, on a copy of the inputs, to see its effects on them."""
    workload = trial.workload
    copy = fresh(workload)
    versions = [_version(tensor) for tensor in tensors_of(copy)]
    start = time.perf_counter()
    seed_everything(trial.seed)
    want = copy.run_reference()
    machine.synchronize()
    reference_s = time.perf_counter() - start
    before, after = (packed(inputs, machine.device).storages for inputs in (workload, copy))
    written = {n for n, (a, b) in enumerate(zip(before, after)) if not equal_bytes(a, b)}
    touched = {  # also by writes that left the values as they were, as `relu_` may
        tensor.untyped_storage().data_ptr()
        for tensor, version in zip(tensors_of(copy), versions)
        if tensor.layout is torch.strided and _version(tensor) != version
    }
    written |= {n for n, storage in enumerate(after) if storage.data_ptr() in touched}
    declared = pack(workload.written_arguments(), machine.device).storages
    starts = {storage.data_ptr() for storage in declared}
    written |= {n for n, storage in enumerate(before) if storage.data_ptr() in starts}
    inside = {storage.data_ptr() for storage in after}
    strided = [tensor for tensor in want if tensor.layout is torch.strided]
    aliases = any(tensor.untyped_storage().data_ptr() in inside for tensor in strided)
    return Effects(frozenset(written), aliases, reference_s)


def _version(tensor: torch.Tensor) -> int:
    """Return how often torch has written to a tensor, by its own count; 0 without a count."""
    return 0 if tensor.is_inference() else tensor._version


def packed(workload: Workload, device: str) -> Packed:
    """Return inputs, taken apart to be shared.

    Raises:
        UnsupportedError: they cannot be.
    """
    try:
        return pack((workload.args, dict(workload.kwargs)), device)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UnsupportedError(f"the inputs cannot be shared: {error}") from error
