"""The inputs of timed calls: new values before each turn, which no call has seen before.

::

    turn:  draw from a secret seed ─► the referee's copy ─► the shared memory ─► each side's call

The addresses stay, as graphs need it. The candidates' processes flush L2 after that. The seeds are
the system's random numbers: a candidate's process knows the seed of the measurement.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.inputs import copy_workload, fingerprints_of
from solkit.measure.checking.redrawing import Draws
from solkit.measure.checking.trials import Trial
from solkit.measure.guarded.remote import Remote
from solkit.measure.guarded.sharing import Block, Packed, pack_value
from solkit.measure.timing.machine import Machine
from solkit.measure.timing.sampling import COSTLY_DRAW_S

secret = secrets.SystemRandom()
"""Draws seeds, and which calls are judged."""
_AHEAD_SHARE = 1 / 8  # of the free memory, at most, for inputs that are drawn ahead


@dataclass(frozen=True)
class Shared:
    """One set of inputs, shared with the candidate's process in memory of its own."""

    # the untouched inputs, in the referee's memory, and the correct outputs, but for drawn inputs,
    # whose outputs are computed for those calls that are judged
    trial: Trial
    packed: Packed  # the inputs as shared
    block: Block
    written: frozenset[int]  # numbers of the storages that the reference writes to as well
    is_drawn: bool = False  # whether the inputs were drawn for one turn

    def restore(self) -> None:
        """Undo what a call wrote."""
        self.packed.fill_block(self.block)


@dataclass(frozen=True)
class Drawn:
    """The inputs of one turn, by the seeds that give them."""

    source: int  # of the inputs
    seed: int  # of random numbers that the call draws


class _Packs(Protocol):
    def __call__(self, workload: Workload) -> Packed: ...


class Redraws:
    """Gives the inputs of each turn.

    Args:
        sets: the inputs that the candidates have, at addresses of their own.
        draws: how to draw anew.
        remotes: the candidates' processes.
        pack: takes inputs apart.
        allocate: makes memory to share.
        first: makes the inputs of the last set again, if they are to leave memory meanwhile.
        free_bytes: memory that is free.

    Attributes:
        current: the inputs of this turn.
    """

    def __init__(
        self,
        sets: Sequence[Shared],
        draws: Draws,
        remotes: Sequence[Remote],
        pack: _Packs,
        allocate: Callable[[int], Block],
        first: Callable[[], Workload] | None = None,
        free_bytes: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._sets, self._draws, self._remotes = list(sets), draws, remotes
        last = sets[-1]
        self._first = last if first is None else _without_inputs(last)
        self._make_first = first
        self._last: Drawn | None = None
        self._prints: list[tuple[object, ...]] = []  # of the last turn's inputs
        self._key = secret.getrandbits(63)
        self._pack, self._allocate, self._free_bytes = pack, allocate, free_bytes
        self._ahead = deque[tuple[Drawn, Workload]]()
        self.current = sets[-1]

    @property
    def kind(self) -> str:
        """See `Draws`."""
        return self._draws.kind

    @property
    def sets(self) -> tuple[Shared, ...]:
        """The inputs as the candidates have them now."""
        return tuple(self._sets)

    @property
    def cost_s(self) -> float:
        """Seconds for one draw."""
        return self._draws.cost_s

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sets, as the candidates know them."""
        return tuple(shared.trial.name for shared in self._sets)

    @property
    def other(self) -> Shared | None:
        """Inputs at other addresses than those of this turn, if there are any."""
        others = [shared for shared in self._sets if shared.trial.name != self.current.trial.name]
        return others[0] if others else None

    def draw_ahead(self, turns: int) -> None:
        """Draw the inputs of the next turns now, if drawing is slow and memory suffices.

        A profiler of this process's calls records what drawing launches, too. Reading the sorts of
        1,024 random orders for each of ten turns took 8.9 s (an H200, docs/lab/evolving.md).
        """
        needed = turns * self._sets[-1].packed.size
        if self.cost_s <= COSTLY_DRAW_S or needed > _AHEAD_SHARE * self._free_bytes():
            return
        while len(self._ahead) < turns:
            self._ahead.append(self._draw())

    def begin_turn(self) -> Drawn | None:
        """Begin a turn; ``None`` if the inputs stay as they are."""
        number = secret.randrange(len(self._sets))
        if self.kind == "same":
            self.current = self._sets[number]
            if self.current.written:  # a call that warmed L2 may have
                self.current.restore()
            return None
        drawn, workload = self._ahead.popleft() if self._ahead else self._draw()
        self.current = self._sets[number] = self._place_draw(self._sets[number], drawn, workload)
        self._last = drawn
        return drawn

    def restore_first(self, remembering: bool = False) -> Shared:
        """Share the inputs of before the first turn again.

        Args:
            remembering: whether `is_repeatable` may be asked afterwards.
        """
        self._ahead.clear()
        if self._last is not None and remembering:
            self._prints = self._fingerprint_inputs(self.current.trial.workload)
        first = replace(self._first, block=self._sets[-1].block)
        if self._make_first is not None:
            workload = self._make_first()
            trial = replace(first.trial, workload=workload)
            first = replace(first, trial=trial, packed=self._pack(workload))
        if first.packed.form == self._sets[-1].packed.form:
            first.restore()
        else:
            first = self._shared_anew(first)
        self.current = self._sets[-1] = first
        return first

    def draw_again(self, drawn: Drawn) -> Workload:
        """Return the inputs of a turn once more."""
        return self._draws.of(drawn.source)

    def is_repeatable(self) -> bool:
        """Tell, after all turns, whether the seed of the last one gives its inputs again."""
        if self._last is None:
            return False
        return self._fingerprint_inputs(self.draw_again(self._last)) == self._prints

    def _fingerprint_inputs(self, workload: Workload) -> list[tuple[object, ...]]:
        return fingerprints_of(workload.tensors(), self._key)

    def _draw(self) -> tuple[Drawn, Workload]:
        drawn = Drawn(secret.getrandbits(62), secret.getrandbits(31))
        return drawn, self.draw_again(drawn)

    def _place_draw(self, before: Shared, drawn: Drawn, workload: Workload) -> Shared:
        packed = self._pack(workload)
        trial = replace(before.trial, workload=workload, seed=drawn.seed, want=[], exact=None)
        after = replace(before, trial=trial, packed=packed, is_drawn=True)
        if packed.form == before.packed.form:
            after.restore()
            return after
        return self._shared_anew(after)

    def _shared_anew(self, shared: Shared) -> Shared:
        """Share inputs whose sizes or scalars differ from those before."""
        name = shared.trial.name
        for remote in self._remotes:
            remote.detach(name)
        if shared.packed.size > shared.block.size:
            shared = replace(shared, block=self._allocate(shared.packed.size))
        shared.restore()
        for remote in self._remotes:
            remote.attach(name, shared.packed, shared.block)
        return shared


def _without_inputs(shared: Shared) -> Shared:
    """Return the same without the inputs in the referee's memory."""
    trial = replace(shared.trial, workload=shared.trial.workload.with_inputs((), {}))
    return replace(shared, trial=trial, packed=replace(shared.packed, storages=()))


class ReferenceGraph:
    """The reference, captured in a graph of `calls` calls that are replayed on new values."""

    def __init__(self, machine: Machine, calls: int) -> None:
        self._machine, self._calls = machine, calls
        self._packed: Packed | None = None
        self._replay: Callable[[], Any] = lambda: None

    def replay_on(self, shared: Shared) -> Callable[[], Any]:
        """Return the replay on these inputs, which are copied to where the graph reads them.

        Raises:
            ActivityError: it cannot be captured.
        """
        if self._packed is None or self._packed.form != shared.packed.form:
            self._capture_calls(shared)
        assert self._packed is not None
        for mine, new in zip(self._packed.storages, shared.packed.storages, strict=True):
            mine.copy_(new)
        return self._replay

    def _capture_calls(self, shared: Shared) -> None:
        own = copy_workload(shared.trial.workload)
        seed_everything(shared.trial.seed)
        calls = range(self._calls)
        self._replay = self._machine.capture_graph(lambda: [own.run_reference() for _ in calls])
        self._packed = pack_value((own.args, dict(own.kwargs)), self._machine.device)
