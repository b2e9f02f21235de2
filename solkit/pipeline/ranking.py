"""Which candidates deserve GPU time: ranked without a GPU, before anything is measured."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence

from solkit.core import Configuration, Depth, Device, MeasureSettings, Value
from solkit.errors import InputError, UnsupportedError
from solkit.pipeline.studying import Shape, analyser_for
from solkit.pipeline.target import target
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Plan
from solkit.surrogate.ranking import Request
from solkit.surrogate.ranking import rank as ranked

__all__ = ["rank"]

_Candidate = str | os.PathLike[str] | Configuration


def rank(
    candidates: _Candidate | Sequence[_Candidate],
    problem: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    *,
    budget: int = 10,
    shapes: Sequence[Shape] | None = None,
    depth: str | Depth = Depth.LOWERED,
    everything: bool = False,
    incumbent: Mapping[str, Value] | None = None,
    surrogate: Surrogate | None = None,
    settings: MeasureSettings | None = None,
    seed: int = 0,
) -> list[Plan]:
    """Rank candidates, and plan which of them to measure. Nothing is measured, nothing changes.

    All candidates are captured, the promising lowered, the best of these compiled, as deep as
    `depth` allows. Analyses are kept on disk, so asking again is quick.

    Args:
        candidates: kernel files, each with its whole space (or the configurations of its
            ``triton.autotune``); or single configurations of kernel files.
        problem: the file with the reference, if they lack one.
        device: the target; by default this machine's GPU, else an H100.
        budget: how many may be measured.
        shapes: sizes to override, a plan each; the first file's own shapes by default.
        depth: the deepest that a candidate may reach: ``"captured"``, ``"lowered"`` or
            ``"compiled"``.
        everything: whether all candidates reach it.
        incumbent: parameters that are in use now; each file's own by default. It is always
            measured.
        surrogate: the model; the shipped one by default. Without any, the kernel model ranks.
        settings: precision, protocol and limits, as for `score`.
        seed: of the sample of a space of more than 20,000 points.

    Returns:
        A plan for each shape.

    Raises:
        InputError: a file, shape or parameter is invalid, or nothing can be captured.
    """
    settings = settings or MeasureSettings()
    listed = (
        [candidates] if isinstance(candidates, (str, os.PathLike, Configuration)) else candidates
    )
    files, points = _by_file(listed)
    if not isinstance(budget, int) or budget < 1:
        raise InputError(f"budget is {budget!r}; expected how many may be measured, at least 1")
    request = Request(
        files,
        None if problem is None else os.fspath(problem),
        shapes,
        points,
        _depth(depth),
        everything,
        budget,
        incumbent,
        settings.precision,
        settings.protocol,
        seed,
    )
    if surrogate is None:
        try:
            surrogate = Surrogate.load()
        except UnsupportedError:
            surrogate = None
    with analyser_for(target(device, settings), settings) as analyser:
        return ranked(request, analyser, surrogate)


def _by_file(
    candidates: Sequence[_Candidate],
) -> tuple[list[str], dict[str, list[Mapping[str, Value]]] | None]:
    """The files, and the points of each if configurations are given."""
    single = [each for each in candidates if isinstance(each, Configuration)]
    if not single:
        return [os.fspath(each) for each in candidates if not isinstance(each, Configuration)], None
    if len(single) < len(candidates):
        raise InputError("candidates: expected kernel files or configurations; got both")
    points: defaultdict[str, list[Mapping[str, Value]]] = defaultdict(list)
    for each in single:
        points[each.path].append(each.params)
    return list(points), dict(points)


def _depth(depth: str | Depth) -> Depth:
    try:
        return Depth(depth)
    except ValueError:
        valid = ", ".join(each.value for each in Depth)
        raise InputError(f"depth {str(depth)!r} is unknown: choose one of {valid}") from None
