"""Control flow of `torch._higher_order_ops` as plain Python, and the order of an einsum's products.

A dispatch mode has no rule for an operator that takes functions, so loops are run step by step. How
often a loop runs whose condition is data is not known: one step is guessed, the fewest that tell
what a step costs. Of two branches that data choose between, whoever records says which is cheaper.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from solkit.adapters.fake_cuda.contents import computing_really, recall_contents
from solkit.adapters.fake_cuda.guesses import report_guess
from solkit.core.stack import Stack


def fake_control_flow() -> None:
    """Replace the operators that take functions, and `torch.einsum`, wherever torch holds them."""
    package = "torch._higher_order_ops"
    for name, fake in {
        "cond": _run_branch,
        "while_loop": _run_while_loop,
        "scan": _run_scan,
        "associative_scan": _run_associative_scan,
        "map": _run_map,
    }.items():
        for owner in (package, f"{package}.{name}", "torch", "functorch.experimental.control_flow"):
            module = sys.modules.get(owner)
            if module is not None and callable(getattr(module, name, None)):
                setattr(module, name, fake)
    torch.einsum = torch.functional.einsum = _run_einsum


Chooser = Callable[[Sequence[Callable[[], Any]]], tuple[Any, str]]
"""Runs every branch, keeps the cheapest one: its result, and the range of costs in words."""

_choosers = Stack[Chooser]()


def choosing_branches(choose: Chooser) -> contextlib.AbstractContextManager[Chooser]:
    """Let `choose` decide between the branches of conditions that are data."""
    return _choosers.holding(choose)


def _run_branch(pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()) -> Any:
    """`torch.cond` as a plain conditional; the cheaper branch where its condition is data."""
    truth = _is_known_truth(pred)
    if truth is None and _choosers:
        branches = [functools.partial(branch, *operands) for branch in (true_fn, false_fn)]
        result, costs = _choosers[-1](branches)
        report_guess(f"which branch of a cond runs is data: the cheaper one counts, of {costs}")
        return result
    return true_fn(*operands) if (pred if truth is None else truth) else false_fn(*operands)


def _is_known_truth(pred: Any) -> bool | None:
    """Return a condition; ``None`` if it is data."""
    if not isinstance(pred, torch.Tensor):
        return bool(pred)
    fact = recall_contents(pred)
    if fact is None or fact.guesses:
        return None
    with computing_really():
        return bool(fact.value)


def _run_while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """`torch.while_loop`, step by step; one step where its condition is data."""
    carried = tuple(carried_inputs)
    while (goes_on := _is_known_truth(cond_fn(*carried))) is not False:
        carried = _as_tuple(body_fn(*carried))
        if goes_on is None:
            report_guess(
                "how often a while_loop runs was guessed to be once: its condition is data"
            )
            break
    return carried


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _run_scan(
    combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """`scan` of `torch._higher_order_ops`, step by step."""
    leaves, _ = tree_flatten(xs)
    steps = range(leaves[0].shape[dim]) if leaves else range(0)
    carry, rows = init, []
    for step in reversed(steps) if reverse else steps:
        carry, row = combine_fn(carry, tree_map(functools.partial(_select, dim, step), xs))
        rows.append(row)
    return carry, _stacked(rows[::-1] if reverse else rows, dim)


def _select(dim: int, step: int, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.select(dim, step)


def _stacked(rows: Sequence[Any], dim: int) -> Any:
    """Return trees of tensors as one tree of stacked tensors."""
    flat = [tree_flatten(row)[0] for row in rows]
    _, structure = tree_flatten(rows[0])
    return tree_unflatten([torch.stack(column, dim) for column in zip(*flat)], structure)


_FEW_STEPS = 64


def _run_associative_scan(
    combine_fn: Callable[..., Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """`associative_scan`: as many combinations as elements, but one, in few steps or at once.

    At once each element is combined with the one before alone, which costs the same.
    """
    del combine_mode
    leaves, structure = tree_flatten(xs)
    leaves = [leaf.flip(dim) for leaf in leaves] if reverse else leaves
    size = leaves[0].shape[dim]
    if size <= _FEW_STEPS:
        rows = [[leaf.narrow(dim, 0, 1) for leaf in leaves]]
        for step in range(1, size):
            row = [leaf.narrow(dim, step, 1) for leaf in leaves]
            rows.append(_combined(combine_fn, structure, rows[-1], row))
        results = [torch.cat(column, dim) for column in zip(*rows)]
    else:
        before, behind = (
            [leaf.narrow(dim, start, size - 1) for leaf in leaves] for start in (0, 1)
        )
        joined = _combined(combine_fn, structure, before, behind)
        results = [
            torch.cat((leaf.narrow(dim, 0, 1), rest), dim) for leaf, rest in zip(leaves, joined)
        ]
    results = [result.flip(dim) for result in results] if reverse else results
    return tree_unflatten(results, structure)


def _combined(
    combine_fn: Callable[..., Any], structure: Any, lhs: Sequence[Any], rhs: Sequence[Any]
) -> list[Any]:
    pair = (tree_unflatten(list(side), structure) for side in (lhs, rhs))
    return list(tree_flatten(combine_fn(*pair))[0])


def _run_map(function: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`map` of `torch._higher_order_ops`: a call for each row."""
    leaves, _ = tree_flatten(xs)
    rows = [
        function(tree_map(functools.partial(_select, 0, row), xs), *args)
        for row in range(leaves[0].shape[0])
    ]
    return _stacked(rows, 0)


# --------------------------------------------------------------------------------- einsum

_torch_einsum = torch.functional.einsum
_MOST_OPERANDS = 8  # orders of more of them are not searched: they are left as they stand


def _run_einsum(*args: Any) -> torch.Tensor:
    """`torch.einsum` in the order of the fewest products, whether `opt_einsum` is there or not."""
    if not isinstance(args[0], str):
        return _torch_einsum(*args)
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if len(operands) <= 2:
        return _torch_einsum(equation, *operands)
    path = _shortest_path(equation, operands) or [0, 1] * (len(operands) - 1)
    result: torch.Tensor = torch._VF.einsum(equation, operands, path=path)  # type: ignore[attr-defined]
    return result


def _shortest_path(equation: str, operands: Sequence[torch.Tensor]) -> list[int]:
    """Return pairs of places, each pair replaced by its product at the end; empty if unknown."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "." in equation or len(terms) != len(operands) or len(terms) > _MOST_OPERANDS:
        return []
    sizes = {
        letter: size
        for term, operand in zip(terms, operands)
        for letter, size in zip(term, operand.shape)
    }
    if "->" not in equation:
        counts = Counter("".join(terms))
        output = "".join(sorted(letter for letter, n in counts.items() if n == 1))
    trees = _best_trees([frozenset(term) for term in terms], frozenset(output), sizes)
    return _places_of(trees, len(terms))


def _best_trees(
    terms: Sequence[frozenset[str]], output: frozenset[str], sizes: Mapping[str, int]
) -> Any:
    """Return the tree of pairs with the fewest multiply-adds, by dynamic programming."""
    everything = (1 << len(terms)) - 1
    best: dict[int, tuple[int, Any]] = {1 << n: (0, n) for n in range(len(terms))}

    def letters(group: int) -> frozenset[str]:
        """Return the letters of a group's product: those that others or the result need."""
        own = frozenset[str]().union(*(t for n, t in enumerate(terms) if group >> n & 1))
        rest = output.union(*(t for n, t in enumerate(terms) if not group >> n & 1))
        return own & rest

    kept = {1 << n: term for n, term in enumerate(terms)}
    for group in sorted(range(1, everything + 1), key=int.bit_count):
        if group in best:
            continue
        kept[group] = letters(group)
        part = (group - 1) & group
        while part:
            other = group ^ part
            if part < other:
                product = 1
                for letter in kept[part] | kept[other]:
                    product *= sizes[letter]
                cost = best[part][0] + best[other][0] + product
                if group not in best or cost < best[group][0]:
                    best[group] = cost, (best[part][1], best[other][1])
            part = (part - 1) & group
    return best[everything][1]


def _places_of(tree: Any, count: int) -> list[int]:
    """Return a tree as the places of its pairs in the list of what is left."""
    remaining: list[Any] = list(range(count))
    path: list[int] = []

    def join(node: Any) -> None:
        if isinstance(node, int):
            return
        for side in node:
            join(side)
        places = sorted(remaining.index(side) for side in node)
        path.extend(places)
        for place in reversed(places):
            del remaining[place]
        remaining.append(node)

    join(tree)
    return path
