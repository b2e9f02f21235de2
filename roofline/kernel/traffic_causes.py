"""Causes of extra traffic: what fills the memory that limits a launch.

Only what burdens that memory is named: reads that L2 serves again cost nothing where DRAM limits,
and scattered requests that L1 gathers cost nothing where L2 does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solkit.core import Access, Cause, Value
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.model import spill_traffic
from solkit.roofline.kernel.naming import ProblemNeeds, describe_cause, format_count

CAUSES = (
    *("bank conflicts", "bank conflicts of a turned operand", "bank conflicts of one's own layout"),
    *("busy shared memory", "contended atomics", "hand-over", "lost from L2", "narrow requests"),
    *(
        "few elements a lane",
        "hand-over of steps",
        "one element a request",
        "order of blocks",
        "read by several launches",
        "repeated reads",
        "scattered requests",
    ),
    *("several passes", "spills", "uncoalesced"),
)
"""The names of causes that are found here."""

_MATTERS = 1.05
_TELLING = 0.2  # of the bytes of the memory that limits
_ALSO = 0.1  # of the bytes that the worst access wastes
_COALESCED = 0.6  # of the bytes in a request's sectors
_MUCH = 0.3  # of a launch's time
_AGAIN = 1.5  # times its own size
_ALIKE = 0.02  # between what one launch writes and another reads
_NEARLY = 0.02
_WIDEST = 16  # bytes of one lane's access
_SECTOR, _LANES = 32, 32


# ----------------------------------------------------------------------------- between launches


@dataclass(frozen=True)
class _Use:
    """An access of one launch, and the bytes of its tensor that cross DRAM in it."""

    kernel: LaunchView
    access: Access

    @property
    def moved(self) -> float:
        one = self.kernel.distinct_bytes(self.access.argument, self.access.kind)
        return one * self.kernel.count


def between_launches(kernels: Sequence[LaunchView], needs: ProblemNeeds) -> Cause | None:
    """Name what several launches move through DRAM and one would not.

    Args:
        kernels: all launches.
        needs: of the problem.

    Tensors of two launches are the same if they share a storage. Where that is not known, as of
    CUDA C++, those are taken for one that one launch writes and a later one reads in whole, of the
    same size. The launches together must move so much more than the problem needs.
    """
    if sum(kernel.count for kernel in kernels) < 2:
        return None
    excess = sum(kernel.dram_bytes * kernel.count for kernel in kernels) - needs.dram_bytes
    ordered = sorted(kernels, key=lambda kernel: kernel.position)
    candidates = [
        *_handed_over(ordered, excess),
        *_handed_on(ordered, excess),
        *_read_again(ordered, excess),
    ]
    largest = max(candidates, key=lambda candidate: candidate[0], default=None)
    return largest[1] if largest and largest[0] > _TELLING * max(excess, 0.0) else None


def _largest_accesses(kernel: LaunchView, kind: str) -> list[_Use]:
    """Return the largest access of each argument, of one kind."""
    largest: dict[str, Access] = {}
    for access in kernel.demand.accesses:
        if not access.argument or access.kind != kind or not access.unique_bytes:
            continue
        previous = largest.get(access.argument, access)
        largest[access.argument] = max(
            previous, access, key=lambda candidate: candidate.unique_bytes
        )
    return [_Use(kernel, access) for access in largest.values()]


def _handed_over(kernels: Sequence[LaunchView], excess: float) -> Iterator[tuple[float, Cause]]:
    for at, writer in enumerate(kernels):
        for written in _largest_accesses(writer, "store"):
            readers = [
                use for other in kernels[at + 1 :] for use in _largest_accesses(other, "load")
            ]
            read = next((use for use in readers if _are_one_tensor(written, use)), None)
            if read is None or written.moved + read.moved > (1 + _TELLING) * excess:
                continue
            figures: dict[str, Value] = {
                "megabytes": written.moved / 1e6,
                "argument": written.access.argument,
                "reader": read.kernel.name,
                "read_as": _reading_argument(written, read),
            }
            cause = describe_cause("hand-over", writer, written.access, **figures)
            yield written.moved + read.moved, cause


def _handed_on(kernels: Sequence[LaunchView], excess: float) -> Iterator[tuple[float, Cause]]:
    """Yield what launches of one kind write for the next of them, as steps of an iteration do."""
    for kernel in kernels:
        between = 1 - 1 / kernel.count  # the first reads, and the last writes, for others
        for written in _largest_accesses(kernel, "store"):
            readers = _largest_accesses(kernel, "load")
            read = next((use for use in readers if _are_one_tensor(written, use)), None)
            moved = between * (written.moved + read.moved) if read else 0.0
            if (
                read is None
                or _are_apart(written, read)
                or not 0 < moved <= (1 + _TELLING) * excess
            ):
                continue
            figures: dict[str, Value] = {
                "megabytes": written.moved / kernel.count / 1e6,
                "argument": written.access.argument,
                "read_as": _reading_argument(written, read),
                "count": kernel.count,
            }
            yield moved, describe_cause("hand-over of steps", kernel, written.access, **figures)


def _are_one_tensor(one: _Use, other: _Use) -> bool:
    """Tell whether two uses of about the same bytes share a storage, as far as that is known."""
    share = _share_a_storage(one, other)
    return share is not False and abs(one.moved - other.moved) <= _ALIKE * one.moved


def _share_a_storage(one: _Use, other: _Use) -> bool | None:
    """Tell whether two uses share a storage; ``None`` if that is not known."""
    both = [use.kernel.kernel.launch.storages.get(use.access.argument) for use in (one, other)]
    return None if None in both else not set(both[0] or ()).isdisjoint(both[1] or ())


def _are_apart(written: _Use, read: _Use) -> bool:
    """Tell whether each of equal launches updates a tensor of its own in place."""
    launch = written.kernel.kernel.launch
    writes, reads = (launch.storages.get(use.access.argument) for use in (written, read))
    if writes is None or reads is None:
        return False
    return writes[0] == reads[0] and len(writes) == launch.count


def _reading_argument(written: _Use, read: _Use) -> str:
    """Return the argument that is read, marked where only its size says that it was written."""
    is_guess = _share_a_storage(written, read) is None
    return read.access.argument + (", to judge by its size" if is_guess else "")


def _read_again(kernels: Sequence[LaunchView], excess: float) -> Iterator[tuple[float, Cause]]:
    for at, kernel in enumerate(kernels):
        for use in _largest_accesses(kernel, "load"):
            again = [
                other
                for later in kernels[at + 1 :]
                for other in _largest_accesses(later, "load")
                if _are_one_tensor(use, other)
                and (_share_a_storage(use, other) or other.access.argument == use.access.argument)
            ]
            extra = sum(other.moved for other in again)
            if not again or extra > (1 + _TELLING) * excess:
                continue
            names = dict.fromkeys((kernel.name, *(other.kernel.name for other in again)))
            figures: dict[str, Value] = {
                "argument": use.access.argument,
                "launches": len(again) + 1,
                "kernels": ", ".join(names),
                "megabytes": use.moved / 1e6,
            }
            yield extra, describe_cause("read by several launches", kernel, use.access, **figures)


# --------------------------------------------------------------------------------- in one launch


def in_a_launch(kernel: LaunchView) -> Cause | None:
    """Name what fills the memory that limits a launch."""
    memory = kernel.memory
    if memory in ("dram", "l2", "l1"):
        return in_memory(kernel, memory)
    if memory == "shared":
        return _in_shared_memory(kernel)
    return contended(kernel)


def in_memory(kernel: LaunchView, memory: str) -> Cause | None:
    """Name what fills one memory of a launch: ``"dram"``, ``"l2"`` or ``"l1"``."""
    moved = _moved_bytes(kernel, memory)
    if _spilled_bytes(kernel, memory) > max(moved - _spilled_bytes(kernel, memory), 0.0):
        return explain_spills(kernel)
    attributed = [access for access in kernel.demand.accesses if access.argument]
    if not attributed:  # its location and so its sectors
        return None
    wasteful = sorted(attributed, key=lambda access: -_wasted_bytes(access, memory))
    if _wasted_bytes(wasteful[0], memory) > _TELLING * moved:
        cause = _of_waste(wasteful[0], kernel, memory)
        if cause is not None:
            alike = [
                access
                for access in wasteful
                if _wasted_bytes(access, memory) > _ALSO * _wasted_bytes(wasteful[0], memory)
                and (waste := _of_waste(access, kernel, memory))
                and waste.name == cause.name
            ]
            return Cause(cause.name, {**cause.figures, **_further_lines_sentence(cause, alike)})
    if memory == "dram":
        return _explain_evictions(kernel)
    if memory == "l2":
        return _repeated(kernel, attributed, moved)
    most = max(access.sector_bytes for access in attributed)
    telling = [access for access in attributed if access.sector_bytes >= _TELLING * most]
    return _shared_by_lanes(kernel, telling) or narrowest(kernel, telling)


def _shared_by_lanes(kernel: LaunchView, attributed: Sequence[Access]) -> Cause | None:
    """Return the loads with most requests, if each of these is for one element of all lanes."""
    most = max(attributed, key=lambda access: access.requests)
    if most.kind != "load" or most.path == "tma" or _is_apart(most):
        return None
    return describe_cause("one element a request", kernel, most, requests=most.requests)


def _further_lines_sentence(cause: Cause, alike: Sequence[Access]) -> dict[str, Value]:
    """Return a sentence on further lines of the same cause; empty if there are none."""
    lines = dict.fromkeys(access.line for access in alike if access.line)
    others = [line for line in lines if line != cause.figures["place"]]
    return {"also": f"The same holds for {', '.join(others)}. " if others else ""}


def _moved_bytes(kernel: LaunchView, memory: str) -> float:
    """Count bytes through a memory, as its time counts them."""
    demand = kernel.demand
    spilled_bytes = _spilled_bytes(kernel, memory)
    if memory == "dram":
        return kernel.dram_bytes + spilled_bytes
    if memory == "l2":
        return demand.l2_read_bytes + demand.l2_write_bytes + spilled_bytes
    return sum(access.sector_bytes for access in demand.accesses) + spilled_bytes


def _spilled_bytes(kernel: LaunchView, memory: str) -> float:
    stacks, level = spill_traffic(kernel.kernel, kernel.device)
    crossed = ("l2", "dram") if level == "dram" else (level,)
    return stacks if memory in crossed else 0.0


def _wasted_bytes(access: Access, memory: str) -> float:
    """Count bytes of sectors that nobody requested; L1 gathers those that a block's loads share."""
    sectors = access.sectors if memory == "l1" or access.kind != "load" else access.block_sectors
    return _SECTOR * sectors - access.requested_bytes


def _of_waste(access: Access, kernel: LaunchView, memory: str) -> Cause | None:
    """Return an access whose requests touch much more than they request."""
    per_request = access.sectors / max(access.requests, 1)
    least = max(access.requested_bytes / max(access.requests, 1) / _SECTOR, 1.0)
    figures: dict[str, Value] = {
        "kind": access.kind,
        "sectors": access.sectors,
        "megabytes": access.requested_bytes / 1e6,
        "percent": 100 * access.efficiency,
        "per_request": per_request,
        "least": least,
    }
    gathered = _SECTOR * access.block_sectors < 0.7 * access.sector_bytes
    if memory == "l1" and gathered and per_request < 2 * least:
        return narrowest(kernel, [access])
    if access.efficiency >= _COALESCED:
        return None
    return describe_cause(
        "scattered requests" if gathered else "uncoalesced", kernel, access, **figures
    )


def narrowest(kernel: LaunchView, attributed: Sequence[Access]) -> Cause | None:
    """Return the access with most requests, if its lanes move less than they could.

    Requests whose lanes want one element, or the same ones, could be no wider.
    """
    several = [a for a in attributed if _is_apart(a)]
    most = max(several, key=lambda access: access.requests, default=None)
    if most is None or most.vector_bytes >= _WIDEST or most.path == "tma":
        return None
    figures: dict[str, Value] = {
        "wide": format_count(most.vector_bytes, "byte"),
        "vector_bytes": most.vector_bytes,
        "requests": most.requests,
    }
    name = "few elements a lane" if _in_one_request(kernel, most) else "narrow requests"
    return describe_cause(name, kernel, most, kind=most.kind, **figures)


def _is_apart(access: Access) -> bool:
    """Tell if the lanes of its requests want elements of their own."""
    return access.vector_bytes * access.requests < access.requested_bytes <= access.sector_bytes


def _in_one_request(kernel: LaunchView, access: Access) -> bool:
    """Tell if a Triton warp makes one request each time: its lanes have no more to move."""
    if kernel.is_cuda:
        return False  # a thread may take more elements of a row
    per_warp = access.requests / max(kernel.blocks * kernel.kernel.launch.num_warps, 1)
    # `steps` adds up all loops and the code before them; `iterations` are those of one
    times = (1.0, max(kernel.demand.steps, 1.0), max(kernel.demand.iterations, 1.0))
    return any(abs(per_warp - expected) <= _NEARLY * expected for expected in times)


def _explain_evictions(kernel: LaunchView) -> Cause | None:
    """Explain reads from DRAM of what L2 held before: of the argument with most such bytes."""
    again = kernel.read_again_bytes()
    first = kernel.demand.dram_read_bytes - sum(again.values())
    argument = max(again, key=lambda name: again[name], default="")
    loads = [a for a in kernel.demand.accesses if a.kind == "load" and a.argument == argument]
    if sum(again.values()) <= (_AGAIN - 1) * first or not argument or not loads:
        return None
    of_blocks = max(loads, key=lambda access: access.requested_bytes - access.unique_bytes)
    by_blocks = of_blocks.requested_bytes - of_blocks.unique_bytes
    by_passes = _of_passes(kernel, loads)
    if max(by_blocks, by_passes) <= (_AGAIN - 1) * of_blocks.unique_bytes:
        return describe_cause("lost from L2", kernel, loads[-1], argument=argument)
    if by_passes > by_blocks:
        return _repeated_passes(kernel, loads)
    times = of_blocks.requested_bytes / of_blocks.unique_bytes
    return describe_cause("order of blocks", kernel, of_blocks, argument=argument, times=times)


def _repeated(kernel: LaunchView, attributed: Sequence[Access], moved: float) -> Cause | None:
    """Explain reads of the same bytes through L2: by several blocks, or several loads of one."""
    loads = [access for access in attributed if access.kind == "load" and access.unique_bytes]
    again = max(loads, key=lambda a: a.requested_bytes - a.unique_bytes, default=None)
    if again is None:
        return None
    if again.requested_bytes - again.unique_bytes > _TELLING * moved:
        times = again.requested_bytes / again.unique_bytes
        return describe_cause("repeated reads", kernel, again, argument=again.argument, times=times)
    by_argument: dict[str, list[Access]] = {}
    for access in loads:
        by_argument.setdefault(access.argument, []).append(access)
    passes = max(by_argument.values(), key=lambda accesses: _of_passes(kernel, accesses))
    return (
        _repeated_passes(kernel, passes) if _of_passes(kernel, passes) > _TELLING * moved else None
    )


def _repeated_passes(kernel: LaunchView, loads: Sequence[Access]) -> Cause:
    """Several loads of one argument that read the same bytes, one after the other."""
    argument = loads[0].argument
    distinct = kernel.distinct_bytes(argument, "load")
    times = sum(access.unique_bytes for access in loads) / max(distinct, 1.0)
    return describe_cause("several passes", kernel, loads[-1], argument=argument, times=times)


def _of_passes(kernel: LaunchView, loads: Sequence[Access]) -> float:
    """Count bytes that further loads of an argument read again; parts that differ are read once."""
    read = sum(access.unique_bytes for access in loads)
    return max(read - kernel.distinct_bytes(loads[0].argument, "load"), 0.0)


def explain_spills(kernel: LaunchView) -> Cause:
    """Explain registers, or an array, in local memory."""
    guesses = kernel.demand.guesses
    array = any("array in local memory" in guess for guess in guesses)
    words = kernel.kernel.facts.spills or 0
    what = "keeps an array in local memory" if array else f"spills {words} words per thread"
    return describe_cause("spills", kernel, words=words, what=what)


def _in_shared_memory(kernel: LaunchView) -> Cause | None:
    if kernel.traffic_ms >= _MATTERS * kernel.without_conflicts_ms():
        return _conflicts(kernel)
    worst = max(kernel.demand.shared, key=lambda access: access.wavefronts, default=None)
    if worst is None:
        return None
    share = 100 * worst.wavefronts / sum(access.wavefronts for access in kernel.demand.shared)
    cause = describe_cause("busy shared memory", kernel, kind=worst.kind, percent=share)
    return Cause(cause.name, {**cause.figures, "place": worst.line or kernel.name})


def _conflicts(kernel: LaunchView) -> Cause:
    """Source for wgmma: PTX ISA, wgmma.mma_async: only f16 and bf16 may be transposed."""
    worst = max(
        kernel.demand.shared, key=lambda access: access.wavefronts - access.least_wavefronts
    )
    figures: dict[str, Value] = {
        "place": worst.line,
        "kind": worst.kind,
        "wavefronts": worst.wavefronts / worst.requests,
        "least": worst.least_wavefronts / worst.requests,
    }
    pipes = (pipe.removeprefix("tensor.") for pipe in kernel.demand.operations)
    turned = [pipe for pipe in pipes if pipe in ("tf32", "fp8", "int8")]
    if turned and worst.kind == "store" and kernel.demand.tensor_shared_bytes:
        return describe_cause(
            "bank conflicts of a turned operand", kernel, None, **figures, dtype=turned[0]
        )
    if kernel.is_cuda:
        return describe_cause("bank conflicts of one's own layout", kernel, None, **figures)
    return describe_cause("bank conflicts", kernel, None, **figures)


def contended(kernel: LaunchView) -> Cause | None:
    """Atomics that wait for one another for much of the time, at one a clock and address."""
    met = [(access, *_atomic_contention(access)) for access in kernel.demand.accesses]
    access, operations, addresses = max(met, key=lambda meeting: meeting[1], default=(None, 0, 1))
    waiting_ms = operations / (1e3 * kernel.device.clock_mhz)
    if access is None or not operations:
        return None
    if kernel.memory != "atomics" and waiting_ms < _MUCH * kernel.running():
        return None
    figures: dict[str, Value] = {"operations": operations, "addresses": addresses}
    return describe_cause("contended atomics", kernel, access, **figures)


def _atomic_contention(access: Access) -> tuple[int, int]:
    """Atomics at the busiest address, and addresses; no fewer than the mean meet at one."""
    met = access.contention
    if met is None or not met.operations:
        return 0, 1
    element_bytes = max(access.requested_bytes // met.operations, 1)
    addresses = max(min(met.addresses, access.unique_bytes // element_bytes), 1)
    return max(met.busiest_address, met.operations // addresses), addresses
