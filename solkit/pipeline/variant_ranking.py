"""Ranking of variants' candidates without a GPU, by forecasts of a sample of each space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Union

from solkit.core import Depth, EvolveSettings, KernelFile, Value, Variant, canonical
from solkit.errors import InputError
from solkit.measure.anti_cheating.source_suspicion import suspicions
from solkit.measure.benches import RecordedBench
from solkit.pipeline.evolve_original import Original, recorded_rows
from solkit.pipeline.preparing import Preparation
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.core import Forecast
    from solkit.surrogate.model import Surrogate
    from solkit.surrogate.plan import Ranked
    from solkit.tuner.evolution.acquisition import Point
    from solkit.tuner.evolution.variant_evaluator import Ranking

Points = list[Mapping[str, Value]]
_Begun = tuple[Future[KernelFile], Union[Future[Points], None]]

_MOST_POINTS = 64
"""Parameters of one variant that are ranked: a sample of its space."""
_POINTS_OF_PROGRAM = 12
"""The same of the reference's programs. The compiler's own choice comes first, and conditions in
such a file are seen by running it: 64 runs take 10 s, in which the GPU seconds are spent."""
_HELD = 24
"""Points of a variant that go to the frontier, those with the lowest forecasts."""


@dataclass(frozen=True)
class VariantRanker:
    """Ranks candidates of variants at the shape of a search.

    Attributes:
        prepared: reads, analyses and compiles them.
        original: what the search starts from.
        how: the settings.
        surrogate: ranks; ``None`` for the kernel model alone.
        recording: the bench of a replay, whose rows alone can be measured; ``None`` for a GPU.
        fits_one_shape: tells the reference's programs, and what is made of them.
    """

    prepared: Preparation
    original: Original
    how: EvolveSettings
    surrogate: Surrogate | None
    recording: RecordedBench | None
    fits_one_shape: Callable[[Variant], bool]

    def rank(
        self,
        variants: Sequence[Variant],
        otherwise_ms: float,
        patience_s: Callable[[], float | None],
    ) -> Ranking:
        """Return forecasts of variants' candidates.

        Args:
            variants: the variants, of different texts.
            otherwise_ms: is expected of candidates of which nothing is known.
            patience_s: tells, once all files are read, after how many seconds what is not lowered
                is forecast by its launches; ``None`` for never.
        """
        from solkit.surrogate.ranking import RankSettings, Request, rank
        from solkit.tuner.evolution.acquisition import Point
        from solkit.tuner.evolution.variant_evaluator import Ranking

        original = self.original
        points, refused = self._read(variants)
        if not points:
            return Ranking([], refused)
        id_by_path = {original.path_of(v, self.prepared): v.id for v in variants}
        reference = None if id_by_path.keys() == {original.problem} else original.problem
        settings = RankSettings(self._depth, explained=0, patience_s=patience_s())
        in_use = original.variant.id in id_by_path.values()
        request = Request(list(points), reference, [original.shape], points, 1, settings, in_use)
        try:
            with span("ranking"):
                (plan,) = rank(request, self.prepared.analyser, self.surrogate)
        except InputError as error:
            return Ranking([], {**refused, **{id_by_path[path]: str(error) for path in points}})
        candidates = [
            Point.of(
                id_by_path[ranked.configuration.path],
                original.of(ranked.configuration.path, ranked.configuration.params, "search"),
                self._forecast_if_seen(ranked),
                otherwise_ms,
            )
            for ranked in plan.ranked
        ]
        reasons = {id_by_path[path]: why for path, why in _unusable_files(plan.ranked).items()}
        return Ranking(_foremost_points(candidates), {**refused, **reasons})

    def _read(self, variants: Sequence[Variant]) -> tuple[dict[str, Points], dict[str, str]]:
        """Return parameters to rank by file, and by variants' ids why some cannot be used."""
        begun: dict[str, _Begun] = {}
        points: dict[str, Points] = {}
        refused: dict[str, str] = {}
        for variant in variants:
            try:
                begun[variant.id] = self._begin_reading(variant)
            except InputError as error:
                refused[variant.id] = str(error)
        for variant in variants:
            if variant.id in begun:
                path = self.original.path_of(variant, self.prepared)
                try:
                    points[path] = self._params_to_rank(variant, *begun[variant.id])
                except InputError as error:
                    refused[variant.id] = str(error)
        return points, refused

    def _begin_reading(self, variant: Variant) -> _Begun:
        """Begin to read a variant's file, and to sample its space: those of all at a time.

        Raises:
            InputError: it is plain that it cheats.
        """
        if proofs := [suspicion for suspicion in _suspicions(variant) if suspicion.is_proof]:
            raise InputError(f"it is not measured: {proofs[0].evidence}")
        path, analyser = self.original.path_of(variant, self.prepared), self.prepared.analyser
        apart = None if path == self.original.problem else self.original.problem
        sample = None
        if self.recording is None:
            most = _POINTS_OF_PROGRAM if self.fits_one_shape(variant) else _MOST_POINTS
            sample = analyser.points(path, apart, self.original.shape, most, self.how.seed)
        return analyser.describe(path, apart), sample

    def _params_to_rank(
        self, variant: Variant, begun: Future[KernelFile], sample: Future[Points] | None
    ) -> Points:
        """Return parameters of a variant: its own, and a sample of its space.

        Raises:
            InputError: the file cannot be used.
        """
        file = begun.result()
        if file.candidate is None:
            raise InputError("it holds no kernel")
        if self.recording is not None:
            rows = recorded_rows(self.recording, file, self.original.whole_shape)
            return list({canonical(row.params): row.params for row in rows}.values())
        assert sample is not None
        is_original = variant.id == self.original.variant.id
        own = dict(self.original.params if is_original else file.candidate.params)
        return list({canonical(params): params for params in (own, *sample.result())}.values())

    def _forecast_if_seen(self, ranked: Ranked) -> Forecast:
        """Return a candidate's forecast, without a time if only some of its launches are seen.

        What stops the capture hides all that is launched behind it. Where that holds of the
        original too, parts are compared with parts.
        """
        if ranked.is_whole or not self._original_is_whole:
            return ranked.forecast
        return replace(ranked.forecast, time_ms=None, low_ms=None, high_ms=None)

    @cached_property
    def _original_is_whole(self) -> bool:
        (captured,) = self.prepared.analyser.captured([self.original.configuration])
        return captured.analysis is not None and captured.analysis.is_whole

    @property
    def _depth(self) -> Depth:
        """The depth of analysis of candidates before the first of them is measured.

        What promises most is compiled ahead of measuring, and forecast once more: the GPU need not
        wait until all of a round are.
        """
        depth = Depth(self.how.depth)
        return Depth.LOWERED if self.recording is None and depth is Depth.COMPILED else depth


def _suspicions(variant: Variant) -> Sequence[Any]:
    try:
        return suspicions(variant.source, f"{variant.id}.py")
    except SyntaxError as error:
        raise InputError(f"it is no Python: line {error.lineno}: {error.msg}") from None


def _unusable_files(ranked: Sequence[Ranked]) -> dict[str, str]:
    """Return the files without a candidate that can run, with what most of theirs fail by."""
    able = {one.configuration.path for one in ranked if one.forecast.p_fail < 1}
    reasons: dict[str, Counter[str]] = {}
    for one in ranked:
        if one.configuration.path not in able:
            reasons.setdefault(one.configuration.path, Counter())[one.reason] += 1
    why = "no choice of its parameters can run on this GPU"
    return {path: f"{why}. {counts.most_common(1)[0][0]}" for path, counts in reasons.items()}


def _foremost_points(points: Sequence[Point]) -> list[Point]:
    """Return each variant's points with the lowest forecasts; what will hardly run comes last."""
    by_variant: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: (point.p_fail, point.mean)):
        by_variant.setdefault(point.variant, []).append(point)
    return [point for kept in by_variant.values() for point in kept[:_HELD]]
