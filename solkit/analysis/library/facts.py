"""Facts of PyTorch operators, and their places among a candidate's own launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from solkit.analysis.library.operator_recorder import LibraryLaunch, LibraryOp
from solkit.core import Access, Depth, Device, Facts, Launch, Requests, Reuse, Stream
from solkit.roofline.precision_routes import Rule, contraction_dtype

T = TypeVar("T")


def library_facts(launch: LibraryLaunch, device: Device, depth: Depth) -> Facts:
    """Return the facts of an operator's launch.

    Args:
        launch: as recorded.
        device: the target; facts depend only on which pipes it has.
        depth: of the analysis around it; an operator's facts are the same at each.
    """
    op = launch.op
    op_launch = Launch(op.name, (0, 0, 0), 0, 0, count=launch.count, library=True, line=op.line)
    routes = Rule("declared", None).routes(dict(op.operations), device)
    pipes = tuple((dtype, route.pipe) for dtype, route in routes.items())
    return Facts(op_launch, depth, requests=_requests(op, pipes), notes=op.notes)


@functools.lru_cache(maxsize=1024)
def _requests(op: LibraryOp, pipes: tuple[tuple[str, str], ...]) -> Requests:
    """Everything crosses DRAM once: what a library's kernel keeps on the chip is unknown.

    A sort's results cross once a pass, unless L2 still holds them.
    """
    again = op.sorting.passes - 1 if op.sorting else 0
    loads = [access for access in op.accesses if access.kind == "load"]
    stores = [access for access in op.accesses if access.kind == "store"]
    results = sum(store.unique_bytes for store in stores)
    return Requests(
        accesses=op.accesses,
        operations=_operations_by_pipe(op, dict(pipes)),
        l1_wavefronts=sum(a.sectors for a in loads if a.sector_bytes > 2 * a.unique_bytes),
        l2_read_bytes=sum(load.sector_bytes for load in loads) + again * results,
        l2_write_bytes=(1 + again) * results,
        reuse=Reuse(
            (*_access_streams(loads), *_repeated(stores, results, again, cold=False)),
            _repeated(stores, results, again) if again else _access_streams(stores),
        ),
        shared=op.sorting.shared if op.sorting else (),
    )


def _access_streams(accesses: Iterable[Access]) -> tuple[Stream, ...]:
    return tuple(Stream(access.unique_bytes) for access in accesses)


def _repeated(
    stores: Iterable[Access], results: int, again: int, cold: bool = True
) -> tuple[Stream, ...]:
    """Return streams of results that several passes move: all lie between two passes over one."""
    if not again:
        return ()
    sizes = [store.unique_bytes for store in stores]
    return tuple(Stream(size * cold, (results,), (again * size,)) for size in sizes)


def _operations_by_pipe(op: LibraryOp, pipes: Mapping[str, str]) -> dict[str, int]:
    by_pipe: dict[str, int] = {}
    for kind, count in op.operations:
        dtype = contraction_dtype(kind)
        pipe = pipes[dtype] if dtype else kind
        by_pipe[pipe] = by_pipe.get(pipe, 0) + count
    return by_pipe


def with_operators(
    own: Sequence[T],
    library: Sequence[LibraryLaunch],
    device: Device,
    depth: Depth,
    convert: Callable[[Facts], T],
) -> list[T]:
    """Return a candidate's own launches with PyTorch's operators among them, in order.

    Args:
        own: its own launches, in order.
        library: as recorded.
        device: as for `library_facts`.
        depth: likewise.
        convert: what stands among `own` for an operator's facts.
    """
    if not library:
        return list(own)
    merged: list[T] = []
    waiting = sorted(library, key=lambda operator: operator.after)  # keeps the order of equals
    for number, launch in enumerate(own):
        while waiting and waiting[0].after <= number:
            merged.append(convert(library_facts(waiting.pop(0), device, depth)))
        merged.append(launch)
    return merged + [convert(library_facts(operator, device, depth)) for operator in waiting]
