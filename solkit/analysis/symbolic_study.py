"""The work of a problem as formulas.

Separate from `solkit.analysis.worker`, since this imports sympy and torch's compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from solkit import kernelfiles
from solkit.adapters import fake_cuda, symbolic_sizes
from solkit.analysis.problem import problem_case
from solkit.analysis.worker import fake_device
from solkit.core import Case, Device, Value
from solkit.errors import KernelFileError
from solkit.kernelfiles import LoadedKernel
from solkit.roofline.symbolic import (
    SymbolicWork,
    amounts_of,
    explained_formulas,
    multiples,
    named_sizes,
)
from solkit.roofline.work import work_of_program
from solkit.roofline.work.program import trace

Shape = Mapping[str, Value]


def symbolic_work(
    path: str, reference: str | None, device: Device, shape: Shape | None, names: tuple[str, ...]
) -> SymbolicWork:
    """Return the work of a problem as formulas of the sizes `names`.

    Args:
        path: the kernel file.
        reference: the file with the reference, if `path` lacks one.
        device: the target.
        shape: overrides; ``None`` takes the file's first shape.
        names: integer sizes of the problem.

    Raises:
        InputError: the file or a name is at fault, or too few sizes work to check a formula.
    """
    fake_device(device)
    with fake_cuda.fake_tensors() as mode:
        loaded = kernelfiles.load(path, reference)
    problem = loaded.description.problem
    if problem.reference is None:
        raise KernelFileError("has no reference to make a formula of", path)
    base = loaded.full_shape(problem.shapes[0] if shape is None else shape)
    sizes = named_sizes(names, base, problem.path)
    cases: dict[tuple[int, ...], Case] = {}

    def count(point: Mapping[str, int]) -> Mapping[str, int]:
        key = tuple(point.values())
        if key not in cases:
            with fake_cuda.fake_tensors():
                cases[key] = problem_case(loaded, {**base, **point}, {}, None)
        return amounts_of(cases[key].work)

    count(sizes)  # a failing file raises its own error
    traced, conditions, reason = _traced_formulas(loaded, mode, base, sizes)
    formulas, points = explained_formulas(sizes, count, traced, reason)
    checked = tuple((point, cases[tuple(point.values())].work) for point in points)
    tolerance = cases[tuple(sizes.values())].tolerance
    fixed = {name: value for name, value in base.items() if name not in sizes}
    conditions += multiples(points)
    return SymbolicWork(sizes, fixed, formulas, checked, conditions, tolerance)


def _traced_formulas(
    loaded: LoadedKernel, mode: FakeTensorMode, shape: Shape, sizes: Mapping[str, int]
) -> tuple[dict[str, Any], tuple[str, ...], str]:
    """Return the formulas of a run on symbolic shapes, its conditions, and why there are none."""
    with symbolic_sizes.symbolic_sizes(mode, sizes) as symbols:
        arguments: dict[str, Any] = {**shape, **symbols.sizes}
        try:
            program = trace(loaded.workload(arguments).run_reference, symbols.size)
            amounts = amounts_of(work_of_program(program))
        except Exception as error:  # user code and torch may raise anything on a symbol
            first = str(error).strip().partition("\n")[0]
            return {}, (), f"a run on symbolic shapes failed ({type(error).__name__}: {first})"
    formulas = {name: symbolic_sizes.formula_of(n) for name, n in amounts.items()}
    fixed = ", ".join(f"{name} = {sizes[name]}" for name in symbols.specialised())
    return formulas, symbols.conditions(), f"the program fixes {fixed}" if fixed else ""
