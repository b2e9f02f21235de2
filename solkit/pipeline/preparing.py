"""Knowledge of a Lab about candidates before they are measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Union

from solkit.analysis.study import StudyPlan, describe, study
from solkit.core import Bound, Configuration, Device, MeasureSettings, Value
from solkit.errors import InputError
from solkit.measure.outcomes import PreparedCandidate
from solkit.measure.timing import protocols
from solkit.pipeline.evaluation import Evaluation, Given, Text
from solkit.pipeline.measuring import configuration_of
from solkit.pipeline.source_files import Texts
from solkit.pipeline.studying import analyser_for
from solkit.roofline.cases import bound_of_case, unmeasured

Values = Mapping[str, Value]

Studied = tuple[Evaluation, Union[PreparedCandidate, None]]
"""Knowledge about a candidate, and the same for a bench; ``None`` if it is unusable."""


class Preparation:
    """Studies candidates for a device without a GPU, from any number of threads.

    Attributes:
        device: the target.
        analyser: reads, captures and compiles them.

    Raises:
        InputError: the protocol is unknown.
        UnsupportedError: this machine cannot run the sandbox.
    """

    def __init__(self, device: Device, settings: MeasureSettings) -> None:
        self.device, self._precision = device, settings.precision
        self._l2 = protocols.find_protocol(settings.protocol).l2
        self.analyser = analyser_for(device, settings)
        self._texts = Texts()

    def close(self) -> None:
        """End the processes that analyse and remove the files of texts."""
        try:
            self.analyser.close()
        finally:
            self._texts.close()

    def path(self, source: Text) -> str:
        """Return the file of a source: a path, or that of a text, which has more than one line."""
        return self._texts.path(source)

    def bound(self, problem: Text, shape: Values | None) -> Bound:
        """See `solkit.Lab.bound`."""
        path = self._texts.path(problem)
        plan = StudyPlan(path, None, [shape or self._first_shape(path)], analysing=False)
        (case,) = study(self.analyser, plan).cases
        return bound_of_case(case, self.device, self._precision, self._l2)

    def study_candidate(
        self,
        candidate: Given,
        problem: Text | None,
        shape: Values | None,
        params: Values | None,
        begun: set[Future[Any]],
    ) -> Studied:
        """Return the same as `analysed`, with the error of an unusable candidate in its evaluation.

        `begun` gets what is under way, so that another thread may cancel it.
        """
        try:
            pair = self.analysed(candidate, problem, shape, params, begun)
        except InputError as error:
            return Evaluation(candidate, error=error), None
        configuration, prospect = pair
        return Evaluation(candidate, configuration, prospect.result), prospect

    def _requested_configuration(
        self, candidate: Given, problem: Text | None, shape: Values | None, params: Values | None
    ) -> Configuration:
        """Return the requested configuration, with files for texts; the first shape by default."""
        if isinstance(candidate, Configuration):
            requested = candidate
        else:
            requested = Configuration(os.fspath(candidate), "kernel", chosen_by="search")
        path, reference = self._texts.path(requested.path), requested.reference or problem
        file = None if reference is None else self._texts.path(reference)
        return replace(
            requested,
            path=path,
            reference=file,
            shape=requested.shape or shape or self._first_shape(path, file),
            params=requested.params or params or {},
        )

    def _first_shape(self, path: str, reference: str | None = None) -> Values:
        return describe(self.analyser, path, reference).problem.shapes[0]

    def analysed(
        self,
        candidate: Given,
        problem: Text | None,
        shape: Values | None,
        params: Values | None,
        begun: set[Future[Any]] | None = None,
    ) -> tuple[Configuration, PreparedCandidate]:
        """Analyse a candidate; arguments as for `solkit.Lab.analyse`.

        Raises:
            InputError: a file, the shape or a parameter is invalid.
        """
        requested = self._requested_configuration(candidate, problem, shape, params)
        plan = StudyPlan(requested.path, requested.reference, [requested.shape], requested.params)
        studied = study(self.analyser, plan, begun)
        if studied.kernel.candidate is None:
            raise InputError(f"{requested.path} has no kernel")
        result = unmeasured(studied.cases[0], self.device, self._precision, self._l2)
        configuration = configuration_of(studied.kernel, result.shape, requested.params)
        named = replace(configuration, chosen_by=requested.chosen_by)
        return named, PreparedCandidate(studied.kernel, result)
