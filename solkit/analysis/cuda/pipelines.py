"""Steps that a loop's asynchronous copies run ahead, as its assembly tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class _Event:
    """An instruction that matters to a pipeline.

    Attributes:
        kind: ``"commit"``, ``"wait"``, ``"use"`` of shared memory, ``"label"`` or ``"branch"``.
        name: of the label.
        groups: of copies that may stay in flight past a wait.
    """

    kind: str
    name: str = ""
    groups: int = 0


_EVENT = re.compile(
    r"(?P<commit>cp\.async\.commit_group)"
    r"|cp\.async\.wait_group\s+(?P<wait>\d+)"
    r"|(?P<use>\bld(?:matrix\S*)?\.(?:\w+\.)*shared|\bwgmma\.mma_async)"
    r"|^\s*(?P<label>\$\w+):"
    r"|\bbra(?:\.uni)?\s+(?P<branch>\$\w+)",
    re.MULTILINE,
)


def stages_of(ptx: str, entry: str) -> int:
    """Return the buffers of a kernel's pipeline; 1 if it has none.

    ``cp.async.wait_group N`` leaves N groups in flight. A step that uses the tile between its own
    copy and the next wait has one more under way, as Triton's pipelines do. Bulk copies signal
    barriers, two a buffer: while one buffer is read, copies into all others are under way.

    Args:
        ptx: the assembly of a source.
        entry: the kernel's mangled name.
    """
    body = _kernel_body(ptx, entry)
    events = [_pipeline_event(match) for match in _EVENT.finditer(body)]
    waits = [i for i, event in enumerate(events) if event.kind == "wait"]
    if waits:
        most = max(events[i].groups for i in waits)
        last = [i for i in waits if events[i].groups == most][-1]
        return 1 + most + _uses_before(_events_of_turn(events, last))
    barriers = len(re.findall(r"\bmbarrier\.init", body))
    if barriers > 1 and re.search(r"\bcp\.async\.(mbarrier|bulk)", body):
        return max(barriers // 2, 2)  # of each buffer one says full, and often one says empty
    return 1


def _kernel_body(ptx: str, entry: str) -> str:
    """Return a kernel's text between its braces; inline assembly has braces of its own."""
    start = re.search(rf"\.entry\s+{re.escape(entry)}\b", ptx)
    if start is None:
        return ""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(ptx, start.end()):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return ptx[start.end() : brace.start()]
    return ptx[start.end() :]


def _pipeline_event(match: re.Match[str]) -> _Event:
    kind = match.lastgroup or ""
    if kind == "wait":
        return _Event(kind, groups=int(match[kind]))
    return _Event(kind, match[kind] if kind in ("label", "branch") else "")


def _events_of_turn(events: Sequence[_Event], wait: int) -> list[_Event]:
    """List what happens between a wait and the one before it, going round the loop around it."""
    places = {event.name: i for i, event in enumerate(events) if event.kind == "label"}
    back = next(
        (
            i
            for i in range(wait, len(events))
            if events[i].kind == "branch" and places.get(events[i].name, i) < wait
        ),
        None,
    )
    if back is None:
        return list(events[:wait])
    return [*events[wait:back], *events[places[events[back].name] : wait]]


def _uses_before(turn: Sequence[_Event]) -> bool:
    """Tell whether shared memory is read between the last copy and the wait that ends the turn."""
    for event in reversed(turn):
        if event.kind in ("use", "commit"):
            return event.kind == "use"
    return False
