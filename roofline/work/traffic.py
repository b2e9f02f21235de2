"""Bytes that must cross DRAM: inputs that the results depend on, and the results, once each.

The ops that matter (`demand`) tell which elements of which inputs are read. Everything in between
may stay on the chip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from solkit.roofline.work.avoidable_work import surely_read, surely_written
from solkit.roofline.work.program import Program, TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes


@dataclass(frozen=True)
class Traffic:
    """Compulsory DRAM traffic of a program, in bytes.

    Attributes:
        reads, writes: bytes of the roofline by storage.
        hard_read_bytes, hard_write_bytes: of these, what no data, algebra or assumption saves.
        assumptions: what the rest assumes, each a sentence.
    """

    reads: Mapping[int, int]
    writes: Mapping[int, int]
    hard_read_bytes: int
    hard_write_bytes: int
    assumptions: tuple[str, ...]

    @property
    def read_bytes(self) -> int:
        """Bytes read, over all storages."""
        return sum(self.reads.values())

    @property
    def write_bytes(self) -> int:
        """Bytes written, over all storages."""
        return sum(self.writes.values())


def traffic(program: Program, live: Sequence[TracedOp]) -> Traffic:
    """Return the bytes that any implementation moves, given the ops that matter."""
    read = _inputs(program, live)
    sure = surely_read(program, live)
    unsure = [op for op in live if any(not use.sure for use in (*op.inputs, *op.written))]
    return Traffic(
        reads={storage: reads.bytes(lambda _: True) for storage, reads in read.items()},
        writes=_written_bytes(program, live, [use for op in live for use in op.written]),
        hard_read_bytes=sum(
            reads.bytes(lambda use: use.sure) for storage, reads in read.items() if storage in sure
        ),
        hard_write_bytes=sum(_written_bytes(program, live, surely_written(program, live)).values()),
        assumptions=tuple(dict.fromkeys(_assumption(op) for op in unsure)),
    )


def _assumption(op: TracedOp) -> str:
    if op.operator.needs == "where":
        return "Which branch aten.where takes is not known: it was taken to be each for one half."
    assumed = "spread evenly" if op.operator.zeros in ("one hot", "scatter") else "distinct"
    return f"The indices of {op.name} are not known: they were taken to be {assumed}."


@dataclass
class _Reads:
    """Reads by a program of one of its inputs, which it may also overwrite.

    Attributes:
        spans: what is read between two writes.
        killed: the writes; ``killed[i]`` comes before ``spans[i + 1]``.
    """

    spans: list[list[TensorUse]] = field(default_factory=lambda: [[]])
    killed: list[list[TensorUse]] = field(default_factory=list)

    def read(self, use: TensorUse) -> None:
        """Record a read."""
        self.spans[-1].append(use)

    def write(self, use: TensorUse) -> None:
        """Record a write: later reads of these elements get what the program wrote."""
        if not use.sure:
            return
        if self.killed and not self.spans[-1]:
            self.killed[-1].append(use)
        else:
            self.killed.append([use])
            self.spans.append([])

    def bytes(self, counts: Callable[[TensorUse], bool]) -> int:
        """Count bytes read that the program has not written before.

        With R the reads so far and K the writes so far, each span adds |R + span + K| - |R + K|.
        """
        total, seen, overwritten = 0, list[TensorUse](), list[TensorUse]()
        for position, span in enumerate(self.spans):
            overwritten += self.killed[position - 1] if position else []
            counted = [use for use in span if counts(use)]
            if counted:
                before = covered_bytes([*seen, *overwritten])
                total += covered_bytes([*seen, *overwritten, *counted]) - before
            seen += counted
        return total


def _inputs(program: Program, live: Sequence[TracedOp]) -> dict[int, _Reads]:
    """Return the reads of each storage that the program did not make."""
    reads: dict[int, _Reads] = defaultdict(_Reads)
    computed = set(program.constants)
    for op in live:
        for use in op.inputs:
            if use.storage not in computed:
                reads[use.storage].read(use)
        computed |= {use.storage for use in op.outputs}
        for use in op.written:
            if use.storage not in computed:
                reads[use.storage].write(use)
    return reads


def _written_bytes(
    program: Program, live: Sequence[TracedOp], in_place: Sequence[TensorUse]
) -> dict[int, int]:
    """Return bytes, by storage, of results that some op wrote.

    An input that is handed back as it is costs nothing.

    Args:
        program: its results count.
        live: the ops that matter.
        in_place: what they write into storages that exist.
    """
    own = program.constants | {use.storage for op in program.ops for use in op.outputs}
    # A tensor that is overwritten as a whole is computed by that write alone.
    computed = program.constants | {use.storage for op in live for use in op.outputs}
    computed |= own & {use.storage for use in in_place}
    results = {use.storage for use in program.results}
    written: dict[int, list[TensorUse]] = defaultdict(list)
    for use in program.results:
        if use.storage in computed:
            written[use.storage].append(use)
    for use in in_place:
        if use.storage in results - own:  # an input changed in place: what was changed
            written[use.storage].append(use)
    return {storage: covered_bytes(uses) for storage, uses in written.items()}
