"""The configurations of the autotuned kernels that a file launches.

Those of kernels in packages, and those that an autotuner's own pruning leaves at a shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from solkit.adapters import fake_cuda, launch_recording
from solkit.adapters.cutile_configs import uses_cutile_search
from solkit.adapters.helion_configs import uses_helion
from solkit.adapters.launch_recording import Recording
from solkit.adapters.listed_configs import ListedTuner
from solkit.adapters.tilelang_configs import uses_tilelang
from solkit.core import Space, Value
from solkit.kernelfiles import LoadedKernel
from solkit.kernelfiles._source import autotuners_elsewhere, space_of_tuners
from solkit.kernelfiles.seeding import seeded_workload


def find_launched_space(loaded: LoadedKernel) -> None:
    """Give a candidate without a space that of the autotuned kernels that it launches.

    It is called at the first shape, on fake tensors, if a package that it imports has any, or if it
    imports a language whose kernels have a space at a shape. The first configuration is what the
    candidate has.
    """
    candidate, problem = loaded.description.candidate, loaded.description.problem
    if candidate is None or candidate.space.values:
        return
    if not (autotuners_elsewhere(()) or uses_helion() or uses_tilelang() or uses_cutile_search()):
        return
    seen = _launched(loaded, problem.shapes[0])
    tuners = list(seen.tuners.values()) if seen is not None else []
    space = space_of_tuners(tuners)
    if space.values and space.points:
        shown = all(isinstance(tuner, ListedTuner) for tuner in tuners)
        params = {**space.points[0], **candidate.params} if shown else candidate.params
        with_space = replace(candidate, space=space, params=params)
        loaded.description = replace(loaded.description, candidate=with_space)


def left_by_pruning(loaded: LoadedKernel, shape: Mapping[str, Value], space: Space) -> Space:
    """Return the points that ``prune_configs_by`` of the launched autotuners leaves at a shape.

    Triton never runs the others: some are wrong there, not only slow.
    """
    if not any(map(_prunes, autotuners_elsewhere(()))):
        return space
    seen = _launched(loaded, shape)
    if seen is None:
        return space
    for name, tuner in seen.tuners.items():
        if _prunes(tuner):
            kept = [config.all_kwargs() for config in seen.kept[name].values()]
            space = space.where(f"prune_configs_by of {name}", partial(_is_among, kept))
    return space


def _prunes(tuner: Any) -> bool:
    return bool(tuner.early_config_prune or tuner.perf_model)


def _is_among(kept: Sequence[Mapping[str, Value]], point: Mapping[str, Value]) -> bool:
    return any(
        all(point.get(k, value) == value for k, value in constraint.items()) for constraint in kept
    )


def _launched(loaded: LoadedKernel, shape: Mapping[str, Value]) -> Recording | None:
    """Return a record of a run on fake tensors; ``None`` if something stops it."""
    with (
        fake_cuda.fake_tensors(),
        fake_cuda.watching_guesses(),
        launch_recording.recording_launches({}) as seen,
    ):
        try:
            seeded_workload(loaded, shape, {}).run_kernel()
        except Exception:  # what stops it is told where it is analysed
            return None
    return seen
