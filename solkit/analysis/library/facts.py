"""Facts of PyTorch operators, and their places among a candidate's own launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from solkit.analysis.library.watching import LibraryLaunch, LibraryOp
from solkit.core import Access, Depth, Device, Facts, Launch, Requests, Reuse, Stream
from solkit.roofline.precision import Rule, contraction_dtype

__all__ = ["library_facts", "with_operators"]

T = TypeVar("T")


def library_facts(launch: LibraryLaunch, device: Device, depth: Depth) -> Facts:
    """The facts of an operator's launch.

    Args:
        launch: as recorded.
        device: the target; facts depend only on which pipes it has.
        depth: of the analysis around it; an operator's facts are the same at each.
    """
    op = launch.op
    made = Launch(op.name, (0, 0, 0), 0, 0, count=launch.count, library=True, line=op.line)
    routes = Rule("declared", None).routes(dict(op.operations), device)
    pipes = tuple((dtype, route.pipe) for dtype, route in routes.items())
    return Facts(made, depth, requests=_requests(op, pipes), notes=op.notes)


@functools.lru_cache(maxsize=1024)
def _requests(op: LibraryOp, pipes: tuple[tuple[str, str], ...]) -> Requests:
    """Everything crosses L2 and DRAM once: what a library's kernel keeps on the chip is unknown."""
    loads = [each for each in op.accesses if each.kind == "load"]
    stores = [each for each in op.accesses if each.kind == "store"]
    return Requests(
        accesses=op.accesses,
        operations=_by_pipe(op, dict(pipes)),
        l1_wavefronts=0,
        l2_read_bytes=sum(each.unique_bytes for each in loads),
        l2_write_bytes=sum(each.unique_bytes for each in stores),
        reuse=Reuse(_streams(loads), _streams(stores)),
    )


def _streams(accesses: Iterable[Access]) -> tuple[Stream, ...]:
    return tuple(Stream(each.unique_bytes) for each in accesses)


def _by_pipe(op: LibraryOp, pipes: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, count in op.operations:
        dtype = contraction_dtype(kind)
        pipe = pipes[dtype] if dtype else kind
        found[pipe] = found.get(pipe, 0) + count
    return found


def with_operators(
    own: Sequence[T],
    library: Sequence[LibraryLaunch],
    device: Device,
    depth: Depth,
    made: Callable[[Facts], T],
) -> list[T]:
    """A candidate's own launches with PyTorch's operators among them, in order.

    Args:
        own: its own launches, in order.
        library: as recorded.
        device: as for `library_facts`.
        depth: likewise.
        made: what stands among `own` for an operator's facts.
    """
    if not library:
        return list(own)
    found: list[T] = []
    waiting = sorted(library, key=lambda each: each.after)  # keeps the order of equals
    for number, launch in enumerate(own):
        while waiting and waiting[0].after <= number:
            found.append(made(library_facts(waiting.pop(0), device, depth)))
        found.append(launch)
    return found + [made(library_facts(each, device, depth)) for each in waiting]
