"""Work: what a problem costs at the least, from a trace of its reference.

``program`` records the ATen ops, ``demand`` finds which of them matter and how much of each,
``costs`` knows what each costs, ``traffic`` which bytes must cross DRAM, and ``shortcuts`` which
contractions no algorithm avoids. All of it needs torch and
runs in a child process: see `solkit.study`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from solkit.core import OpWork, Work
from solkit.roofline.work.costs import cost_of
from solkit.roofline.work.demand import live_ops
from solkit.roofline.work.program import Program, TracedOp, trace
from solkit.roofline.work.shortcuts import hard_flops
from solkit.roofline.work.traffic import traffic

__all__ = ["work_of", "work_of_arguments", "work_of_program"]


def work_of(run: Callable[[], list[torch.Tensor]]) -> Work:
    """Trace a reference on fake tensors (`solkit.adapters.fake_cuda`) and cost it.

    Args:
        run: calls the reference and returns its output tensors.
    """
    return work_of_program(trace(run))


def work_of_program(program: Program) -> Work:
    """The cost of a traced program: only of the ops that its results depend on."""
    live = live_ops(program)
    hard = hard_flops(program, live)
    ops: list[OpWork] = []
    unmodelled: list[str] = []
    for position, op in enumerate(live):
        cost = cost_of(op)
        if cost is None:
            unmodelled.append(op.name)
        elif cost.operations:
            ops.append(OpWork(op.name, dict(cost.operations), hard.get(position, 0)))
    moved = traffic(program, live)
    return Work(
        operations=_sum(op.operations for op in ops),
        hard_operations=_sum(_hard_part(op) for op in ops),
        dram_read_bytes=moved.read_bytes,
        dram_write_bytes=moved.write_bytes,
        hard_read_bytes=moved.hard_read_bytes,
        hard_write_bytes=moved.write_bytes,
        unmodelled=tuple(dict.fromkeys(unmodelled)),
        assumptions=(*moved.assumptions, *_unknown_masks(live)),
        ops=tuple(ops),
    )


def _unknown_masks(live: Sequence[TracedOp]) -> tuple[str, ...]:
    masks = [op.arguments["attn_mask"] for op in live if op.name == "solkit.attention"]
    if all(mask is None or mask.value is not None for mask in masks):
        return ()
    return ("The contents of an attention mask are not known: every pair was counted.",)


def work_of_arguments(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Work:
    """What is known without a reference: each argument's bytes, and no operations."""
    written = sum(t.numel() * t.element_size() for t in outputs)
    return Work(
        operations={},
        hard_operations={},
        dram_read_bytes=sum(t.numel() * t.element_size() for t in inputs),
        dram_write_bytes=written,
        hard_read_bytes=0,
        hard_write_bytes=0,
        unmodelled=("reference",),
        assumptions=(
            "The file has no reference: every argument was taken to be read or written once.",
        ),
    )


def _hard_part(op: OpWork) -> dict[str, int]:
    keys = [key for key in op.operations if key.startswith("contraction.")]
    return {key: op.hard_flops for key in keys if op.hard_flops}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
