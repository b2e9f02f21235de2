"""Ranking of candidates, without a GPU, before anything is measured."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from solkit.core import Configuration, Device, MeasureSettings, Value
from solkit.errors import InputError
from solkit.pipeline.shipped_surrogate import shipped_model
from solkit.pipeline.studying import Shape, analyser_for
from solkit.pipeline.target import target_device
from solkit.processes import jobs

if TYPE_CHECKING:
    from solkit.surrogate.model import Surrogate
    from solkit.surrogate.plan import Plan
    from solkit.surrogate.ranking import RankSettings, Request
    from solkit.tuner.ask_tell import AskTell

_Candidate = str | os.PathLike[str] | Configuration


def rank(
    candidates: _Candidate | Sequence[_Candidate],
    reference: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    *,
    budget: int = 10,
    shapes: Sequence[Shape] | None = None,
    surrogate: Surrogate | None = None,
    settings: RankSettings | None = None,
) -> list[Plan]:
    """Rank candidates, and plan which of them to measure. Nothing is measured, nothing changes.

    All candidates are captured, the promising lowered, the best of these compiled, as deep as the
    settings allow. Analyses are kept on disk, so asking again is quick.

    Args:
        candidates: kernel files, each with its whole space (or the configurations of its
            ``triton.autotune``); or single configurations of kernel files.
        reference: the file with the reference, if they lack one.
        device: the target; by default this machine's GPU, else an H100.
        budget: how many may be measured.
        shapes: sizes to override, a plan each; the first file's own shapes by default.
        surrogate: the model; the shipped one by default. Without any, the kernel model ranks.
        settings: how deep to look, what is in use now, and the like.

    Returns:
        A plan for each shape.

    Raises:
        InputError: a file, shape or parameter is invalid, or nothing can be captured.
    """
    from solkit.surrogate.ranking import rank as ranked

    request = _rank_request(candidates, reference, budget, shapes, settings)
    limits = MeasureSettings()
    with analyser_for(target_device(device, limits), limits) as analyser:
        jobs.start()  # it loads torch while the model is read here
        return ranked(request, analyser, surrogate or shipped_model())


def ask_tell(
    candidates: _Candidate | Sequence[_Candidate],
    reference: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    *,
    budget: int = 10,
    shape: Shape | None = None,
    surrogate: Surrogate | None = None,
    settings: RankSettings | None = None,
    seed: int = 0,
) -> AskTell:
    """Rank candidates for a loop that measures by itself: it asks, and tells what it took.

    Args:
        candidates: as for `rank`.
        reference: likewise.
        device: likewise.
        budget: how many are measured by the plan, before answers follow what was told.
        shape: sizes to override; the first file's first shape by default.
        surrogate: as for `rank`.
        settings: likewise.
        seed: of the search that follows the plan.

    Raises:
        InputError: as for `rank`.
    """
    from solkit.surrogate.ranking import ranked_pools
    from solkit.tuner.ask_tell import AskTell  # it needs scipy

    shapes = None if shape is None else [shape]
    request = _rank_request(candidates, reference, budget, shapes, settings)
    limits = MeasureSettings()
    with analyser_for(target_device(device, limits), limits) as analyser:
        jobs.start()
        model = surrogate or shipped_model()
        if shape is None:
            described = analyser.describe(request.files[0], request.reference).result()
            request = replace(request, shapes=described.problem.shapes[:1])
        return AskTell(ranked_pools(request, analyser, model)[0].plan, seed)


def _rank_request(
    candidates: _Candidate | Sequence[_Candidate],
    reference: str | os.PathLike[str] | None,
    budget: int,
    shapes: Sequence[Shape] | None,
    settings: RankSettings | None,
) -> Request:
    from solkit.surrogate.ranking import RankSettings, Request

    single = isinstance(candidates, (str, os.PathLike, Configuration))
    files, points = _points_by_file([candidates] if single else candidates)  # type: ignore[list-item,arg-type]
    if not isinstance(budget, int) or budget < 1:
        raise InputError(f"budget is {budget!r}; expected how many may be measured, at least 1")
    if not files:
        raise InputError("expected at least one kernel file to rank; got none")
    problem = None if reference is None else os.fspath(reference)
    return Request(files, problem, shapes, points, budget, settings or RankSettings())


def _points_by_file(
    candidates: Sequence[_Candidate],
) -> tuple[list[str], dict[str, list[Mapping[str, Value]]] | None]:
    """Return the files, and the points of each if configurations are given."""
    single = [candidate for candidate in candidates if isinstance(candidate, Configuration)]
    if not single:
        return [
            os.fspath(candidate)
            for candidate in candidates
            if not isinstance(candidate, Configuration)
        ], None
    if len(single) < len(candidates):
        raise InputError("candidates: expected kernel files or configurations; got both")
    points: defaultdict[str, list[Mapping[str, Value]]] = defaultdict(list)
    for configuration in single:
        points[configuration.path].append(configuration.params)
    return list(points), dict(points)
