"""Plans run for real, in doubles and at small sizes, next to the program that they stand for."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from solkit.roofline.best.axes import Sizes
from solkit.roofline.best.graph import NoPlanError
from solkit.roofline.best.search import Derivation

SHAPES = 3
_MOST_ELEMENTS = 1 << 21  # of all inputs together
_TOLERANCE = 1e-9


def compiled(code: str, function: str) -> Callable[..., list[torch.Tensor]]:
    """Return a function of a plan's code; its results are a list."""
    namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "aten": torch.ops.aten}
    exec(compile(code, "<plan>", "exec"), namespace)

    def call(*inputs: torch.Tensor) -> list[torch.Tensor]:
        results = namespace[function](*inputs)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    return call


def equal_sizes(derivation: Derivation) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Run plan and program at three or more sets of sizes; return the shapes of the inputs.

    Raises:
        NoPlanError: they differ, fail, or no sizes are small enough.
    """
    size_sets = derivation.smaller_sizes(SHAPES)
    if len(size_sets) < SHAPES:
        raise NoPlanError("its sizes cannot vary, so its plan cannot be tried at three shapes")
    return tuple(_equal_at(derivation, sizes, seed) for seed, sizes in enumerate(size_sets))


def _equal_at(derivation: Derivation, sizes: Sizes, seed: int) -> tuple[tuple[int, ...], ...]:
    shapes = derivation.input_shapes(sizes)
    if sum(map(math.prod, shapes)) > _MOST_ELEMENTS:
        raise NoPlanError("its sizes cannot be made small enough to run its plan")
    generator = torch.Generator().manual_seed(seed)
    graph = derivation.graph
    dtypes = [graph.values[value].dtype for value in graph.inputs]
    inputs = [_drawn(shape, dtype, generator) for shape, dtype in zip(shapes, dtypes)]
    reference = compiled(derivation.traced_code(sizes), "reference")
    plan = compiled(derivation.code(sizes), "plan")
    try:
        with torch.no_grad():
            want = reference(*(tensor.clone() for tensor in inputs))
            got = plan(*(tensor.clone() for tensor in inputs))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        first = str(error).strip().partition("\n")[0]
        raise NoPlanError(f"its plan could not be run: {first}") from error
    _compare(want, got)
    return tuple(shapes)


def _drawn(shape: Sequence[int], dtype: str, generator: torch.Generator) -> torch.Tensor:
    if "float" in dtype:
        return torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    kind = getattr(torch, dtype)
    return torch.randint(0, 2, tuple(shape), generator=generator).to(kind)


def _compare(want: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> None:
    if len(want) != len(got):
        raise NoPlanError("the plan returned another number of results")
    for one, other in zip(want, got):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise NoPlanError("the plan returned another shape or dtype")
        if not one.is_floating_point():
            if not torch.equal(one, other):
                raise NoPlanError("the plan returned other integers")
            continue
        finite = torch.isfinite(one)
        if one.numel() and not finite.all():
            raise NoPlanError("the reference is not finite on random data")
        scale = 1.0 + (one.abs().max().item() if one.numel() else 0.0)
        if not torch.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * scale):
            raise NoPlanError("the plan differed from the reference")
