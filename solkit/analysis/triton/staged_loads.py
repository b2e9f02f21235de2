"""Loads that a pipeline keeps in registers until a later step of their loop.

AMD's pipeline requests the next step's tiles before the products of this one, and stores them to
shared memory after these. So the same buffer serves two steps, one of them in registers::

    for i:  next = load(i + 1);  dot(buffer);  buffer = next

A loop without a pipeline reads in the same step what it has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from solkit.adapters.triton_ir import Function, Operation

_STORE = "ttg.local_store"
_VIEW = "ttg.memdesc_"


def staged_loads(function: Function) -> frozenset[Operation]:
    """Return the loads whose data only a later step of their loop reads from shared memory."""
    buffers = _buffers(function)
    loops = (o for _, o, _ in function.walk() if o.name in ("scf.for", "scf.while"))
    bodies = [block.operations for loop in loops for block in loop.blocks]
    return frozenset(load for body in bodies for load in _staged(body, buffers))


def _buffers(function: Function) -> Mapping[str, str]:
    """Return the allocation behind each view of shared memory, also behind a loop's variables."""
    behind: dict[str, str] = {}
    for _, operation, _ in function.walk():
        if operation.name == "scf.for":
            loop = operation.loop
            behind |= {n: behind[s] for n, s in zip(loop.names, loop.starts) if s in behind}
        elif operation.name == "ttg.local_alloc":
            behind[operation.results[0]] = operation.results[0]
        elif operation.name.startswith(_VIEW) and operation.operands[0] in behind:
            behind[operation.results[0]] = behind[operation.operands[0]]
    return behind


def _staged(body: Sequence[Operation], buffers: Mapping[str, str]) -> Iterator[Operation]:
    makers = {result: operation for operation in body for result in operation.results}
    for place, store in enumerate(body):
        if store.name != _STORE or store.operands[1] not in buffers:
            continue
        buffer = buffers[store.operands[1]]
        before, after = (_reads(part, buffer, buffers) for part in (body[:place], body[place:]))
        if before and not after:
            yield from _loads_behind(store.operands[0], makers)


def _reads(operations: Sequence[Operation], buffer: str, buffers: Mapping[str, str]) -> bool:
    """Tell whether operations read a buffer, also those of regions within."""
    return any(
        buffers.get(operand) == buffer
        for outer in operations
        for operation in (outer, *(inner for block in outer.blocks for inner in block.walk()))
        if operation.name not in (_STORE, "scf.yield") and not operation.name.startswith(_VIEW)
        for operand in operation.operands
    )


def _loads_behind(value: str, makers: Mapping[str, Operation]) -> Iterator[Operation]:
    """Yield the loads of the same step that a value is made of."""
    pending, seen = [value], set[str]()
    while pending:
        name = pending.pop()
        maker = makers.get(name)
        if name in seen or maker is None:
            continue
        seen.add(name)
        if maker.name == "tt.load":
            yield maker
        else:
            pending += maker.operands
