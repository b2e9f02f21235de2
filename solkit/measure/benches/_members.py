"""The members of a bench of benches: what each was given, their clocks, and who is blamed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from solkit.core import Configuration, Device, Outcome, Verdict, canonical
from solkit.datasets.kernels import kernel_at
from solkit.datasets.record import problem_id
from solkit.measure.benches._base import Bench
from solkit.measure.outcomes import device_fields, kernel_fields

__all__ = [
    "Member",
    "SummedClock",
    "SummedVirtualClock",
    "Ticket",
    "Virtual",
    "blamed_outcome",
    "share_in_use",
]

ALONE_AFTER = 2
"""Ended members that had a configuration, from when on it is measured alone."""


@runtime_checkable
class Virtual(Protocol):
    """A bench whose clock is virtual, as `RecordedBench`."""

    def due_s(self, until_s: float | None = None) -> float | None: ...
    def advance(self, now_s: float) -> None: ...
    def require_recorded(self, configurations: Sequence[Configuration]) -> None: ...


@dataclass(eq=False)
class Ticket:
    """A configuration that one GPU shall measure once."""

    configuration: Configuration
    on: str | None = None  # the model of GPU; ``None``: any
    ended: list[str] = field(default_factory=list)  # why members that had it ended
    is_dropped: bool = False  # by the driver

    @property
    def is_alone(self) -> bool:
        return len(self.ended) >= ALONE_AFTER

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for those that may be in one handful."""
        asked = self.configuration
        kernel = asked.path, asked.entry_point, asked.reference, canonical(asked.shape)
        return (*kernel, self.on, self.is_alone)


@dataclass(eq=False)
class Member:
    """A bench, and what it was given."""

    bench: Bench
    device: Device
    is_virtual: bool
    inbox: list[Ticket] = field(default_factory=list)  # given, but not submitted
    tickets: dict[int, list[Ticket]] = field(default_factory=dict)  # submitted: by configuration
    why: str | None = None  # why it ended
    is_gone: bool = False  # ended, and never reopened
    sheds: bool = False  # the driver wants it to drop what it is not timing
    failures: int = 0  # since its last outcome
    since_s: float = 0.0  # when its bench was opened, on the clock of all
    spent_s: float = 0.0  # GPU seconds of the benches that it had before

    @property
    def load(self) -> int:
        """Number of configurations that it has."""
        submitted = self.bench.pending if self.is_virtual else sum(map(len, self.tickets.values()))
        return len(self.inbox) + (submitted if self.why is None else 0)

    def gpu_s(self, now_s: float) -> float:
        """Seconds for which its GPU was held; a virtual one always is."""
        if self.why is not None:
            return self.spent_s
        return self.spent_s + (
            now_s - self.since_s if self.is_virtual else self.bench.clock.gpu_s()
        )

    def room_for(self, ticket: Ticket) -> int:
        """How many configurations like this one it takes now."""
        if self.why is not None or ticket.on not in (None, self.device.key):
            return 0
        if ticket.is_alone:
            return int(not self.load)
        has = (*self.inbox, *(each for some in self.tickets.values() for each in some))
        has_alone = any(each.is_alone and not each.is_dropped for each in has)
        return 0 if has_alone else max(self.bench.capacity - self.load, 0)

    def taken(self) -> list[Ticket]:
        """What was given, to be submitted now."""
        given, self.inbox = self.inbox, []
        for each in given:
            self.tickets.setdefault(id(each.configuration), []).append(each)
        return given

    def answered(self, configuration: Configuration) -> Ticket:
        """The ticket of an outcome."""
        left = self.tickets[id(configuration)]
        ticket = left.pop(0)
        if not left:
            del self.tickets[id(configuration)]
        return ticket

    def emptied(self) -> list[Ticket]:
        """Take back all that it has."""
        found = [*(each for some in self.tickets.values() for each in some), *self.inbox]
        self.inbox, self.tickets = [], {}
        return [each for each in found if not each.is_dropped]


class SummedClock:
    """Wall time since opening; the GPU seconds of all members, summed."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members, self._opened_s = members, time.monotonic()

    def now_s(self) -> float:
        return time.monotonic() - self._opened_s

    def gpu_s(self) -> float:
        now_s = self.now_s()
        return sum(each.gpu_s(now_s) for each in self._members)


class SummedVirtualClock(SummedClock):
    """The one virtual time of all members."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__(members)
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s


def share_in_use(member: Member) -> float:
    return member.load / member.bench.capacity


def blamed_outcome(ticket: Ticket, device: Device) -> Outcome:
    """The outcome of a configuration that ended every bench that had it."""
    asked = ticket.configuration
    named: dict[str, Any] = {
        **{"kernel_id": asked.path, "family": "", "kind": "", "origin": "file"},
        **{"problem_id": problem_id("", asked.shape), "entry_point": asked.entry_point},
    }
    if Path(asked.path).is_file():
        kernel = kernel_at(asked.path, asked.entry_point, asked.reference)
        named = kernel_fields(kernel, asked.shape)
    return Outcome(
        **named,
        **device_fields(device),
        params=asked.params,
        shape=asked.shape,
        verdict=Verdict.NOT_MEASURED,
        created=datetime.now(timezone.utc),
        chosen_by=asked.chosen_by,
        message=f"{len(ticket.ended)} benches ended while they had it: {ticket.ended[-1]}",
    )
