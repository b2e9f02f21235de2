"""Results of tuning one kernel at one shape."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.reports import Difference, Ratio
from solkit.core.values import Value
from solkit.errors import InputError

BETTER = 0.02
"""Share of the best time: a search ends if a configuration that saves more is unlikely."""

FINALS = ("guarded", "turns")
"""Ways to run a head-to-head on this machine's GPU."""


@dataclass(frozen=True)
class TuneSettings:
    """Settings for tuning one kernel.

    Attributes:
        stop_at: the share of the speed of light that is enough, 0 to 1; above 1 it never is.
        least_gain: the search ends when the next measurement is expected to save less than this
            share of the best time, and a configuration that saves over `BETTER` is unlikely; 0:
            never.
        seed: of the search.
        params: the parameters in use, to override the file's own.
        varied: names of the parameters that may vary, others stay as in use; ``None`` for all.
        prior: whether candidates are ranked without the GPU before the first measurement.
        log: the file that outcomes are appended to; ``None`` is this month's in the user's data
            folder.
        resume: whether to go on with the run that `log` holds: what it measured counts, and what
            it spent of the budget.
        on: the GPU of this machine, e.g. ``"cuda:1"``.
        workers: processes that compile; 0 for all cores except one.
        gpus: several GPUs of this machine: ``"all"``, a number, or ``"cuda:0,cuda:1"``.
        ray: GPUs of a Ray cluster: its head's ``host:port``, or ``"auto"``.
        database: a tuning database, whose results warm the search and which gets this run's: a
            folder, or a server's URL.
        final: how the head-to-head is run on this machine's GPU: one of `FINALS`; see `Final.how`.
        choices: files with configurations that another tool chose, for another GPU, version or
            shape (vLLM's, SGLang's): the nearest ones are measured right after the one in use.
        names: by the name of a size or parameter in these files, the kernel's.

    Raises:
        InputError: a value is out of its range; or a run is to be resumed and no log is named.
    """

    stop_at: float = 0.95
    least_gain: float = 1e-4
    seed: int = 0
    params: Mapping[str, Value] = field(default_factory=dict)
    prior: bool = True
    log: str | os.PathLike[str] | None = None
    resume: bool = False
    on: str | None = None
    workers: int = 0
    final: str = "guarded"
    gpus: str | None = None
    ray: str | None = None
    database: str | os.PathLike[str] | None = None
    choices: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    varied: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.final not in FINALS:
            valid = ", ".join(FINALS)
            raise InputError(f"final is {self.final!r}; expected one of: {valid}")
        if not self.stop_at > 0:
            raise InputError(f"stop_at is {self.stop_at!r}; expected a share of the speed of light")
        if not 0 <= self.least_gain < 1:
            raise InputError(f"least_gain is {self.least_gain!r}; expected a share, 0 to 1")
        places = {"on": self.on, "gpus": self.gpus, "ray": self.ray}
        if len(named := [name for name, place in places.items() if place is not None]) > 1:
            raise InputError(f"{' and '.join(named)} name GPUs in different ways: give one of them")
        if self.resume and self.log is None:
            raise InputError("resume: name the log of the run to go on with")


@dataclass(frozen=True)
class TuneStatus:
    """Progress of a tuning run.

    Attributes:
        stage: ``"ranking"``, ``"searching"`` or ``"final"``.
        gpu_s, budget_s: seconds spent of the budget.
        measured, failed: configurations so far.
        best_ms: the best time; ``None`` before that.
        gap: the best time over the speed of light; ``None`` if either is unknown.
        expected_gain: what the next measurement is expected to save, as a share of the best time;
            ``None`` if unknown.
    """

    stage: str
    gpu_s: float = 0.0
    budget_s: float = 0.0
    measured: int = 0
    failed: int = 0
    best_ms: float | None = None
    gap: float | None = None
    expected_gain: float | None = None


class TuneVerdict(str, enum.Enum):
    """Verdict on the configuration in use."""

    FASTER = "faster"
    """Replace it: the final shows that the best configuration is faster."""
    KEEP = "keep"
    """Keep what you have: nothing was shown to be faster."""


class Stopped(str, enum.Enum):
    """Reason for the end of a search."""

    SPEED_OF_LIGHT = "speed_of_light"
    """The best is as near to the speed of light as was asked for."""
    EXPECTED_GAIN = "expected_gain"
    """The next measurement is expected to save less than is worth a measurement, and a clearly
    faster configuration is unlikely."""
    EXHAUSTED = "exhausted"
    """Nothing is left to measure."""
    NOTHING_RUNS = "nothing_runs"
    """One configuration after the other could not be measured, without being at fault."""
    FAILS_ALIKE = "fails_alike"
    """Every configuration fails for one reason, which parameters do not change."""
    SMALL_SHARE = "small_share"
    """It could save too little of the time of all kernels that are tuned together."""
    BUDGET = "budget"
    """The GPU seconds are spent."""
    INTERRUPTED = "interrupted"
    """Ctrl-C."""


@dataclass(frozen=True)
class TimedParams:
    """A configuration with its time in the search.

    Attributes:
        params: its tuning parameters.
        time_ms: median time of a call; ``None`` if it failed.
        low_ms, high_ms: 95 % interval of that median; ``None`` if it is not known.
        message: why it failed.
    """

    params: Mapping[str, Value]
    time_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class Final:
    """The head-to-head of the best configuration with the one in use.

    Attributes:
        params: the challenger's.
        difference: what the ratio shows.
        ratio: the challenger's time over that of the one in use; ``None`` if not compared.
        how: ``"guarded"``: each in a new process, on inputs drawn anew before each call;
            ``"turns"``: in turns in a new process, on other inputs than the search's;
            ``"recorded"``: on the times of a recording.
        evidence: what limits it, each a sentence.
    """

    params: Mapping[str, Value]
    difference: Difference
    ratio: Ratio | None
    how: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class TuneProgress:
    """The best time after so many GPU seconds."""

    gpu_s: float
    best_ms: float


@dataclass(frozen=True)
class Tuned:
    """Result of tuning one kernel at one shape.

    Attributes:
        kernel: the kernel file, or the recorded kernel's name.
        kernel_id, problem_id: as in `solkit.core.Outcome`.
        shape: every size.
        device: the GPU, by its key in the catalogue.
        sol_ms: the speed of light of the problem; ``None`` if it has no bound.
        default: the configuration in use.
        best: the fastest one; the default's if nothing was faster; ``None`` if nothing ran.
        verdict: whether to replace the one in use.
        final: the head-to-head; ``None`` if there was none: nothing seemed faster, the one in use
            fails, or it was interrupted.
        measured: different configurations that were measured, failed ones included.
        failed: those of them that failed.
        gpu_s: GPU seconds of the search, earlier ones of a resumed run included.
        final_s: seconds of the head-to-head.
        stopped: why the search ended.
        trajectory: how the best time fell.
        expected_gain: what the next measurement was expected to save, as a share of the best time;
            ``None`` if unknown.
        equals: configurations that are as fast as the best, as far as was measured: their intervals
            meet that of the fastest.
        better_chance: the chance that a configuration is left that saves over `BETTER` of the best
            time; ``None`` if unknown.
        log: the file that holds each outcome; ``None`` for a recording.
        notes: what limits this result, each a sentence.
        environment: versions by name.
        launched, l2: as in `solkit.core.Outcome`, of the configuration in use; ``None`` if unknown.
    """

    kernel: str
    kernel_id: str
    problem_id: str
    shape: Mapping[str, Value]
    device: str
    sol_ms: float | None
    default: TimedParams
    best: TimedParams | None
    verdict: TuneVerdict
    final: Final | None
    measured: int
    failed: int
    gpu_s: float
    final_s: float
    stopped: Stopped
    trajectory: tuple[TuneProgress, ...] = ()
    expected_gain: float | None = None
    better_chance: float | None = None
    equals: tuple[TimedParams, ...] = ()
    log: str | None = None
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    launched: str | None = None
    l2: str | None = None

    @property
    def params(self) -> Mapping[str, Value]:
        """The parameters to use: the best ones if they are faster, else those in use."""
        if self.verdict is TuneVerdict.FASTER and self.best is not None:
            return self.best.params
        return self.default.params

    @property
    def speedup(self) -> float | None:
        """The time of the one in use over the best one's, in the final; ``None`` without one."""
        return (
            None if self.final is None or self.final.ratio is None else 1 / self.final.ratio.value
        )
