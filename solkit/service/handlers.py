"""Doing what a request asks for, in a worker process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from solkit import pipeline
from solkit.analysis.study import describe
from solkit.analysis.study import study as study_of
from solkit.core import (
    Comparison,
    ComparisonReport,
    Configuration,
    EvolveStatus,
    FailedShape,
    Report,
    Result,
    TuneSettings,
    TuneStatus,
    Value,
)
from solkit.core import EvolveSettings as EvolvingSettings
from solkit.core.codec import to_json
from solkit.errors import InputError, NotRecordedError, UnsupportedError
from solkit.measure.benches import RecordedBench
from solkit.pipeline.environment import environment
from solkit.pipeline.evaluation import Evaluation
from solkit.pipeline.evolving import EvolveParts, evolve
from solkit.pipeline.lab import Lab
from solkit.pipeline.shipped_surrogate import shared_model
from solkit.pipeline.source_files import Texts
from solkit.pipeline.studying import analyser_for, plan_study
from solkit.pipeline.target import target_device
from solkit.pipeline.tuning import tune
from solkit.profiling import profile
from solkit.report import bounds as bounds_page
from solkit.report import comparison as comparison_page
from solkit.report import evolution as evolution_page
from solkit.report import profile as profile_page
from solkit.report import ranking as ranking_page
from solkit.report import schema
from solkit.report import tuning as tuning_page
from solkit.report.advice import advise
from solkit.roofline.cases import unmeasured
from solkit.service import requests
from solkit.service.requests import KINDS
from solkit.service.sessions import LabSessions, measure_settings
from solkit.service.settings import QueueSettings
from solkit.service.store import Point
from solkit.surrogate.ranking import RankSettings, Request, rank
from solkit.tuner.head_to_head import head_to_head

Tell = Callable[[str, Point | None], None]
"""Receives how far a job is, in words and numbers; raises if nobody wants it any more."""

Settings = Mapping[str, Value]

_COLD = "cold"  # L2, for the bound


@dataclass
class _Job:
    """One request on its way: the names of its private files, and whom to tell."""

    owner: str
    tell: Tell
    names: dict[str, str] = field(default_factory=dict)

    def show(self, line: str, status: TuneStatus | EvolveStatus) -> None:
        """Tell how far a search is."""
        sol_ms = None
        if status.best_ms is not None and status.gap:
            sol_ms = status.best_ms / status.gap
        self.tell(line, Point(status.gpu_s, status.budget_s, status.best_ms, sol_ms))

    def named(self, text: str) -> str:
        """Remove private paths from a text."""
        for path, name in self.names.items():
            text = text.replace(path, name).replace(Path(path).name, name)
            text = text.replace(Path(path).stem, Path(name).stem)
        return text


class JobHandlers:
    """Does what requests ask for; any number of threads may use it.

    Args:
        how: the worker's queue.
    """

    def __init__(self, how: QueueSettings) -> None:
        self._how = how
        self._labs, self._texts = LabSessions(how), Texts()
        self._doing: dict[str, Callable[[Any, _Job], str]] = {
            "bound": self._handle_bound,
            "analyse": self._handle_analyse,
            "score": self._handle_score,
            "rank": self._handle_rank,
            "compare": self._handle_compare,
            "evaluate": self._handle_evaluate,
            "tune": self._handle_tune,
            "evolve": self._handle_evolve,
            "profile": self._handle_profile,
        }

    def close(self) -> None:
        """End all processes."""
        self._labs.close()
        self._texts.close()

    def perform(self, kind: str, request: str, owner: str, tell: Tell) -> str:
        """Return the answer to a request, as JSON.

        Args:
            kind: of `solkit.service.requests.KINDS`.
            request: as JSON.
            owner: who asks.
            tell: receives how far it is.

        Raises:
            SolkitError: the input is at fault, or SolKit failed; without private paths.
        """
        ask = KINDS[kind].model_validate_json(request)
        job = _Job(owner, tell)
        try:
            return _compact_json(job.named(self._doing[kind](ask, job)))
        except InputError as error:
            if not job.names or job.named(str(error)) == str(error):
                raise
            raise InputError(job.named(str(error))) from error

    # ---------------------------------------------------------------------------- without a GPU

    def _handle_bound(self, ask: requests.Bound, job: _Job) -> str:
        path = self._text_path(ask.problem, "problem.py", job)
        to = target_device(ask.device or self._how.device)
        plan = plan_study(path, None, ask.shapes, analysing=False, groups="")
        with analyser_for(to, measure_settings(self._how)) as analyser:
            study = study_of(analyser, plan)
        results = tuple(unmeasured(case, to, ask.precision, _COLD) for case in study.cases)
        return bounds_page.dumps(Report(environment(), study.kernel, to, results, study.failed))

    def _handle_analyse(self, ask: requests.Analyse, job: _Job) -> str:
        path, reference = self._request_files(ask, job)
        report = pipeline.score(
            path,
            device=ask.device or self._how.device,
            reference=reference,
            shapes=ask.shapes,
            params=ask.params,
            settings=replace(measure_settings(self._how), on=None),
            measure=False,
        )
        return _report_json(report)

    def _handle_rank(self, ask: requests.Rank, job: _Job) -> str:
        problem = None if ask.problem is None else self._text_path(ask.problem, "problem.py", job)
        paths = [
            self._text_path(candidate.source, f"candidates[{at}].py", job)
            for at, candidate in enumerate(ask.candidates)
        ]
        points: dict[str, list[Settings]] = {}
        for path, candidate in zip(paths, ask.candidates, strict=True):
            points.setdefault(path, []).append(candidate.params)
        how = RankSettings(ask.depth, everything=not ask.whole_spaces, explained=3)
        to = target_device(ask.device or self._how.device)
        with analyser_for(to, measure_settings(self._how)) as analyser:
            file = describe(analyser, paths[0], problem)
            request = Request(
                list(points),
                problem,
                [ask.shape or file.problem.shapes[0]],
                None if ask.whole_spaces else points,
                ask.budget,
                how,
            )
            (plan,) = rank(request, analyser, shared_model())
        plan = replace(plan, ranked=plan.ranked[: ask.most])
        return ranking_page.dumps([plan])

    # ------------------------------------------------------------------------------- in a Lab

    def _handle_score(self, ask: requests.Score, job: _Job) -> str:
        path, reference = self._request_files(ask, job)
        with self._labs.of(ask.problem or ask.source) as bench:
            lab = bench.lab
            file = lab._prepared.analyser.describe(path, reference).result()
            if file.candidate is None:
                raise InputError(f"{path} holds no kernel")
            params = {**file.candidate.params, **ask.params}
            shapes = file.problem.shapes if ask.shapes is None else ask.shapes
            configurations = [
                Configuration(path, file.candidate.name, shape, params, reference, "default")
                for shape in shapes
            ]
            results, failed = _results_by_shape(configurations, lab)
        return _report_json(Report(environment(), file, lab.device, results, failed))

    def _handle_evaluate(self, ask: requests.Evaluate, job: _Job) -> str:
        with self._labs.of(ask.problem) as bench:
            evaluator = bench.evaluator(ask, job.owner)
            candidates = [_requested_candidate(candidate) for candidate in ask.candidates]
            document: dict[str, Any] = {
                "schema": "solkit.evaluate/1",
                "device": bench.lab.device.key,
            }
            if ask.reward:
                document["rewards"] = [
                    to_json(reward, complete=True) for reward in evaluator.reward(candidates)
                ]
            else:
                stages = {"1": evaluator.stage1, "2": evaluator.stage2}
                if ask.stage in stages:
                    grades = [stages[ask.stage](candidate) for candidate in candidates]
                else:
                    grades = evaluator.evaluate_all(candidates, ask.most)
                document["results"] = [to_json(grade, complete=True) for grade in grades]
            document |= {"best_ms": evaluator.best_ms, "gpu_s": evaluator.spent_s}
        return json.dumps(document, allow_nan=False)

    def _handle_compare(self, ask: requests.Compare, job: _Job) -> str:
        problem = ask.problem or ask.base.source
        if self._how.recorded is None:
            return self._compare_on_gpu(ask, job)
        with self._labs.of(problem) as bench:
            assert bench.recording is not None
            report = self._compared_in(ask, job, bench.lab, bench.recording.bench)
        return comparison_page.dumps(report)

    def _compare_on_gpu(self, ask: requests.Compare, job: _Job) -> str:
        """Compare on this machine's GPU, which no Lab holds meanwhile."""
        paths = self._rival_paths(ask, job)
        reference = None if ask.problem is None else self._text_path(ask.problem, "problem.py", job)
        params = [dict(candidate.params) for candidate in ask.candidates]
        if any(settings != params[0] for settings in params):
            raise InputError("candidates: on a GPU they share their params; got several")
        with self._labs.without():
            report = pipeline.compare(
                *paths,
                device=self._how.device,
                reference=reference,
                shapes=None if ask.shape is None else [ask.shape],
                base_params=ask.base.params,
                params=params[0],
                settings=measure_settings(self._how),
            )
        return comparison_page.dumps(report)

    def _compared_in(
        self, ask: requests.Compare, job: _Job, lab: Lab, recorded: RecordedBench
    ) -> ComparisonReport:
        """Compare in a recording."""
        paths = self._rival_paths(ask, job)
        reference = None if ask.problem is None else self._text_path(ask.problem, "problem.py", job)
        describe = lab._prepared.analyser.describe
        files = [describe(path, reference or paths[0]).result() for path in paths]
        shape = ask.shape or files[0].problem.shapes[0]
        configurations = []
        for path, file, candidate in zip(paths, files, (ask.base, *ask.candidates), strict=True):
            if file.candidate is None:
                raise InputError(f"{path} holds no kernel")
            params = {**file.candidate.params, **candidate.params}
            other = reference or paths[0]
            configurations.append(
                Configuration(path, file.candidate.name, shape, params, other, "default")
            )
        results = [_measure_candidate(configuration, lab) for configuration in configurations]
        fresh = RecordedBench(recorded.recording)
        finals = [
            head_to_head(fresh, configurations[0], rival, how="recorded")
            for rival in configurations[1:]
        ]
        comparisons = tuple(
            Comparison(
                file,
                results[0],
                result,
                final.difference,
                final.ratio,
                None if results[0].measurement is None else results[0].measurement.median_ms,
                None if result.measurement is None else result.measurement.median_ms,
                errors=final.evidence,
            )
            for file, result, final in zip(files[1:], results[1:], finals, strict=True)
        )
        return ComparisonReport(environment(), files[0], tuple(files[1:]), lab.device, comparisons)

    # -------------------------------------------------------------------------------- searches

    def _handle_tune(self, ask: requests.Tune, job: _Job) -> str:
        path, reference = self._request_files(ask, job)
        bench = self._replay_bench(ask.problem or ask.source)
        log = None if bench is not None else self._how.log
        settings = TuneSettings(seed=ask.seed, params=ask.params, on=self._how.on, log=log)
        with self._hold_gpu(bench):
            tuned = tune(
                path,
                gpu_seconds=ask.gpu_seconds,
                device=None if bench is not None else self._how.device,
                reference=reference,
                shape=ask.shape,
                bench=bench,
                settings=settings,
                show=lambda status: job.show(tuning_page.status_line(status), status),
            )
        return tuning_page.dumps(tuned)

    def _handle_evolve(self, ask: requests.Evolve, job: _Job) -> str:
        path, reference = self._request_files(ask, job)
        bench = self._replay_bench(ask.problem or ask.source)
        log = None if bench is not None else self._how.log
        settings = EvolvingSettings(seed=ask.seed, params=ask.params, on=self._how.on, log=log)
        parts = EvolveParts(
            advise=advise,
            surrogate=shared_model(),
            show=lambda status: job.show(evolution_page.status_line(status), status),
        )
        with self._hold_gpu(bench):
            evolved = evolve(
                path,
                gpu_seconds=ask.gpu_seconds,
                device=None if bench is not None else self._how.device,
                reference=reference,
                shape=ask.shape,
                bench=bench,
                settings=settings,
                parts=parts,
            )
        return evolution_page.dumps(evolved)

    def _handle_profile(self, ask: requests.Profile, _: _Job) -> str:
        runs = ask.path.endswith(".py")  # on the GPU
        with self._labs.without() if runs else contextlib.nullcontext():
            return profile_page.dumps(profile(ask.path, ask.arguments, device=ask.device))

    def _replay_bench(self, problem: str) -> RecordedBench | None:
        """Return the recording of a problem for one search alone; ``None`` on a GPU.

        Raises:
            InputError: it has no rows of it.
            UnsupportedError: a search runs candidates outside the sandbox that was asked for.
        """
        if self._how.sandbox:
            raise UnsupportedError("tune and evolve are not offered by a service with --sandbox")
        if self._how.recorded is None:
            return None
        with self._labs.of(problem) as bench:
            assert bench.recording is not None
            return RecordedBench(bench.recording.bench.recording)

    def _hold_gpu(self, bench: RecordedBench | None) -> contextlib.AbstractContextManager[None]:
        """Return a search on a GPU has it to itself."""
        return self._labs.without() if bench is None else contextlib.nullcontext()

    # ----------------------------------------------------------------------------------- files

    def _text_path(self, text: str, name: str, job: _Job) -> str:
        """Return the file of a text."""
        path = self._texts.path(text)
        if path != text:
            job.names.setdefault(path, name)
        return path

    def _request_files(self, ask: Any, job: _Job) -> tuple[str, str | None]:
        path = self._text_path(ask.source, "candidate.py", job)
        reference = None if ask.problem is None else self._text_path(ask.problem, "problem.py", job)
        return path, None if reference == path else reference

    def _rival_paths(self, ask: requests.Compare, job: _Job) -> list[str]:
        base = self._text_path(ask.base.source, "base.py", job)
        others = [
            self._text_path(candidate.source, f"candidates[{at}].py", job)
            for at, candidate in enumerate(ask.candidates)
        ]
        return [base, *others]


def _compact_json(text: str) -> str:
    """JSON without its indents."""
    return json.dumps(json.loads(text), separators=(",", ":"))


def _requested_candidate(candidate: requests.Candidate) -> str | Configuration:
    if not candidate.params:
        return candidate.source
    return Configuration(candidate.source, "kernel", params=candidate.params, chosen_by="search")


def _results_by_shape(
    configurations: Sequence[Configuration], lab: Lab
) -> tuple[tuple[Result, ...], tuple[FailedShape, ...]]:
    """Return results in the order of the shapes, and the shapes that could not be measured."""
    by_place = {id(configuration): place for place, configuration in enumerate(configurations)}
    evaluations: dict[int, Evaluation] = {}
    for evaluation in lab.evaluate_all(configurations):
        evaluations[by_place[id(evaluation.candidate)]] = evaluation
    results, failed = [], []
    for place, configuration in enumerate(configurations):
        answer = evaluations[place]
        if answer.result is not None:
            results.append(answer.result)
        if answer.error is not None:
            failed.append(FailedShape(configuration.shape, str(answer.error)))
    if not results:
        raise InputError(failed[0].error)
    return tuple(results), tuple(failed)


def _measure_candidate(configuration: Configuration, lab: Lab) -> Result:
    evaluation = lab.evaluate(configuration)
    if isinstance(evaluation.error, NotRecordedError) or evaluation.result is None:
        raise InputError(str(evaluation.error))
    return evaluation.result


def _report_json(report: Report) -> str:
    """Return a report without the sources: who asks has them."""
    return schema.text_of(schema.to_model(report).model_copy(update={"sources": []}), None)
