"""The members of a bench of benches: what each was given, their clocks, and who is blamed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from solkit.core import Configuration, Device, Outcome, Verdict
from solkit.datasets.identifiers import problem_id
from solkit.datasets.kernels import kernel_at_path
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
    def held(self) -> list[Ticket]:
        """Tickets that the member has and the driver still wants."""
        groups = (*self.tickets.values(), *self.inbox)
        return [ticket for group in groups for ticket in group if not ticket.is_dropped]

    @property
    def load(self) -> int:
        """Number of configurations that it has."""
        return len(self.held)

    def gpu_s(self, now_s: float) -> float:
        """Return seconds for which its GPU was held; a virtual one always is."""
        if self.why is not None:
            return self.spent_s
        held_s = now_s - self.since_s if self.is_virtual else self.bench.clock.gpu_s()
        return self.spent_s + held_s

    def takes(self, group: Sequence[Ticket]) -> bool:
        """Tell whether the member has room for these now."""
        if self.why is not None or not self.fits(group):
            return False
        held = self.held
        if group[0].is_alone or any(ticket.is_alone for ticket in held):
            return not held
        return not held or len(held) + len(group) <= self.bench.capacity

    def fits(self, group: Sequence[Ticket]) -> bool:
        """Tell whether the member has the model of GPU that these are for."""
        return group[0].on in (None, self.device.key)

    def taken(self) -> list[list[Ticket]]:
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

    def answered(self, configuration: Configuration) -> Ticket:
        """Return the ticket of an outcome."""
        tickets = self.tickets[id(configuration)]
        ticket = tickets.pop(0)
        if not tickets:
            del self.tickets[id(configuration)]
        return ticket

    def emptied(self) -> list[list[Ticket]]:
        """Take back all that it has, in its groups."""
        groups: dict[int, list[Ticket]] = {}
        for ticket in self.held:
            groups.setdefault(ticket.group, []).append(ticket)
        self.inbox, self.tickets = [], {}
        return list(groups.values())


class SummedClock:
    """Wall time since opening; the GPU seconds of all members, summed."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members, self._opened_s = members, time.monotonic()

    def now_s(self) -> float:
        return time.monotonic() - self._opened_s

    def gpu_s(self) -> float:
        now_s = self.now_s()
        return sum(member.gpu_s(now_s) for member in self._members)


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
