"""Changes of candidates by a compiler, a card, a revision or a parameter, without a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.core.analysis import Forecast
from solkit.core.values import Value


@dataclass(frozen=True)
class Side:
    """One of the two worlds that candidates are studied in; all else is alike.

    Attributes:
        name: what sets it apart, e.g. ``"Triton 3.9.0"``.
        device: the target's name in the catalogue.
        triton: the version that compiles.
        revision: of the kernel files, as Git names it; empty for the files as they are.
        params: parameters of the candidates that override their own.
    """

    name: str
    device: str
    triton: str
    revision: str = ""
    params: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One figure of a candidate that differs between two sides.

    Attributes:
        name: from `solkit.roofline.kernel.changes.CHANGES`.
        launch: the kernel's function; empty for the candidate as a whole.
        place: the argument or the lines that it is about; empty for the whole launch.
        before, after: the figure on either side, in the unit of its name; ``None`` where there is
            none.
        is_worse: whether the second side is the worse one.
        factor: how many times worse, or better if below 1; ``None`` for what has no size (a
            pipeline that is gone).
        words: what changed, as a phrase.
    """

    name: str
    launch: str
    place: str
    before: float | None
    after: float | None
    is_worse: bool
    factor: float | None
    words: str

    def exceeds(self, threshold: float) -> bool:
        """Tell whether it is worse by more than a share; what has no size always is."""
        return self.is_worse and (self.factor is None or self.factor > 1 + threshold)


@dataclass(frozen=True)
class Standing:
    """Facts of a candidate on one side.

    Attributes:
        time_ms: modelled, of all launches; ``None`` if unknown.
        forecast: the surrogate's; ``None`` if it gives none.
        registers: per thread, the most of its own launches; ``None`` if unknown, as below.
        spills: spilled 32-bit words per thread, the most likewise.
        shared_bytes: per block, the most likewise.
        error: why it does not run there; empty if it does.
        unknown: why it could not be analysed, which says nothing about the kernel; else empty.
    """

    time_ms: float | None = None
    forecast: Forecast | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    error: str = ""
    unknown: str = ""


@dataclass(frozen=True)
class CandidateDiff:
    """One kernel at one shape with one choice of parameters, on two sides.

    Attributes:
        path: its file.
        kernel: its name in reports.
        shape: every size.
        params: the candidate's parameters, those of a side left out.
        before, after: what is known on either side.
        changes: the gravest first.
        chosen_by: where the configuration comes from: ``"default"``, or the place of a tuned one.
        notes: assumptions on one side alone, on which its modelled time rests, each a sentence.
    """

    path: str
    kernel: str
    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    before: Standing
    after: Standing
    changes: tuple[Change, ...] = ()
    chosen_by: str = "default"
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Modelled time of the second side over that of the first; ``None`` if they differ in kind.

        One may be unknown, or rest on assumptions that the other does not need.
        """
        if not self.before.time_ms or self.after.time_ms is None or self.notes:
            return None
        return self.after.time_ms / self.before.time_ms

    @property
    def is_compared(self) -> bool:
        """True if both sides could be analysed, or one of them is known not to run."""
        return not self.before.unknown and not self.after.unknown

    def exceeding(self, threshold: float) -> tuple[Change, ...]:
        """Return the changes that are worse by more than a share."""
        return tuple(change for change in self.changes if change.exceeds(threshold))

    def gravity(self) -> tuple[float, ...]:
        """Return a key that sorts the worst first: no longer runs, modelled time, other losses."""
        losses = [change for change in self.changes if change.is_worse]
        most = max((math.inf if c.factor is None else c.factor for c in losses), default=1.0)
        fails = bool(self.after.error and not self.before.error)
        return (-fails, -(self.ratio or 1.0), -most)


@dataclass(frozen=True)
class Diff:
    """Candidates on two sides.

    Attributes:
        before, after: the sides.
        candidates: the worst first.
        failed: files that could not be read or studied: why, by path.
    """

    before: Side
    after: Side
    candidates: tuple[CandidateDiff, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    def exceeding(self, threshold: float) -> tuple[CandidateDiff, ...]:
        """Return the candidates with a change that is worse by more than a share."""
        return tuple(row for row in self.candidates if row.exceeding(threshold))
