"""Equal random numbers, and so equal inputs, in every process."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from solkit.core import Value
from solkit.kernelfiles._base import LoadedKernel, Workload

_SEED = 0


def seed_everything(seed: int) -> None:
    """Seed every generator that inputs or a kernel may use."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # not torch.manual_seed: it records a stack trace for each kind of GPU, 1 to 5 ms
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for generator in torch.cuda.default_generators:
            generator.manual_seed(seed)
    elif torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def seeded_workload(
    loaded: LoadedKernel, shape: Mapping[str, Value], params: Mapping[str, Value]
) -> Workload:
    """Return a workload on fake tensors; its values do not depend on what this process did before.

    Fake tensors draw index tensors and the launcher's numbers on the CPU, even if the machine has a
    GPU (`solkit.adapters.fake_cuda`).

    Raises:
        InputError: as `LoadedKernel.workload`.
    """
    seed_everything(_SEED)
    workload = loaded.workload(shape, params)

    def draw_inputs_again() -> Workload:
        other = loaded.drawn(workload, shape)
        return workload.with_inputs(other.args, other.kwargs)

    return replace(workload, again=draw_inputs_again)
