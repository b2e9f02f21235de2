"""The best algorithm of a problem that was proven equal to its reference."""

from __future__ import annotations

from dataclasses import dataclass

from solkit.core.work import Work


@dataclass(frozen=True)
class PlanStudy:
    """A plan for a problem, on any device.

    Attributes:
        steps: the rewrites that it rests on; each holds for all values.
        code: it as Python, a function ``plan`` of the inputs at `places`; empty if there is none.
        places: where a call of the reference finds the inputs, e.g. ``"x"``, ``"self.fc.weight"``.
        checked: shapes of the inputs at which it equalled the reference, run in doubles.
        work: what it costs; ``None`` if there is no plan.
        reason: why there is none.
    """

    steps: tuple[str, ...] = ()
    code: str = ""
    places: tuple[str, ...] = ()
    checked: tuple[tuple[tuple[int, ...], ...], ...] = ()
    work: Work | None = None
    reason: str = ""


@dataclass(frozen=True)
class BestAlgorithm:
    """The least time of the best algorithm that was proven equal to the reference.

    It lies between the hard bound and the roofline; score and gap stay on the roofline.

    Attributes:
        time_ms: its roofline; that of the traced algorithm if there is no plan.
        roofline_ms: of the traced algorithm.
        limiter: its busiest resource; empty if there is no plan.
        steps: the rewrites that the plan rests on; each holds for all values.
        code: the plan as Python that runs, a function ``plan``; empty if there is none.
        places: where a call of the reference finds the function's inputs.
        checked: shapes of the inputs at which it equalled the reference, run in doubles.
        gain: `roofline_ms` over `time_ms`; 1 if there is no plan.
        plan: the steps in one line.
        note: why there is no plan, or that the hard bound was higher and gave way.
    """

    time_ms: float
    roofline_ms: float
    limiter: str = ""
    steps: tuple[str, ...] = ()
    code: str = ""
    places: tuple[str, ...] = ()
    checked: tuple[tuple[tuple[int, ...], ...], ...] = ()
    gain: float = 1.0
    plan: str = ""
    note: str = ""
