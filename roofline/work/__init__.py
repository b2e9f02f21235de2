"""Work: the least that a problem costs, from a trace of its reference.

``program`` records the ATen ops, ``demand`` finds which of them matter and how much of each,
``costs`` knows what each costs, ``traffic`` which bytes must cross DRAM, ``shortcuts`` which
contractions no algorithm avoids, and ``chains`` which steps wait for one another. All of it needs
torch and runs in a child process: see `solkit.analysis.worker`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from solkit.core import OpWork, Tolerance, Work
from solkit.roofline.work.algebra import simplified
from solkit.roofline.work.avoidable_work import hard_flops, shortcuts
from solkit.roofline.work.batches import with_batches
from solkit.roofline.work.broadcast import without_repeats
from solkit.roofline.work.brute_force import all_pairs, without_brute_force
from solkit.roofline.work.chains import chain_of
from solkit.roofline.work.chosen_elements import chosen_by_draws, with_chosen_elements
from solkit.roofline.work.complex_parts import GAUSS, real_products, without_unread_parts
from solkit.roofline.work.composed_functions import with_composed_functions
from solkit.roofline.work.costs import Cost, cost_of
from solkit.roofline.work.dtype_origin import with_origins
from solkit.roofline.work.duplicates import merged
from solkit.roofline.work.exponentials import with_shared_exponentials
from solkit.roofline.work.fused_attention import has_unknown_lengths
from solkit.roofline.work.linear_attention import with_linear_attention
from solkit.roofline.work.liveness import live_ops
from solkit.roofline.work.looked_up_products import with_looked_up_products
from solkit.roofline.work.multiples import with_multiples
from solkit.roofline.work.needed_precision import costs_as_needed
from solkit.roofline.work.packed_codes import with_words_of_codes
from solkit.roofline.work.products_by_hand import with_products_by_hand
from solkit.roofline.work.program import Program, TracedOp, trace
from solkit.roofline.work.shared_results import with_shared_results
from solkit.roofline.work.symmetric_pairs import with_symmetric_pairs
from solkit.roofline.work.symmetry import with_symmetry
from solkit.roofline.work.traffic import Traffic, traffic
from solkit.roofline.work.value_samples import with_admitted_errors
from solkit.roofline.work.value_signs import products_of_one_sign
from solkit.roofline.work.zero_propagation import annotated

__all__ = ["narrowed", "work_of", "work_of_arguments", "work_of_live", "work_of_program"]


def work_of(run: Callable[[], list[torch.Tensor]]) -> Work:
    """Trace a reference on fake tensors (`solkit.adapters.fake_cuda`) and cost it.

    Args:
        run: calls the reference and returns its output tensors.
    """
    return work_of_program(trace(run))


def work_of_program(program: Program) -> Work:
    """Return the cost of a traced program: only of the ops that its results depend on."""
    return work_of_live(narrowed(program))


def narrowed(program: Program, tolerance: Tolerance | None = None) -> Program:
    """Keep the ops that the results depend on, each narrowed to its live part; merge repeats.

    Args:
        program: from `trace`.
        tolerance: the file's own; ``None`` if it has none.
    """
    program = without_unread_parts(merged(simplified(with_chosen_elements(program))))
    program = annotated(with_symmetry(with_origins(with_batches(program))))
    live = live_ops(program)
    unmade = _made(program.ops) - _made(live)  # whoever still reads it needs none of what was made
    program = replace(program, ops=tuple(live), constants=program.constants | unmade)
    return with_admitted_errors(program, tolerance)


def _made(ops: Iterable[TracedOp]) -> set[int]:
    return {use.storage for op in ops for use in op.outputs}


def work_of_live(program: Program) -> Work:
    """Return the cost of a `narrowed` program, or of some of its ops with results of their own."""
    live = list(program.ops)
    alone = without_repeats(live)
    fixed = program.constants - {use.storage for op in live for use in op.written}
    products = real_products(live, fixed, program.results)
    own = [_share(cost_of(op), products.get(n, GAUSS)) for n, op in enumerate(alone)]
    costs = with_shared_results(alone, own)
    costs = with_shared_exponentials(alone, costs)
    costs = with_composed_functions(alone, costs, program.results)
    costs = with_multiples(alone, costs, program.results)
    costs, inside = with_products_by_hand(alone, costs, program.results)
    costs = with_linear_attention(alone, costs, program.results, program.ahead)
    costs = with_looked_up_products(alone, costs, program.results)
    costs = without_brute_force(alone, costs, fixed, program.results, inside)
    costs = with_words_of_codes(alone, costs, fixed, program.results)
    costs = with_symmetric_pairs(alone, costs)
    costs = costs_as_needed(live, costs, program.results)
    moved = traffic(program, live)
    hard = {
        n: flops * products.get(n, GAUSS) // GAUSS for n, flops in hard_flops(program, live).items()
    }
    alike = products_of_one_sign(live, program.one_sign)
    hard = {n: min(flops, _products(costs[n], flops)) for n, flops in hard.items()}
    ops = _op_works(live, costs, hard, shortcuts(program, live, hard), moved)
    ops = tuple(replace(op, one_sign=True) if op.position in alike else op for op in ops)
    return Work(
        operations=_sum(op.operations for op in ops),
        hard_operations=_sum(op.hard_by_kind for op in ops),
        dram_read_bytes=moved.read_bytes,
        dram_write_bytes=moved.write_bytes,
        hard_read_bytes=moved.hard_read_bytes,
        hard_write_bytes=moved.hard_write_bytes,
        unmodelled=tuple(dict.fromkeys(op.name for op, cost in zip(live, costs) if cost is None)),
        assumptions=(
            *moved.assumptions,
            *_unknown_masks(live),
            *chosen_by_draws(program, live),
            *all_pairs(alone, fixed),
        ),
        ops=ops,
        chain=chain_of(live, costs),
    )


def _products(cost: Cost | None, otherwise: int) -> int:
    """Return the operations of a cost's matrix products; `otherwise` where there is none."""
    if cost is None:
        return otherwise
    return sum(n for key, n in cost.operations.items() if key.startswith("contraction."))


def _share(cost: Cost | None, products: int) -> Cost | None:
    """Return the cost of a complex product that needs so many real ones."""
    if cost is None or products == GAUSS:
        return cost
    return Cost({key: n * products // GAUSS for key, n in cost.operations.items()})


def _op_works(
    live: Sequence[TracedOp],
    costs: Sequence[Cost | None],
    hard: Mapping[int, int],
    reasons: Mapping[int, str],
    moved: Traffic,
) -> tuple[OpWork, ...]:
    """Return the costs of the ops; ops that cost nothing are left out."""
    read = _first(moved.reads, [{use.storage for use in op.inputs} for op in live])
    makes = [{use.storage for use in op.stored} for op in live]
    written = _first(moved.writes, makes[::-1])
    ops = [
        OpWork(
            op=op.name,
            operations=dict(cost.operations) if cost is not None else {},
            hard_flops=hard.get(position, 0),
            shortcut=reasons.get(position, ""),
            position=position,
            read_bytes=read[position],
            write_bytes=written[len(live) - 1 - position],
            line=op.line,
        )
        for position, (op, cost) in enumerate(zip(live, costs))
    ]
    return tuple(op for op in ops if op.operations or op.read_bytes or op.write_bytes)


def _first(amounts: Mapping[int, int], touching: Sequence[set[int]]) -> Counter[int]:
    """Assign each storage's bytes to the first of a sequence of ops that touches it."""
    bytes_by_position: Counter[int] = Counter()
    remaining = dict(amounts)
    for position, storages in enumerate(touching):
        bytes_by_position[position] = sum(
            remaining.pop(storage) for storage in storages & remaining.keys()
        )
    return bytes_by_position


def _unknown_masks(live: Sequence[TracedOp]) -> tuple[str, ...]:
    if any(map(has_unknown_lengths, live)):
        return (
            "The lengths of packed sequences are data: they were taken to be equal, which needs "
            "the fewest pairs.",
        )
    masks = [op.arguments["attn_mask"] for op in live if op.operator.needs == "attention"]
    if all(mask is None or mask.value is not None for mask in masks):
        return ()
    return (
        "The contents of an attention mask are data, or too large to compute: every pair that the "
        "program does not hide was counted.",
    )


def work_of_arguments(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    why: str = "The file has no reference",
) -> Work:
    """Return the work known without a reference: each argument's bytes, and no operations."""
    written = sum(t.numel() * t.element_size() for t in outputs)
    return Work(
        operations={},
        hard_operations={},
        dram_read_bytes=sum(t.numel() * t.element_size() for t in inputs),
        dram_write_bytes=written,
        hard_read_bytes=0,
        hard_write_bytes=0,
        unmodelled=("reference",),
        assumptions=(f"{why}: every argument was taken to be read or written once.",),
    )


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
