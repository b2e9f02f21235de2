"""Operations of a kernel that access global memory, and values that decide where."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from solkit.adapters.triton_ir import Block, Function, Operation

LOADS = {"tt.load", "ttg.async_copy_global_to_local"}
STORES = {"tt.store"}
ATOMICS = {"tt.atomic_rmw", "tt.atomic_cas"}
TMA_LOADS = {"ttng.async_tma_copy_global_to_local", "tt.descriptor_load"}
TMA_STORES = {
    *("ttng.async_tma_copy_local_to_global", "tt.descriptor_store"),
    *("ttng.async_tma_reduce", "tt.descriptor_reduce"),
}
_COPY = "ttg.async_copy_global_to_local"
SHARED_VIEWS = {
    *("ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.memdesc_subview", "ttg.memdesc_trans"),
    *("ttg.memdesc_reshape", "ttg.memdesc_reinterpret"),
}
"""Operations that give a part, or another form, of a buffer in shared memory: their first operand.
"""
ACCESSES = LOADS | STORES | ATOMICS | TMA_LOADS | TMA_STORES


@dataclass(frozen=True)
class RelevantValues:
    """The values of a kernel that have to be computed.

    Attributes:
        relevant: that addresses, masks, loop bounds and branches derive from.
        whole: those of them that reductions and scans derive from: corners of tensors do not
            suffice for these.
    """

    relevant: frozenset[str]
    whole: frozenset[str]


def relevant_values(blocks: Sequence[Block]) -> RelevantValues:
    """Return a kernel's relevant values."""
    relevant = _relevant_values(blocks)
    return RelevantValues(relevant, _whole_values(blocks, relevant))


def _relevant_values(blocks: Sequence[Block]) -> frozenset[str]:
    """Return the values that addresses, masks, loop bounds and branches derive from."""
    steering: set[str] = set()
    operations = [operation for block in blocks for operation in block.walk()]
    for operation in operations:
        for name in _steering(operation):
            steering.add(name)
    feeds = _sources_by_result(operations)
    return _reached_names(feeds, steering)


def values_behind(blocks: Sequence[Block], names: Iterable[str]) -> frozenset[str]:
    """Return these values and all that they derive from, through memory as well."""
    operations = [operation for block in blocks for operation in block.walk()]
    return _reached_names(_feeds_of_loads(operations), names)


def pointer_roots(function: Function) -> Callable[[str], frozenset[str]]:
    """Return a function that gives the pointer arguments that a pointer is computed from."""
    feeds = _sources_by_result([inner for block in function.blocks for inner in block.walk()])
    pointers = {name for name, kind in function.arguments if "ptr" in str(kind)}
    return functools.cache(lambda name: _reached_names(feeds, [name]) & pointers)


def _feeds_of_loads(operations: Sequence[Operation]) -> Mapping[str, Sequence[str]]:
    """Return what each value is computed from; of loads also where, and under which mask."""
    feeds = _sources_by_result(operations)
    for operation in operations:
        if operation.name in LOADS:
            mask = mask_operand(operation)
            feeds[operation.results[0]] += [operation.operands[0], *([mask] if mask else [])]
    return feeds


def _reached_names(leads: Mapping[str, Sequence[str]], names: Iterable[str]) -> frozenset[str]:
    """Return these names and those that they lead to."""
    reached = set(names)
    queue = list(reached)
    while queue:
        for name in leads.get(queue.pop(), ()):
            if name not in reached:
                reached.add(name)
                queue.append(name)
    return frozenset(reached)


def steering_values(blocks: Sequence[Block]) -> frozenset[str]:
    """Masks, loop bounds and conditions."""
    names: set[str] = set()
    for operation in (operation for block in blocks for operation in block.walk()):
        mask = mask_operand(operation) if operation.name in ACCESSES else None
        names.update([mask] if mask else [])
        if operation.name not in ACCESSES and operation.name != "ttng.tensormap_create":
            names.update(_steering(operation))
    return frozenset(names)


def _whole_values(blocks: Sequence[Block], relevant: frozenset[str]) -> frozenset[str]:
    """Return the relevant values that reductions and scans of relevant results derive from."""
    operations = [operation for block in blocks for operation in block.walk()]
    folded = {
        name
        for operation in operations
        if operation.name in ("tt.reduce", "tt.scan") and not relevant.isdisjoint(operation.results)
        for name in (
            *operation.operands,
            *(operation.results if operation.name == "tt.scan" else ()),
        )
    }
    return _reached_names(_feeds_of_loads(operations), folded) & relevant if folded else frozenset()


def from_memory(blocks: Sequence[Block]) -> frozenset[str]:
    """Return the values that are computed from loaded ones."""
    loads = (operation for block in blocks for operation in block.walk() if operation.name in LOADS)
    return _computed_from(blocks, (name for load in loads for name in load.results))


def scattered_values(function: Function, distinct: Container[str] = frozenset()) -> frozenset[str]:
    """Return the values with which an access goes to several places that memory names.

    A number that is loaded once names one place for a whole program, such as an expert's weights:
    two programs with equal ends touch the same there. Several numbers, or a new one in each
    iteration of a loop, do not show by their ends what lies between.

    Args:
        function: the kernel.
        distinct: loaded values that are known to name each place once, which need not be told
            apart.
    """
    return _computed_from(
        function.blocks,
        (
            name
            for _, operation, depth in function.walk()
            if operation.name in LOADS and (depth or operation.all_types[0].shape != ())
            for name in operation.results
            if name not in distinct
        ),
    )


_CARRYING = {"scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "ttg.warp_yield"}
_CARRYING |= {"ttg.warp_specialize", "ttg.warp_return", "tt.return"}
"""Operations that hand values on as `_sources_of_results` says, or not at all."""


def may_read(function: Function, argument: str) -> bool:
    """Tell if a kernel may read what an argument points to, as its code says.

    It does not where the pointer, and all that is computed from it, only says where to store.
    """
    pointers = _computed_from(function.blocks, [argument])
    return any(
        _may_load(operation, pointers) for block in function.blocks for operation in block.walk()
    )


def _may_load(operation: Operation, pointers: frozenset[str]) -> bool:
    """Tell if an operation may load from pointers, or hands them to where they are not seen."""
    taken = [n for n, operand in enumerate(operation.operands) if operand in pointers]
    if not taken:
        return False
    if operation.name in STORES:
        return taken != [0]
    if operation.name in TMA_STORES:
        return "reduce" in operation.name
    if operation.name in ACCESSES or operation.name.startswith("cf."):
        return True
    if operation.name in _CARRYING:
        return False
    return not operation.results or bool(operation.blocks)


def _computed_from(blocks: Sequence[Block], names: Iterable[str]) -> frozenset[str]:
    """Return these values and those that are computed from them."""
    operations = [operation for block in blocks for operation in block.walk()]
    leads: dict[str, list[str]] = {}
    for result, sources in _sources_by_result(operations).items():
        for source in sources:
            leads.setdefault(source, []).append(result)
    return _reached_names(leads, names)


def _sources_by_result(operations: Sequence[Operation]) -> defaultdict[str, list[str]]:
    """Return what each value is computed from, also through shared memory."""
    feeds: defaultdict[str, list[str]] = defaultdict(list)
    for operation in operations:
        for result, sources in _sources_of_results(operation):
            feeds[result].extend(sources)
    reads = [operation for operation in operations if operation.name == "ttg.local_load"]
    if reads:
        roots = _allocation_finder(operations, feeds)
        written: defaultdict[str, list[str]] = defaultdict(list)
        for operation in operations:
            for buffer, sources in _shared_writes(operation):
                for root in roots(buffer):
                    written[root].extend(sources)
        for read in reads:
            for root in roots(read.operands[0]):
                feeds[read.results[0]].extend(written[root])
    return feeds


def _shared_writes(operation: Operation) -> Iterator[tuple[str, Sequence[str]]]:
    """(buffer in shared memory, what a write of it needs and gives); a copy is its token."""
    if operation.name == _COPY:
        yield operation.operands[1], [operation.operands[1], operation.results[0]]
    elif operation.name == "ttg.local_store":
        yield operation.operands[1], operation.operands[1::-1]
    elif operation.name == "ttg.local_alloc":
        yield operation.results[0], [operation.results[0], *operation.operands[:1]]


def _allocation_finder(
    operations: Sequence[Operation], feeds: Mapping[str, Sequence[str]]
) -> Callable[[str], frozenset[str]]:
    """Return a function that gives the allocations behind a view of shared memory."""
    allocations = {
        operation.results[0] for operation in operations if operation.name == "ttg.local_alloc"
    }
    views = {
        operation.results[0]: operation.operands[0]
        for operation in operations
        if operation.name in SHARED_VIEWS
    }

    @functools.cache
    def roots(name: str) -> frozenset[str]:
        seen, queue = {name}, [name]
        while queue:
            current = queue.pop()
            if current in allocations:
                continue
            for source in [views[current]] if current in views else feeds.get(current, ()):
                if source not in seen:
                    seen.add(source)
                    queue.append(source)
        return frozenset(seen & allocations)

    return roots


def _steering(operation: Operation) -> Iterator[str]:
    name = operation.name
    if name in TMA_LOADS | TMA_STORES or name == "ttng.tensormap_create":
        yield from operation.operands
    elif name in ACCESSES:
        yield operation.operands[0]
        mask = mask_operand(operation)
        if mask is not None:
            yield mask
    elif name == "scf.for":
        yield from operation.loop.bounds
    elif name in ("scf.if", "cf.cond_br", "scf.condition"):
        yield operation.operands[0]


def _sources_of_results(operation: Operation) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield (value, the values that it is computed from), also through regions."""
    if operation.name in ("scf.for", "scf.if", "scf.while", "ttg.warp_specialize"):
        yield from _region_sources(operation)
    elif operation.name in LOADS:  # its result if the mask is off
        other = other_of(operation)
        yield operation.results[0], [other] if other else []
    elif operation.name == "ttg.local_load":  # its token orders it
        yield operation.results[0], operation.operands[:1]
    elif operation.name == "ttg.local_alloc":  # `_sources_by_result` knows what it holds
        yield operation.results[0], []
    elif operation.name == "tt.atomic_rmw":  # of a counter, what each adds
        yield from ((result, operation.operands[1:2]) for result in operation.results)
    elif operation.name not in ACCESSES:
        yield from ((result, operation.operands) for result in operation.results)


def _region_sources(operation: Operation) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the same for an operation with regions: what enters them, and what they yield."""
    if operation.name == "scf.for":
        loop, body = operation.loop, operation.blocks[0]
        last = body.operations[-1].operands if body.operations else ()
        for i, (name, start) in enumerate(zip(loop.names, loop.starts, strict=True)):
            sources = [start, *last[i : i + 1]]
            yield name, sources
            if i < len(operation.results):
                yield operation.results[i], [name, *sources]
    elif operation.name == "scf.if":
        for block in operation.blocks:
            yielded = block.operations[-1].operands if block.operations else ()
            yield from ((r, [y]) for r, y in zip(operation.results, yielded, strict=False))
    elif operation.name == "scf.while":
        yield from _while_sources(operation)
    else:
        for block in operation.blocks:
            yield from ((a, [o]) for a, o in zip(block.arguments, operation.operands, strict=False))


def _while_sources(operation: Operation) -> Iterator[tuple[str, Sequence[str]]]:
    before, after = operation.blocks
    names = re.findall(r"(%[\w$.\-]+) = (%[\w$.\-#]+)", operation.text)
    passed, yielded = before.operations[-1].operands[1:], after.operations[-1].operands
    for (name, start), back in zip(names, yielded, strict=False):
        yield name, [start, back]
    yield from ((a, [p]) for a, p in zip(after.arguments, passed, strict=False))
    yield from ((r, [p]) for r, p in zip(operation.results, passed, strict=False))


def mask_operand(operation: Operation) -> str | None:
    """Return the operand that is the mask: the one of type i1."""
    if operation.name == _COPY:
        return _operand_behind_word(operation, "mask")
    if operation.name == "tt.load":
        return operation.operands[1] if len(operation.operands) > 1 else None
    if operation.name in ("tt.store", "tt.atomic_rmw"):
        return operation.operands[2] if len(operation.operands) > 2 else None
    if operation.name == "tt.atomic_cas":  # Triton's own has no mask
        return operation.operands[3] if len(operation.operands) > 3 else None
    return None


def other_of(operation: Operation) -> str | None:
    """Return the operand that a load gives where its mask is off."""
    if operation.name == _COPY:
        return _operand_behind_word(operation, "other")
    if operation.name == "tt.load":
        return operation.operands[2] if len(operation.operands) > 2 else None
    return None


def _operand_behind_word(operation: Operation, word: str) -> str | None:
    """Return the operand that stands behind a word."""
    match = re.search(rf"\b{word} (%[\w$.\-]+(?:#\d+)?)", operation.text)
    return match.group(1) if match else None
