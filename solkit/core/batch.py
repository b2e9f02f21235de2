"""Results of tuning many kernels under one budget."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.reports import Difference, Ratio
from solkit.core.tuned import TunedFolder
from solkit.core.tuning import Tuned, TuneVerdict
from solkit.core.values import Value
from solkit.errors import InputError


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a batch.

    Attributes:
        log: the file that outcomes are appended to; ``None`` is this month's in the user's data
            folder, or none for a recording.
        resume: whether to go on with the run that `log` holds: what it measured counts, and what
            it spent of the budget.
        database: the tuning database that gets the results and warms the search; ``None`` is the
            user's own, or none for a recording.
        use_database: whether there is one at all.
        seed: of the searches.
        prior: whether candidates are ranked without the GPU before the first measurement.
        stop_at: as in the manifest, which it overrides.
        on: the GPU of this machine, e.g. ``"cuda:1"``.
        gpus: several GPUs of this machine: ``"all"``, a number, or places.
        ray: a Ray cluster: ``"auto"``, or its address.
        workers: processes that compile; 0 for all cores except one.
        emit_to: the folder for what the manifest emits; beside the manifest by default.
        extended: a tuned folder's content: programs that it knows are left out of a recording, and
            the tuned folder that is written has its entries, too, and those that came meanwhile.
        least_gain: as for `TuneSettings`.
        least_share: the share of all kernels' time in use, 0 to 1, that a kernel must be able to
            save: others end once all kernels in use are timed, which comes first then.

    Raises:
        InputError: a run is to be resumed and no log is named, or both `gpus` and `ray` are given.
    """

    log: str | os.PathLike[str] | None = None
    resume: bool = False
    database: str | os.PathLike[str] | None = None
    use_database: bool = True
    seed: int = 0
    prior: bool = True
    stop_at: float | None = None
    on: str | None = None
    gpus: str | None = None
    ray: str | None = None
    workers: int = 0
    emit_to: str | os.PathLike[str] | None = None
    extended: TunedFolder | None = None
    least_gain: float = 1e-4
    least_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.least_share < 1:
            raise InputError(f"least_share is {self.least_share!r}; expected a share, 0 to 1")
        if self.resume and self.log is None:
            raise InputError("resume: name the log of the run to go on with")
        if self.gpus and self.ray:
            raise InputError("give one of gpus and ray")


class Worth(str, enum.Enum):
    """Worth of GPU time for a kernel at a shape."""

    WORTH_TUNING = "worth_tuning"
    """A faster configuration is expected, and there is room above the speed of light."""
    NEAR_SOL = "near_sol"
    """Kernel that is already as near to the speed of light as was asked for."""
    UNKNOWN = "unknown"
    """Too little is known to say."""


@dataclass(frozen=True)
class Triaged:
    """Facts about a kernel at a shape before any GPU time is spent on it.

    Attributes:
        kernel: its name.
        shape: every size that is known.
        calls: how often it is called.
        worth: whether to tune it.
        why: a sentence.
        sol_ms: the speed of light; ``None`` (and so for all below) if unknown.
        now_ms: a call with the parameters in use.
        source: where `now_ms` is from: ``"measured"`` in an earlier run, ``"profile"``,
            ``"surrogate"``, or ``"kernel model"`` where the surrogate abstains.
        reachable_ms: a call with the best parameters, as far as is believed.
        saving_ms: what all calls would save.
    """

    kernel: str
    shape: Mapping[str, Value]
    calls: float
    worth: Worth
    why: str
    sol_ms: float | None = None
    now_ms: float | None = None
    source: str | None = None
    reachable_ms: float | None = None
    saving_ms: float | None = None


@dataclass(frozen=True)
class HeldOut:
    """A winner against what was in use, at a shape that it was not tuned for.

    Attributes:
        shape: its sizes.
        passed: whether the winner may stay, as far as this shape says.
        difference: what the comparison showed.
        ratio: the winner's time over the other's; ``None`` if they were not compared.
        why: a sentence.
    """

    shape: Mapping[str, Value]
    passed: bool
    difference: Difference
    ratio: Ratio | None
    why: str


@dataclass(frozen=True)
class BatchItem:
    """Result of a batch for one kernel at one shape.

    Attributes:
        tuned: the result; a winner that failed at a held-out shape has the verdict "keep".
        calls: how often it is called.
        held_out: how the winner did at held-out shapes; empty without a winner or such shapes.
        emitted: files that hold the parameters.
    """

    tuned: Tuned
    calls: float
    held_out: tuple[HeldOut, ...] = ()
    emitted: tuple[str, ...] = ()

    @property
    def saved_ms(self) -> float:
        """Saving of all calls with the parameters to use, by the final; 0 if nothing changes."""
        tuned = self.tuned
        if tuned.verdict is not TuneVerdict.FASTER or not tuned.speedup:
            return 0.0
        before_ms = tuned.default.time_ms or 0.0
        return self.calls * before_ms * (1 - 1 / tuned.speedup)


@dataclass(frozen=True)
class BatchStatus:
    """Progress of a batch.

    Attributes:
        stage: ``"looking"``, ``"searching"``, ``"final"`` or ``"held out"``.
        now: the kernel that was heard of last.
        gpu_s, budget_s: seconds spent of the budget.
        measured: configurations so far.
        open, tasks: how many kernels and shapes go on, of how many.
        saved_ms: what all calls would save with the best so far, by the search's times.
    """

    stage: str
    now: str = ""
    gpu_s: float = 0.0
    budget_s: float = 0.0
    measured: int = 0
    open: int = 0
    tasks: int = 0
    saved_ms: float = 0.0


@dataclass(frozen=True)
class Batch:
    """Results of a batch.

    Attributes:
        manifest: the file.
        device: the GPU, by its key in the catalogue.
        triage: every kernel and shape, by what it could save.
        items: the results, in the order of the manifest; empty after a triage alone.
        budget_s: GPU seconds that might be spent.
        gpu_s: those that were, finals and earlier parts of a resumed run included.
        interrupted: whether it was ended by Ctrl-C.
        log: the file that holds each outcome; ``None`` for none.
        database: the tuning database that has the results now; ``None`` for none.
        notes: what limits this, each a sentence.
        environment: versions by name.
    """

    manifest: str
    device: str
    triage: tuple[Triaged, ...]
    items: tuple[BatchItem, ...] = ()
    budget_s: float = 0.0
    gpu_s: float = 0.0
    interrupted: bool = False
    log: str | None = None
    database: str | None = None
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def saved_ms(self) -> float:
        """Saving of all calls of all kernels."""
        return sum(item.saved_ms for item in self.items)

    @property
    def before_ms(self) -> float:
        """All calls with the parameters that were in use, as far as they were measured."""
        return sum(item.calls * (item.tuned.default.time_ms or 0.0) for item in self.items)
