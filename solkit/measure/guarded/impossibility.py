"""Work that the timed inputs make compulsory: evidence for the verdict ``impossible``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from solkit.core import Needed, NeededProducts, Tolerance
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.faults import ContextLostError
from solkit.measure.checking.inputs import copy_workload
from solkit.measure.checking.trials import Trial, naming_trial
from solkit.measure.sensitivity.needed import LIMIT_S, measure_needed

STAGE = "measuring what the inputs need"
"""As a trial to skip: the reference breaks the CUDA context on changed inputs."""


def measure_least_need(
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
        with naming_trial(STAGE):
            each_s = limit_s / len(trials)
            needs = [_measure_need(trial, make, tolerance, each_s) for trial in trials]
    except ContextLostError:
        raise
    except Exception:  # user code on inputs that it was not written for, or out of memory
        return None
    measured = [need for need in needs if need is not None]
    return _least_need(measured) if len(measured) == len(needs) else None


def _measure_need(
    trial: Trial, make: Callable[[], Workload], tolerance: Tolerance | None, limit_s: float
) -> Needed | None:
    workload = copy_workload(trial.workload)

    def run_reference() -> list[torch.Tensor]:
        seed_everything(trial.seed)
        return workload.run_reference()

    def draw_inputs(number: int) -> list[torch.Tensor]:
        seed_everything(trial.seed + number)
        return make().tensors()

    def accepts_outputs(got: list[torch.Tensor]) -> bool:
        return not trial.standard(own).judge(got).errors

    own = workload.tolerance or tolerance
    check = accepts_outputs if workload.check is not None else None
    inputs = workload.tensors()
    return measure_needed(
        run_reference,
        inputs,
        draw_inputs,
        tolerance=own,
        accepts=check,
        limit_s=limit_s,
        seed=trial.seed,
    )


def _least_need(needs: Sequence[Needed]) -> Needed:
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
