"""Work that the timed inputs make compulsory: evidence for the verdict ``impossible``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.utils._pytree import tree_leaves

from solkit.core import Needed, NeededProducts, Tolerance
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.faults import ContextLostError
from solkit.measure.checking.inputs import fresh
from solkit.measure.checking.trials import Trial, naming
from solkit.measure.sensitivity.needed import LIMIT_S, needed

__all__ = ["STAGE", "needed_on"]

STAGE = "measuring what the inputs need"
"""As a trial to skip: the reference breaks the CUDA context on changed inputs."""


def needed_on(
    trials: Sequence[Trial],
    make: Callable[[], Workload],
    tolerance: Tolerance | None,
    limit_s: float = LIMIT_S,
) -> Needed | None:
    """Return the least that any of these inputs makes compulsory.

    Timed calls take the inputs in turns, so their median time is bounded by the least need.

    Args:
        trials: the timed inputs.
        make: draws inputs; the generators are seeded before.
        tolerance: the file's own.
        limit_s: seconds for all of them.

    Returns:
        The need; ``None`` if it cannot be measured: it takes too long, needs too much memory, or
        the reference fails.

    Raises:
        ContextLostError: the reference broke the CUDA context on changed inputs.
    """
    try:
        with naming(STAGE):
            each_s = limit_s / len(trials)
            needs = [_needed(trial, make, tolerance, each_s) for trial in trials]
    except ContextLostError:
        raise
    except Exception:  # user code on inputs that it was not written for, or out of memory
        return None
    measured = [need for need in needs if need is not None]
    return _least(measured) if len(measured) == len(needs) else None


def _needed(
    trial: Trial, make: Callable[[], Workload], tolerance: Tolerance | None, limit_s: float
) -> Needed | None:
    workload = fresh(trial.workload)

    def run() -> list[torch.Tensor]:
        seed_everything(trial.seed)
        return workload.run_reference()

    def draw(number: int) -> list[torch.Tensor]:
        seed_everything(trial.seed + number)
        return _tensors(make())

    def accepts(got: list[torch.Tensor]) -> bool:
        return not trial.standard(own).judge(got).errors

    own = workload.tolerance or tolerance
    check = accepts if workload.check is not None else None
    inputs = _tensors(workload)
    return needed(run, inputs, draw, tolerance=own, accepts=check, limit_s=limit_s, seed=trial.seed)


def _tensors(workload: Workload) -> list[torch.Tensor]:
    leaves = tree_leaves((workload.args, dict(workload.kwargs)))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _least(needs: Sequence[Needed]) -> Needed:
    alike = len({tuple(p.flops for p in need.products) for need in needs}) == 1
    products = zip(*(need.products for need in needs), strict=True) if alike else ()
    return Needed(
        read_bytes=min(need.read_bytes for need in needs),
        write_bytes=min(need.write_bytes for need in needs),
        products=tuple(
            NeededProducts(same[0].flops, min(products.needed for products in same))
            for same in products
        ),
        samples=sum(need.samples for need in needs),
    )
