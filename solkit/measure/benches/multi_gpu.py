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
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from solkit.core import Configuration, Device, Outcome, Verdict
from solkit.datasets.identifiers import problem_id
from solkit.datasets.kernels import kernel_at_path
from solkit.errors import (
    ClusterLostError,
    InputError,
    SolkitError,
    TraceError,
    UnknownDeviceError,
    WorkerError,
)
from solkit.measure.benches._base import Bench, Log, WrappedBench, group_handfuls
from solkit.measure.outcomes import device_fields, kernel_fields

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
        self._log, self._tell = log, tell
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
            loads = sum(member.held_count for member in self._members)
            return sum(map(len, self._queue)) + len(self._found) + loads

    @property
    def capacity(self) -> int:
        """The sum over all members that have not ended; at least 1."""
        return max(sum(bench.capacity for bench in self.benches), 1)

    def submit(self, configurations: Sequence[Configuration], on: str | None = None) -> None:
        """Queue configurations.

        Args:
            configurations: what to measure.
            on: only on this model of GPU, by its key. By default on any.

        Raises:
            NotRecordedError: recorded members lack one of them. None is queued then.
            UnknownDeviceError: no member has such a GPU.
        """
        models = [device.key for device in self.devices]
        if on is not None and on not in models:
            raise UnknownDeviceError(f"no member has a GPU {on!r}; they have: {', '.join(models)}")
        for member in self._members:
            if isinstance(member.bench, Virtual) and on in (None, member.device.key):
                member.bench.require_recorded(configurations)
        with self._changed:
            for handful in group_handfuls(configurations):
                group = next(self._groups)
                self._queue.append([Ticket(configuration, on, group) for configuration in handful])
            self._assign_groups()

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
                pair = (
                    self._next_virtual_outcome(until_s)
                    if self._virtual
                    else self._next_outcome(self._until_s)
                )
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
            first = (
                self._next_virtual_outcome(None) if self._virtual else self._next_outcome(last_s)
            )
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
                for ticket in member.held_tickets:
                    ticket.is_dropped = True
                member.sheds = member.why is None and bool(member.tickets)
                if self._virtual and member.why is None:
                    self._advance_bench(member).discard()
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
            member.take_back_all()
            if member.why is None:
                member.bench.close()

    # --------------------------------------------------------------------------- who measures what

    def _assign_groups(self) -> None:
        """Give queued configurations to members that have room."""
        while self._assign_one_group():
            pass
        self._changed.notify_all()

    def _assign_one_group(self) -> bool:
        """Give a group to the member with the least to do.

        If one must be measured alone, a member gets nothing else until it has nothing left.
        """
        members = list(self._members)
        for place, group in enumerate(self._queue):
            able = [member for member in members if member.has_room_for(group)]
            if able:
                del self._queue[place]
                min(able, key=share_in_use).inbox.append(group)
                return True
            fit = [member for member in members if member.why is None and member.fits_model(group)]
            if group[0].is_alone and fit:
                members.remove(min(fit, key=share_in_use))
            if not members or place > _MOST_LOOKED_AT:
                break
        return False

    def _record_outcome(
        self, member: Member, configuration: Configuration, outcome: Outcome
    ) -> None:
        """Take an outcome."""
        ticket = member.pop_ticket(configuration)
        member.failures = 0
        heard = self.unheard if ticket.is_dropped else self._found
        heard.append((ticket.configuration, outcome))
        if member.is_virtual and not member.bench.pending:
            member.tickets.clear()  # of what was discarded
        self._changed.notify_all()

    def _submit_inbox(self, member: Member) -> None:
        """Submit what a member was given."""
        with self._changed:
            groups = member.take_inbox()
        for group in groups:
            handed = [ticket.handed for ticket in group if ticket.handed is not None]
            try:
                member.bench.submit(handed)
            except InputError as error:
                with self._changed:
                    for configuration in handed:
                        member.pop_ticket(configuration)
                    self._faults.append(error)

    def _handle_failure(self, member: Member, error: BaseException) -> None:
        """Handle a member's error: others get what it had, unless the log is at fault."""
        if isinstance(error, TraceError):
            with contextlib.suppress(SolkitError):
                member.bench.discard()
            self._queue.extendleft(reversed(member.take_back_all()))
            self._faults.append(error)
            return
        if isinstance(error, ClusterLostError) or not isinstance(error, (SolkitError, OSError)):
            member.is_gone = True  # the driver must see it: no other attempt would help
            if not any(type(fault) is type(error) for fault in self._faults):
                self._faults.append(error)
        self._end_member(member, error)

    def _end_member(self, member: Member, error: BaseException) -> None:
        """Give what an ended member had to others."""
        member.spent_s = member.gpu_s(self.clock.now_s())
        member.why = str(error) or type(error).__name__
        member.failures += 1
        member.sheds = False
        with contextlib.suppress(Exception):
            member.bench.close()
        groups = member.take_back_all()
        for ticket in (ticket for group in groups for ticket in group):
            ticket.ended.append(member.why)
            if len(ticket.ended) >= BLAMED_AFTER:
                self._blame_configuration(ticket, member.device)
                member.failures = 0  # it was not the member's fault
        again = [_regroup_tickets(group) for group in groups]
        self._queue.extendleft(reversed([ticket for some in again for ticket in some]))
        count = sum(map(len, groups))
        self._tell(f"{member.device.name}: {member.why}; {count} configurations are given away")

    def _blame_configuration(self, ticket: Ticket, device: Device) -> None:
        """Give a configuration that ended too many members an outcome."""
        outcome = blamed_outcome(ticket, device)
        try:
            if self._log is not None:
                (outcome,) = self._log.append([outcome])
        except TraceError as error:
            self._faults.append(error)
        self._found.append((ticket.configuration, outcome))

    def _reopen_member(self, member: Member) -> None:
        """Try to replace the bench of an ended member."""
        reopened = getattr(member.bench, "reopened", None)
        if reopened is None or member.is_gone or member.failures > REOPENINGS:
            member.is_gone = True
            return
        try:
            bench = reopened()
        except Exception as error:  # of a link as well: a thread that ends is awaited for ever
            member.failures += 1
            member.why = str(error) or type(error).__name__
            return
        with self._changed:
            is_late = self._is_closed
            if not is_late:
                member.bench, member.why, member.since_s = bench, None, self.clock.now_s()
                self._assign_groups()
        if is_late:
            bench.close()
            return
        self._tell(f"{member.device.name}: is back")

    def _next_fault(self) -> BaseException | None:
        """Return the error to raise now, also if no member can measure the rest of the queue."""
        if self._faults:
            return self._faults.popleft()
        members = [member for member in self._members if not member.is_gone]
        able = any(member.fits_model(group) for group in self._queue for member in members)
        if not self._queue or able or any(member.held_count for member in members):
            return None
        reasons = "; ".join(
            f"{member.device.name}: {member.why}" for member in self._members if member.why
        )
        count = sum(map(len, self._queue))
        return WorkerError(f"no GPU is left for {count} configurations: {reasons}")

    # ------------------------------------------------------------------------------- virtual time

    def _next_virtual_outcome(self, until_s: float | None) -> tuple[Configuration, Outcome] | None:
        """Return the next outcome in virtual time."""
        while not self._found:
            self._assign_groups()
            for member in self._members:
                if member.inbox:
                    self._advance_bench(member)
                self._submit_inbox(member)
            if (fault := self._next_fault()) is not None:
                raise fault
            due = [(at, n) for n, at in enumerate(self._due_times(until_s)) if at is not None]
            if not due:
                self._advance_time(until_s or 0.0)
                return None
            at_s, number = min(due)
            self._advance_time(at_s)
            self._measure_due(self._members[number], until_s)
        return self._found.popleft()

    def _advance_time(self, time_s: float) -> None:
        """Go on to a virtual time, unless it has passed."""
        assert self._virtual is not None
        self._virtual.time_s = max(self._virtual.time_s, time_s)

    def _due_times(self, until_s: float | None) -> list[float | None]:
        """Return the time of the next outcome of each member."""
        benches: list[Any] = [None if m.why is not None else m.bench for m in self._members]
        return [None if bench is None else bench.due_s(until_s) for bench in benches]

    def _advance_bench(self, member: Member) -> Any:
        """Return the member's bench at the present time: what its GPU could begin has begun."""
        bench: Any = member.bench
        bench.advance(self.clock.now_s())
        return bench

    def _measure_due(self, member: Member, until_s: float | None) -> None:
        """Take the outcomes of a member that are due now."""
        try:
            for configuration, outcome in member.bench.outcomes(until_s):
                self._record_outcome(member, configuration, outcome)
                if self._due_times(None)[self._members.index(member)] != self.clock.now_s():
                    break
        except Exception as error:
            self._handle_failure(member, error)
            while member.why is not None and not member.is_gone:
                self._reopen_member(member)

    # ---------------------------------------------------------------------------------- real time

    def _next_outcome(self, until_s: float) -> tuple[Configuration, Outcome] | None:
        """Return the next outcome in real time."""
        self._start_threads()
        while not self._found:
            if (fault := self._next_fault()) is not None:
                raise fault
            left_s = until_s - self.clock.now_s()
            if left_s <= 0 or not self.pending:
                return None
            self._changed.wait(min(left_s, _SLICE_S))
        return self._found.popleft()

    def _start_threads(self) -> None:
        """Start the threads of the members, once."""
        if not self._threads and not self._is_closed:
            self._threads = [
                threading.Thread(target=self._run_member, args=[member], daemon=True)
                for member in self._members
            ]
            for thread in self._threads:
                thread.start()

    def _run_member(self, member: Member) -> None:
        """Run a member's thread: measure its groups until it ends or the bench is closed."""
        while not self._is_closed and not member.is_gone:
            with self._changed:
                self._changed.wait_for(lambda: self._is_member_needed(member))
            try:
                if not self._is_closed:
                    self._measure_slice(member)
            except BaseException as error:
                with self._changed:
                    if self._is_closed:  # closing it ended it
                        return
                    self._handle_failure(member, error)
                    self._assign_groups()
                self._replace_member(member)

    def _is_member_needed(self, member: Member) -> bool:
        may_begin = member.held_count > 0 and self.clock.now_s() < self._until_s
        return self._is_closed or member.sheds or may_begin

    def _measure_slice(self, member: Member) -> None:
        """Submit what a member was given, and take outcomes for a while."""
        if member.sheds:
            self._discard_work(member)
            return
        self._submit_inbox(member)
        left_s = min(self._until_s - self.clock.now_s(), _SLICE_S)
        for pair in member.bench.outcomes(member.bench.clock.now_s() + left_s):
            self._take_outcome(member, *pair)
            if self._is_closed or member.sheds or self.clock.now_s() >= self._until_s:
                return
            self._submit_inbox(member)

    def _take_outcome(self, member: Member, configuration: Configuration, outcome: Outcome) -> None:
        with self._changed:
            self._record_outcome(member, configuration, outcome)
            self._assign_groups()

    def _discard_work(self, member: Member) -> None:
        """Have a member drop what it can, and finish the rest, which nobody wants."""
        with self._changed:
            member.sheds = False
        member.bench.discard()
        for pair in member.bench.outcomes():
            self._take_outcome(member, *pair)
        with self._changed:
            groups = [[ticket for ticket in some if not ticket.is_dropped] for some in member.inbox]
            member.inbox = [group for group in groups if group]
            member.tickets.clear()
            self._assign_groups()

    def _replace_member(self, member: Member) -> None:
        """Try to replace a member that ended, ever more rarely."""
        wait_s = _REOPEN_S
        while member.why is not None and not member.is_gone and not self._is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, wait_s)
            if not self._is_closed:
                self._reopen_member(member)
            wait_s *= 2
        with self._changed:
            self._changed.notify_all()  # the driver may have to hear of it


def _regroup_tickets(group: list[Ticket]) -> list[list[Ticket]]:
    """Return a group as it is measured again: without blamed ones, and suspects each alone."""
    tickets = [ticket for ticket in group if len(ticket.ended) < BLAMED_AFTER]
    others = [ticket for ticket in tickets if not ticket.is_alone]
    alone = [[ticket] for ticket in tickets if ticket.is_alone]
    return [*([others] if others else []), *alone]


class OneModel(WrappedBench):
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
        super().__init__(bench)
        self._device = devices[model]

    @property
    def gpus(self) -> int:
        """Number of GPUs in use, of all models."""
        return int(self._bench.gpus)

    @property
    def device(self) -> Device:
        """A GPU of the model."""
        return self._device

    def submit(self, configurations: Sequence[Configuration]) -> None:
        """Queue configurations for GPUs of the model."""
        self._bench.submit(configurations, on=self._device.key)


# --------- The members of a bench of benches: what each was given, their clocks, and who is blamed


ALONE_AFTER = 2
"""Ended members that had a configuration, from when on it is measured alone."""


@runtime_checkable
class Virtual(Protocol):
    """A bench whose clock is virtual, as `RecordedBench`."""

    def due_s(self, until_s: float | None = None) -> float | None:
        """See `RecordedBench.due_s`."""

    def advance(self, now_s: float) -> None:
        """See `RecordedBench.advance`."""

    def require_recorded(self, configurations: Sequence[Configuration]) -> None:
        """See `RecordedBench.require_recorded`."""


@dataclass(eq=False)
class Ticket:
    """A configuration that one GPU shall measure once."""

    configuration: Configuration
    on: str | None = None  # the model of GPU; ``None``: any
    group: int = 0  # equal for those that are measured together
    ended: list[str] = field(default_factory=list)  # why members that had it ended
    is_dropped: bool = False  # by the driver
    handed: Configuration | None = None  # what the member was given

    @property
    def is_alone(self) -> bool:
        """True if the configuration may be what ends members."""
        return len(self.ended) >= ALONE_AFTER


@dataclass(eq=False)
class Member:
    """A bench, and what it was given."""

    bench: Bench
    device: Device
    is_virtual: bool
    inbox: list[list[Ticket]] = field(default_factory=list)  # groups given, but not submitted
    tickets: dict[int, list[Ticket]] = field(default_factory=dict)  # submitted: by configuration
    why: str | None = None  # why it ended
    is_gone: bool = False  # ended, and never reopened
    sheds: bool = False  # the driver wants it to drop what it is not timing
    failures: int = 0  # since its last outcome
    since_s: float = 0.0  # when its bench was opened, on the clock of all
    spent_s: float = 0.0  # GPU seconds of the benches that it had before

    @property
    def held_tickets(self) -> list[Ticket]:
        """Tickets that the member has and the driver still wants."""
        groups = (*self.tickets.values(), *self.inbox)
        return [ticket for group in groups for ticket in group if not ticket.is_dropped]

    @property
    def held_count(self) -> int:
        """Number of configurations that it has."""
        return len(self.held_tickets)

    def gpu_s(self, now_s: float) -> float:
        """Return seconds for which its GPU was held; a virtual one always is."""
        if self.why is not None:
            return self.spent_s
        held_s = now_s - self.since_s if self.is_virtual else self.bench.clock.gpu_s()
        return self.spent_s + held_s

    def has_room_for(self, group: Sequence[Ticket]) -> bool:
        """Tell whether the member has room for these now."""
        if self.why is not None or not self.fits_model(group):
            return False
        held = self.held_tickets
        if group[0].is_alone or any(ticket.is_alone for ticket in held):
            return not held
        return not held or len(held) + len(group) <= self.bench.capacity

    def fits_model(self, group: Sequence[Ticket]) -> bool:
        """Tell whether the member has the model of GPU that these are for."""
        return group[0].on in (None, self.device.key)

    def take_inbox(self) -> list[list[Ticket]]:
        """Take the groups of the inbox, to be submitted now.

        A virtual bench gets copies: with them the same object may be submitted again after it was
        discarded. Others may know a configuration by its identity.
        """
        groups, self.inbox = self.inbox, []
        for ticket in (ticket for group in groups for ticket in group):
            configuration = ticket.configuration
            ticket.handed = replace(configuration) if self.is_virtual else configuration
            self.tickets.setdefault(id(ticket.handed), []).append(ticket)
        return groups

    def pop_ticket(self, configuration: Configuration) -> Ticket:
        """Return the ticket of an outcome."""
        tickets = self.tickets[id(configuration)]
        ticket = tickets.pop(0)
        if not tickets:
            del self.tickets[id(configuration)]
        return ticket

    def take_back_all(self) -> list[list[Ticket]]:
        """Take back all that it has, in its groups."""
        groups: dict[int, list[Ticket]] = {}
        for ticket in self.held_tickets:
            groups.setdefault(ticket.group, []).append(ticket)
        self.inbox, self.tickets = [], {}
        return list(groups.values())


class SummedClock:
    """Wall time since opening; the GPU seconds of all members, summed."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members, self._opened_s = members, time.monotonic()

    def now_s(self) -> float:
        """Return seconds since the bench was opened."""
        return time.monotonic() - self._opened_s

    def gpu_s(self) -> float:
        """Return seconds for which all GPUs were held, summed."""
        now_s = self.now_s()
        return sum(member.gpu_s(now_s) for member in self._members)


class SummedVirtualClock(SummedClock):
    """The one virtual time of all members."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__(members)
        self.time_s = 0.0

    def now_s(self) -> float:
        """Return the virtual time."""
        return self.time_s


def share_in_use(member: Member) -> float:
    """Return the share of a member's capacity that is in use."""
    return member.held_count / member.bench.capacity


def blamed_outcome(ticket: Ticket, device: Device) -> Outcome:
    """Return the outcome of a configuration that ended every bench that had it."""
    configuration = ticket.configuration
    named: dict[str, Any] = {
        **{"kernel_id": configuration.path, "family": "", "kind": "", "origin": "file"},
        **{
            "problem_id": problem_id("", configuration.shape),
            "entry_point": configuration.entry_point,
        },
    }
    if Path(configuration.path).is_file():
        kernel = kernel_at_path(
            configuration.path, configuration.entry_point, configuration.reference
        )
        named = kernel_fields(kernel, configuration.shape)
    return Outcome(
        **named,
        **device_fields(device),
        params=configuration.params,
        shape=configuration.shape,
        verdict=Verdict.NOT_MEASURED,
        created=datetime.now(timezone.utc),
        chosen_by=configuration.chosen_by,
        message=f"{len(ticket.ended)} benches ended while they had it: {ticket.ended[-1]}",
    )
