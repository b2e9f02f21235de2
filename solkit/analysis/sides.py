"""Studies of the same candidates on two sides: by compiler, device, revision or parameters.

Each side has an `Analyser` of its own, so its compiler runs in processes of its own. Where only the
compiler or the parameters differ, the problem is traced once.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, candidate_case, note_begun, study
from solkit.core import Case, Configuration, Side, Study, Value
from solkit.errors import InputError


@dataclass(frozen=True)
class Place:
    """A side with what studies it.

    Attributes:
        side: what sets it apart.
        analyser: of its compiler and device.
        root: the folder of the files as they are, and its copy at the side's revision; ``None`` for
            the files as they are.
    """

    side: Side
    analyser: Analyser
    root: tuple[Path, Path] | None = None

    def located(self, path: str | None) -> str | None:
        """Return where a file is on this side.

        Raises:
            InputError: the revision lacks it, or it is in another repository.
        """
        if path is None or self.root is None:
            return path
        here, there = self.root
        file = Path(path).resolve()
        if not file.is_relative_to(here):
            raise InputError(f"{path} is not in {here}, the repository that --rev is of")
        copy = there / file.relative_to(here)
        if not copy.exists():
            raise InputError(f"{path} is not in revision {self.side.revision}")
        return str(copy)


def study_first(place: Place, plan: StudyPlan, begun: set[Future[Any]]) -> Study:
    """Study a kernel file on a side, its problem too; see `solkit.analysis.study.study`."""
    return study(place.analyser, _moved(place, plan), begun)


def study_again(place: Place, plan: StudyPlan, studied: Study, begun: set[Future[Any]]) -> Study:
    """Analyse the candidate of a study again, at the same shapes; the problem is taken over.

    Args:
        place: the other side.
        plan: of the study, with this side's parameters.
        studied: on the first side.
        begun: gets what is under way, so that another thread may cancel it.

    Raises:
        InputError: a parameter is at fault.
    """
    plan = _moved(place, plan)
    configurations = [_configuration(plan, studied, case.shape) for case in studied.cases]
    futures = [
        note_begun(place.analyser.submit(configuration), begun) for configuration in configurations
    ]
    cases: list[Case] = [
        candidate_case(case, future, plan.params, studied.kernel)
        for case, future in zip(studied.cases, futures, strict=True)
    ]
    return replace(studied, cases=tuple(cases))


def _moved(place: Place, plan: StudyPlan) -> StudyPlan:
    """Return the plan with this side's files and parameters."""
    path = place.located(plan.path)
    assert path is not None
    params = {**plan.params, **place.side.params}
    return replace(plan, path=path, reference=place.located(plan.reference), params=params)


def _configuration(plan: StudyPlan, studied: Study, shape: Mapping[str, Value]) -> Configuration:
    candidate = studied.kernel.candidate
    name = candidate.name if candidate else ""
    return Configuration(plan.path, name, shape, plan.params, plan.reference)
