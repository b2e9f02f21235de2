"""Inputs of a search over variants of a kernel, and its results."""

from __future__ import annotations

import enum
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from solkit.core.batch import HeldOut
from solkit.core.facts import Depth
from solkit.core.measurement import Verdict
from solkit.core.proposals import Checked
from solkit.core.reports import Ratio
from solkit.core.tuning import Final, Stopped, TimedParams, TuneProgress, TuneVerdict
from solkit.core.values import Value
from solkit.errors import InputError


class Order(str, enum.Enum):
    """Order in which candidates are measured."""

    SURROGATE = "surrogate"
    """Order by what the surrogate expects, and what was measured since."""
    RANDOM = "random"
    """Random order: what the surrogate is compared with."""


_Word = TypeVar("_Word", bound=enum.Enum)


def _require_choice(kind: type[_Word], value: object, name: str) -> _Word:
    try:
        return kind(value)
    except ValueError:
        valid = ", ".join(str(member.value) for member in kind)
        raise InputError(f"{name} is {value!r}; expected one of: {valid}") from None


@dataclass(frozen=True)
class EvolveSettings:
    """Settings of a search over variants of a kernel.

    Attributes:
        stop_at: the share of the speed of light that is enough, 0 to 1; above 1 it never is.
        least_gain: the search proposes more when the next measurement is expected to save less than
            this share of the best time; it ends if also a candidate that saves over
            `solkit.core.BETTER` is unlikely.
        seed: of all that is drawn.
        order: in which order candidates are measured.
        depth: the deepest that a candidate is analysed before it is measured.
        proposals: variants of one parent that go into a round, at the most.
        params: the parameters in use, to override the file's own.
        custom_kernel: whether a variant that only calls PyTorch is refused.
        compiled: whether what `torch.compile` makes of the reference becomes variants, too.
        held_out: shapes for the gate; those of the file by default, none if it is empty.
        log: the file that outcomes are appended to; ``None`` is this month's in the user's data
            folder.
        resume: whether to go on with the run that `log` holds.
        on: the GPU of this machine, e.g. ``"cuda:1"``.

    Raises:
        InputError: a value is out of its range; or a run is to be resumed and no log is named.
    """

    stop_at: float = 0.95
    least_gain: float = 0.005
    seed: int = 0
    order: Order | str = Order.SURROGATE
    depth: Depth | str = Depth.COMPILED
    proposals: int = 8
    params: Mapping[str, Value] = field(default_factory=dict)
    custom_kernel: bool = False
    compiled: bool = True
    held_out: Sequence[Mapping[str, Value]] | None = None
    log: str | os.PathLike[str] | None = None
    resume: bool = False
    on: str | None = None

    def __post_init__(self) -> None:
        if not self.stop_at > 0:
            raise InputError(f"stop_at is {self.stop_at!r}; expected a share of the speed of light")
        if not 0 <= self.least_gain < 1:
            raise InputError(f"least_gain is {self.least_gain!r}; expected a share, 0 to 1")
        object.__setattr__(self, "order", _require_choice(Order, self.order, "order"))
        object.__setattr__(self, "depth", _require_choice(Depth, self.depth, "depth"))
        if self.proposals < 1:
            raise InputError(f"proposals is {self.proposals!r}; expected 1 or more")
        if self.resume and self.log is None:
            raise InputError("resume: name the log of the run to go on with")


def variant_id(source: str) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a file's text."""
    return hashlib.sha256(source.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Variant:
    """A kernel file of a search: the original, or what a proposer made of another.

    Attributes:
        id: `variant_id` of its text.
        source: its text.
        parent: the id of the variant that it was made from; ``None`` for the original.
        kind, intent, checked, why: as in `solkit.core.Proposal`.
        proposer: who wrote it: ``"rewriter"``, or a model's name.
    """

    id: str
    source: str
    parent: str | None = None
    kind: str = "original"
    intent: str = ""
    proposer: str = ""
    checked: Checked = Checked.UNCHECKED
    why: str = ""


@dataclass(frozen=True)
class Bred:
    """Outcome of a variant.

    Attributes:
        variant: the file.
        verdict: of its best measurement; ``NOT_MEASURED`` if it has none.
        params: those of its best measurement, or of its best forecast.
        time_ms: its best time; ``None`` if it was not timed, or the time does not count.
        gap: that time over the speed of light.
        forecast_ms: its best forecast before anything of it was measured.
        measured: how many of its configurations were measured.
        behaviour: what analysis says of it; the archive keeps the best of each.
        why: why it failed, or was not measured; a sentence.
    """

    variant: Variant
    verdict: Verdict = Verdict.NOT_MEASURED
    params: Mapping[str, Value] = field(default_factory=dict)
    time_ms: float | None = None
    gap: float | None = None
    forecast_ms: float | None = None
    measured: int = 0
    behaviour: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class EvolveStatus:
    """Progress of a search.

    Attributes:
        stage: ``"original"``, ``"proposing"``, ``"ranking"``, ``"checking"``, ``"measuring"``,
            ``"practice"`` or ``"gate"``.
        gpu_s, budget_s: seconds spent of the budget.
        proposed, measured, failed: variants proposed, configurations measured, and failed ones.
        best_ms: the best time; ``None`` before that.
        gap: the best time over the speed of light; ``None`` if either is unknown.
        best_kind: the kind of the best variant.
    """

    stage: str
    gpu_s: float = 0.0
    budget_s: float = 0.0
    proposed: int = 0
    measured: int = 0
    failed: int = 0
    best_ms: float | None = None
    gap: float | None = None
    best_kind: str = ""


@dataclass(frozen=True)
class Practised:
    """A finalist beside the original at a practice shape.

    Attributes:
        shape: every size.
        verdict: of the finalist there.
        ratio: its time over the original's; ``None`` if it failed.
    """

    shape: Mapping[str, Value]
    verdict: Verdict
    ratio: float | None

    @property
    def loss(self) -> float:
        """The ratio; without bound if it failed."""
        return math.inf if self.ratio is None else self.ratio


@dataclass(frozen=True)
class Finalist:
    """A variant that might have met the original at the gate.

    Attributes:
        id: the variant's.
        params, time_ms: its best in the search.
        practised: what it did at practice shapes, up to the first at which it was slower than the
            original, or at all if it leaves such shapes to it; empty if none could be measured.
        taken: whether it was chosen for the gate. A file that leaves sizes to the original has an
            id of its own, and the finalist's as its parent.
    """

    id: str
    params: Mapping[str, Value]
    time_ms: float
    practised: tuple[Practised, ...] = ()
    taken: bool = False

    @property
    def loss(self) -> float:
        """The largest ratio that was found; 0 if none was."""
        return max((trial.loss for trial in self.practised), default=0.0)


@dataclass(frozen=True)
class Gate:
    """Test of the winner where the search never looked.

    Attributes:
        passed: whether it does.
        final: winner and original at the shape of the search, on fresh inputs in new processes.
        held_out: the same at shapes that the search never saw.
        single_shape: whether no other shape is held out, so that fresh inputs are all there is.
        why: what decided, a sentence.
    """

    passed: bool
    final: Final | None
    held_out: tuple[HeldOut, ...] = ()
    single_shape: bool = False
    why: str = ""

    @property
    def ratio(self) -> Ratio | None:
        """The winner's time over the original's at the shape of the search."""
        return None if self.final is None else self.final.ratio


@dataclass(frozen=True)
class Evolved:
    """Results of a search over variants of a kernel.

    Attributes:
        kernel: the original's file.
        problem_id: as in `solkit.core.Outcome`.
        shape: every size.
        device: the GPU, by its key in the catalogue.
        sol_ms: the speed of light of the problem; ``None`` if it has no bound.
        original: the original with the parameters in use.
        best: the winner's id; the original's if nothing passed the gate.
        best_params: its parameters and time in the search.
        verdict: whether to replace what is in use.
        gate: ``None`` if nothing seemed faster, or the gate was interrupted.
        variants: everything that was proposed, oldest first; the first is the original.
        rounds: how often proposals were asked for.
        measured, failed: configurations that were measured; those of them that failed.
        gpu_s: GPU seconds of the search and the practice.
        stopped: why the search ended.
        trajectory: how the best time fell.
        cost: money that proposers spent, in the currency of the prices given.
        log: the file that holds each outcome; ``None`` for a recording.
        out: the winner's file, if it was written.
        notes: what limits this result, each a sentence.
        environment: versions by name.
        finalists: those that were tried at practice shapes; empty if there was nothing to choose.
        better_chance: the chance that a candidate that was ranked and not measured saves over
            `solkit.core.BETTER` of the best time; ``None`` if unknown.
    """

    kernel: str
    problem_id: str
    shape: Mapping[str, Value]
    device: str
    sol_ms: float | None
    original: TimedParams
    best: str
    best_params: TimedParams
    verdict: TuneVerdict
    gate: Gate | None
    variants: tuple[Bred, ...]
    rounds: int
    measured: int
    failed: int
    gpu_s: float
    stopped: Stopped
    trajectory: tuple[TuneProgress, ...] = ()
    cost: float = 0.0
    log: str | None = None
    out: str | None = None
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)
    finalists: tuple[Finalist, ...] = ()
    better_chance: float | None = None

    def variant(self, name: str) -> Bred:
        """Return the variant with an id.

        Raises:
            KeyError: there is none.
        """
        for bred in self.variants:
            if bred.variant.id == name:
                return bred
        raise KeyError(name)

    @property
    def winner(self) -> Bred:
        """The variant to use."""
        return self.variant(self.best)
