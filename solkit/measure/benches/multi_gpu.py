"""A bench of benches: several GPUs, of one machine or of many, behind the one interface.

::

    submit ─► queue ─► member 1 (a bench, in a thread of its own) ─┐
                  └──► member 2 ...                                ├─► outcomes
                  ▲──────── what a member that ended still had ────┘

- Each member gets work up to its capacity, the one that uses the smallest share of it first.
  Configurations of one kernel and shape that are submitted in one call, at most `HANDFUL`, go to
  one GPU together: their times can be compared. A driver that submits one at a time leaves it to
  the bench where each is measured.
- A member *ends* if its `Bench.outcomes` raises anything but `TraceError`. Its configurations go to
  others; an outcome that it had yielded stays, and none comes twice. If the member has a
  ``reopened()``, that is tried while the others go on.
- A configuration that two ended members had is measured alone from then on. After the fourth one
  it is blamed: its outcome is `Verdict.NOT_MEASURED`.
- GPUs of several models keep their results apart: each outcome names its GPU, and a driver may ask
  for a model, or for one outcome of each.
- Members on virtual clocks (`RecordedBench`) share one virtual time, without threads: outcomes come
  in the order of that time, so a replay is deterministic.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from solkit.core import Configuration, Device, Outcome
from solkit.errors import (
    ClusterLostError,
    InputError,
    SolkitError,
    TraceError,
    UnknownDeviceError,
    WorkerError,
)
from solkit.measure.benches._base import Bench, Log, handfuls
from solkit.measure.benches._members import (
    Member,
    SummedClock,
    SummedVirtualClock,
    Ticket,
    Virtual,
    blamed_outcome,
    share_in_use,
)

__all__ = ["ManyBench", "OneModel"]

BLAMED_AFTER = 4
"""Ended members that had a configuration, from when on it is blamed."""

REOPENINGS = 3
"""Attempts to replace a member, without an outcome in between."""

_SLICE_S = 0.1  # a member looks for new work as often
_REOPEN_S = 1.0  # before the first attempt; twice as long before each further one
_MOST_UNHEARD = 1000  # nobody may ask for them
_MOST_LOOKED_AT = 64  # groups that wait; the first ones fit nowhere
_END_S = 2.0  # a member's thread may take to end


class ManyBench(Bench):
    """Measures on several benches at once; see `solkit.measure.benches.Bench` and this module.

    `Clock.gpu_s` sums the seconds of all GPUs; `Clock.now_s` is one time for all. Outcomes of what
    was being timed at ``until_s`` come with the next call of `outcomes`. After `discard` nothing is
    pending: what was being timed then is in the log only.

    Args:
        benches: of a GPU each, which are closed with this bench. One may have a ``reopened()``,
            which returns its replacement or raises `SolkitError`.
        each_model: measure each configuration once on every model of GPU, not on any one GPU.
        log: where the outcomes of blamed configurations are written. Members log all others.
        tell: receives a sentence when a member ends or is back.

    Attributes:
        unheard: outcomes of what was being timed when it was discarded.

    Raises:
        InputError: there is no bench, or some clocks are virtual and others are not.
    """

    def __init__(
        self,
        benches: Sequence[Bench],
        *,
        each_model: bool = False,
        log: Log | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        virtual = [isinstance(bench, Virtual) for bench in benches]
        if not benches or any(virtual) != all(virtual):
            raise InputError(
                "a bench of benches needs some, all with a real clock or all with a virtual one; "
                f"got {len(benches)}, {sum(virtual)} of them virtual"
            )
        self._members = [Member(bench, bench.device, all(virtual)) for bench in benches]
        self._each_model, self._log, self._tell = each_model, log, tell
        self._virtual = SummedVirtualClock(self._members) if all(virtual) else None
        self.clock: SummedClock = self._virtual or SummedClock(self._members)
        self._queue: deque[list[Ticket]] = deque()
        self._groups = itertools.count()
        self._found: deque[tuple[Configuration, Outcome]] = deque()
        self.unheard: deque[tuple[Configuration, Outcome]] = deque(maxlen=_MOST_UNHEARD)
        self._faults: deque[BaseException] = deque()  # for the driver
        self._changed = threading.Condition(threading.RLock())
        self._until_s = -math.inf  # members begin nothing later: they wait for the driver
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def benches(self) -> tuple[Bench, ...]:
        """The members that have not ended."""
        return tuple(member.bench for member in self._members if member.why is None)

    @property
    def gpus(self) -> int:
        """Number of GPUs in use: `Clock.gpu_s` runs so many times as fast as `Clock.now_s`."""
        return len(self.benches)

    @property
    def device(self) -> Device:
        """The GPU of the first member; `devices` gives all models."""
        return self._members[0].device

    @property
    def devices(self) -> tuple[Device, ...]:
        """A GPU of each model."""
        models: dict[str, Device] = {}
        for member in self._members:
            models.setdefault(member.device.key, member.device)
        return tuple(models.values())

    @property
    def pending(self) -> int:
        """Number of outcomes to come: one for each configuration, or one on each model."""
        with self._changed:
            loads = sum(member.load for member in self._members)
            return sum(map(len, self._queue)) + len(self._found) + loads

    @property
    def capacity(self) -> int:
        """The sum over all members that have not ended; at least 1."""
        return max(sum(bench.capacity for bench in self.benches), 1)

    def submit(self, configurations: Sequence[Configuration], on: str | None = None) -> None:
        """Queue configurations.

        Args:
            configurations: what to measure.
            on: only on this model of GPU, by its key. By default on any, or on each if the bench
                was opened so.

        Raises:
            NotRecordedError: recorded members lack one of them. None is queued then.
            UnknownDeviceError: no member has such a GPU.
        """
        models = [device.key for device in self.devices]
        if on is not None and on not in models:
            raise UnknownDeviceError(f"no member has a GPU {on!r}; they have: {', '.join(models)}")
        targets = models if self._each_model and on is None else [on]
        for member in self._members:
            if isinstance(member.bench, Virtual) and on in (None, member.device.key):
                member.bench.require_recorded(configurations)
        with self._changed:
            for model, handful in itertools.product(targets, handfuls(configurations)):
                group = next(self._groups)
                self._queue.append(
                    [Ticket(configuration, model, group) for configuration in handful]
                )
            self._assign()

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """Yield outcomes as they come; members go on while the driver thinks.

        Raises:
            InputError: a member does not take some configurations; they are dropped.
            TraceError: outcomes could not be written; their configurations are measured again.
            WorkerError: no member is left for some configurations; they stay pending.
        """
        with self._changed:
            self._until_s = math.inf if until_s is None else until_s
            self._changed.notify_all()
        while self.pending or self._faults:
            with self._changed:
                pair = self._next_at(until_s) if self._virtual else self._next(self._until_s)
            if pair is None:
                return
            yield pair

    def poll(self, wait_s: float) -> list[tuple[Configuration, Outcome]]:
        """Wait for the first outcome, and return all that are there; members go on meanwhile.

        A driver elsewhere takes outcomes so: between its requests no GPU shall idle.

        Args:
            wait_s: at most so many seconds.

        Raises:
            InputError, TraceError, WorkerError: as for `outcomes`.
        """
        with self._changed:
            self._until_s = math.inf
            self._changed.notify_all()
            if not self.pending and not self._faults:
                self._changed.wait(wait_s)
            last_s = self.clock.now_s() + wait_s
            first = self._next_at(None) if self._virtual else self._next(last_s)
            pairs = [] if first is None else [first, *self._found]
            self._found.clear()
            return pairs

    def discard(self) -> None:
        """Drop everything; GPUs finish what they are timing."""
        with self._changed:
            self._queue.clear()
            self._found.clear()
            for member in self._members:
                member.inbox.clear()
                for ticket in member.held:
                    ticket.is_dropped = True
                member.sheds = member.why is None and bool(member.tickets)
                if self._virtual and member.why is None:
                    self._advanced(member).discard()
            self._changed.notify_all()

    def close(self) -> None:
        """Close all members. Pending configurations get no outcome."""
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            self._found.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_END_S)
        for member in self._members:
            member.emptied()
            if member.why is None:
                member.bench.close()

    # --------------------------------------------------------------------------- who measures what

    def _assign(self) -> None:
        """Give queued configurations to members that have room."""
        while self._assign_some():
            pass
        self._changed.notify_all()

    def _assign_some(self) -> bool:
        """Give a group to the member with the least to do.

        If one must be measured alone, a member gets nothing else until it has nothing left.
        """
        members = list(self._members)
        for place, group in enumerate(self._queue):
            able = [member for member in members if member.takes(group)]
            if able:
                del self._queue[place]
                min(able, key=share_in_use).inbox.append(group)
                return True
            fit = [member for member in members if member.why is None and member.fits(group)]
            if group[0].is_alone and fit:
                members.remove(min(fit, key=share_in_use))
            if not members or place > _MOST_LOOKED_AT:
                break
        return False

    def _note(self, member: Member, configuration: Configuration, outcome: Outcome) -> None:
        """Take an outcome."""
        ticket = member.answered(configuration)
        member.failures = 0
        heard = self.unheard if ticket.is_dropped else self._found
        heard.append((ticket.configuration, outcome))
        if member.is_virtual and not member.bench.pending:
            member.tickets.clear()  # of what was discarded
        self._changed.notify_all()

    def _submit(self, member: Member) -> None:
        """Submit what a member was given."""
        with self._changed:
            groups = member.taken()
        for group in groups:
            handed = [ticket.handed for ticket in group if ticket.handed is not None]
            try:
                member.bench.submit(handed)
            except InputError as error:
                with self._changed:
                    for configuration in handed:
                        member.answered(configuration)
                    self._faults.append(error)

    def _failed(self, member: Member, error: BaseException) -> None:
        """Handle a member's error: others get what it had, unless the log is at fault."""
        if isinstance(error, TraceError):
            with contextlib.suppress(SolkitError):
                member.bench.discard()
            self._queue.extendleft(reversed(member.emptied()))
            self._faults.append(error)
            return
        if isinstance(error, ClusterLostError) or not isinstance(error, (SolkitError, OSError)):
            member.is_gone = True  # the driver must see it: no other attempt would help
            if not any(type(fault) is type(error) for fault in self._faults):
                self._faults.append(error)
        self._end(member, error)

    def _end(self, member: Member, error: BaseException) -> None:
        """Give what an ended member had to others."""
        member.spent_s = member.gpu_s(self.clock.now_s())
        member.why = str(error) or type(error).__name__
        member.failures += 1
        member.sheds = False
        with contextlib.suppress(Exception):
            member.bench.close()
        groups = member.emptied()
        for ticket in (ticket for group in groups for ticket in group):
            ticket.ended.append(member.why)
            if len(ticket.ended) >= BLAMED_AFTER:
                self._blame(ticket, member.device)
                member.failures = 0  # it was not the member's fault
        again = [_regrouped(group) for group in groups]
        self._queue.extendleft(reversed([ticket for some in again for ticket in some]))
        count = sum(map(len, groups))
        self._tell(f"{member.device.name}: {member.why}; {count} configurations are given away")

    def _blame(self, ticket: Ticket, device: Device) -> None:
        """Give a configuration that ended too many members an outcome."""
        outcome = blamed_outcome(ticket, device)
        try:
            if self._log is not None:
                (outcome,) = self._log.append([outcome])
        except TraceError as error:
            self._faults.append(error)
        self._found.append((ticket.configuration, outcome))

    def _reopen(self, member: Member) -> None:
        """Try to replace the bench of an ended member."""
        reopened = getattr(member.bench, "reopened", None)
        if reopened is None or member.is_gone or member.failures > REOPENINGS:
            member.is_gone = True
            return
        try:
            bench = reopened()
        except (SolkitError, OSError) as error:
            member.failures += 1
            member.why = str(error)
            return
        with self._changed:
            member.bench, member.why, member.since_s = bench, None, self.clock.now_s()
            self._assign()
        self._tell(f"{member.device.name}: is back")

    def _fault(self) -> BaseException | None:
        """Return the error to raise now, also if no member can measure the rest of the queue."""
        if self._faults:
            return self._faults.popleft()
        members = [member for member in self._members if not member.is_gone]
        able = any(member.fits(group) for group in self._queue for member in members)
        if not self._queue or able or any(member.load for member in members):
            return None
        reasons = "; ".join(
            f"{member.device.name}: {member.why}" for member in self._members if member.why
        )
        count = sum(map(len, self._queue))
        return WorkerError(f"no GPU is left for {count} configurations: {reasons}")

    # ------------------------------------------------------------------------------- virtual time

    def _next_at(self, until_s: float | None) -> tuple[Configuration, Outcome] | None:
        """Return the next outcome in virtual time."""
        while not self._found:
            self._assign()
            for member in self._members:
                if member.inbox:
                    self._advanced(member)
                self._submit(member)
            if (fault := self._fault()) is not None:
                raise fault
            due = [(at, n) for n, at in enumerate(self._due(until_s)) if at is not None]
            if not due:
                self._reach(until_s or 0.0)
                return None
            at_s, number = min(due)
            self._reach(at_s)
            self._measure_at(self._members[number], until_s)
        return self._found.popleft()

    def _reach(self, time_s: float) -> None:
        """Go on to a virtual time, unless it has passed."""
        assert self._virtual is not None
        self._virtual.time_s = max(self._virtual.time_s, time_s)

    def _due(self, until_s: float | None) -> list[float | None]:
        """Return the time of the next outcome of each member."""
        benches: list[Any] = [None if m.why is not None else m.bench for m in self._members]
        return [None if bench is None else bench.due_s(until_s) for bench in benches]

    def _advanced(self, member: Member) -> Any:
        """Return the member's bench at the present time: what its GPU could begin has begun."""
        bench: Any = member.bench
        bench.advance(self.clock.now_s())
        return bench

    def _measure_at(self, member: Member, until_s: float | None) -> None:
        """Take the outcomes of a member that are due now."""
        try:
            for configuration, outcome in member.bench.outcomes(until_s):
                self._note(member, configuration, outcome)
                if self._due(None)[self._members.index(member)] != self.clock.now_s():
                    break
        except Exception as error:
            self._failed(member, error)
            while member.why is not None and not member.is_gone:
                self._reopen(member)

    # ---------------------------------------------------------------------------------- real time

    def _next(self, until_s: float) -> tuple[Configuration, Outcome] | None:
        """Return the next outcome in real time."""
        self._start()
        while not self._found:
            if (fault := self._fault()) is not None:
                raise fault
            left_s = until_s - self.clock.now_s()
            if left_s <= 0 or not self.pending:
                return None
            self._changed.wait(min(left_s, _SLICE_S))
        return self._found.popleft()

    def _start(self) -> None:
        """Start the threads of the members, once."""
        if not self._threads and not self._is_closed:
            self._threads = [
                threading.Thread(target=self._serve, args=[member], daemon=True)
                for member in self._members
            ]
            for thread in self._threads:
                thread.start()

    def _serve(self, member: Member) -> None:
        """Run a member's thread: measure its groups until it ends or the bench is closed."""
        while not self._is_closed and not member.is_gone:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted(member))
            try:
                if not self._is_closed:
                    self._measure(member)
            except BaseException as error:
                with self._changed:
                    if self._is_closed:  # closing it ended it
                        return
                    self._failed(member, error)
                    self._assign()
                self._mend(member)

    def _is_wanted(self, member: Member) -> bool:
        may_begin = member.load > 0 and self.clock.now_s() < self._until_s
        return self._is_closed or member.sheds or may_begin

    def _measure(self, member: Member) -> None:
        """Submit what a member was given, and take outcomes for a while."""
        if member.sheds:
            self._shed(member)
            return
        self._submit(member)
        left_s = min(self._until_s - self.clock.now_s(), _SLICE_S)
        for pair in member.bench.outcomes(member.bench.clock.now_s() + left_s):
            self._take(member, *pair)
            if self._is_closed or member.sheds or self.clock.now_s() >= self._until_s:
                return
            self._submit(member)

    def _take(self, member: Member, configuration: Configuration, outcome: Outcome) -> None:
        with self._changed:
            self._note(member, configuration, outcome)
            self._assign()

    def _shed(self, member: Member) -> None:
        """Have a member drop what it can, and finish the rest, which nobody wants."""
        with self._changed:
            member.sheds = False
        member.bench.discard()
        for pair in member.bench.outcomes():
            self._take(member, *pair)
        with self._changed:
            groups = [[ticket for ticket in some if not ticket.is_dropped] for some in member.inbox]
            member.inbox = [group for group in groups if group]
            member.tickets.clear()
            self._assign()

    def _mend(self, member: Member) -> None:
        """Try to replace a member that ended, ever more rarely."""
        wait_s = _REOPEN_S
        while member.why is not None and not member.is_gone and not self._is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, wait_s)
            if not self._is_closed:
                self._reopen(member)
            wait_s *= 2
        with self._changed:
            self._changed.notify_all()  # the driver may have to hear of it


def _regrouped(group: list[Ticket]) -> list[list[Ticket]]:
    """Return a group as it is measured again: without blamed ones, and suspects each alone."""
    tickets = [ticket for ticket in group if len(ticket.ended) < BLAMED_AFTER]
    others = [ticket for ticket in tickets if not ticket.is_alone]
    alone = [[ticket] for ticket in tickets if ticket.is_alone]
    return [*([others] if others else []), *alone]


class OneModel(Bench):
    """A bench of several GPUs, as far as they are of one model: one search needs times of one.

    Args:
        bench: a `ManyBench`, or another bench whose ``submit`` takes ``on``.
        model: the key of the model.

    Raises:
        UnknownDeviceError: the bench has no such GPU.
    """

    def __init__(self, bench: Any, model: str) -> None:
        devices: dict[str, Device] = {device.key: device for device in bench.devices}
        if model not in devices:
            raise UnknownDeviceError(f"no GPU {model!r} here; there are: {', '.join(devices)}")
        self._bench, self._device, self.clock = bench, devices[model], bench.clock

    @property
    def gpus(self) -> int:
        """Number of GPUs in use, of all models."""
        return int(self._bench.gpus)

    @property
    def device(self) -> Device:
        """A GPU of the model."""
        return self._device

    @property
    def pending(self) -> int:
        """Number of submitted configurations without an outcome."""
        return int(self._bench.pending)

    @property
    def capacity(self) -> int:
        """As the bench has it."""
        return int(self._bench.capacity)

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """Queue configurations for GPUs of the model."""
        self._bench.submit(configurations, on=self._device.key)

    def outcomes(self, until_s: float | None = None) -> Iterator[tuple[Configuration, Outcome]]:
        """As the bench has it."""
        yield from self._bench.outcomes(until_s)

    def discard(self) -> None:
        """As the bench has it."""
        self._bench.discard()

    def close(self) -> None:
        """Close the bench."""
        self._bench.close()
