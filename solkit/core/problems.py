"""Problem that must be computed, and a kernel that computes it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from solkit.core.space import Space
from solkit.core.values import Value
from solkit.errors import ShapeError


@dataclass(frozen=True)
class Tolerance:
    """Tolerance of correctness: ``|got - want| <= atol + rtol * |want|`` elementwise.

    Attributes:
        rtol, atol: as above.
        matched: the least share of an output's elements for which that must hold.
    """

    rtol: float
    atol: float
    matched: float = 1.0

    @property
    def allows_tf32(self) -> bool:
        """True if operands may be rounded to tf32.

        It keeps 10 bits of the mantissa, so a product is off by at most 2^-10, about 1e-3.
        """
        return self.rtol >= 1e-3


@dataclass(frozen=True)
class Problem:
    """Problem that must be computed.

    Attributes:
        name: the file's stem, or the problem folder's name for it.
        path: the file that holds the reference.
        format: ``"native"``, ``"kernelbench"``, ``"gpu-mode"``, ``"triton"``,
            ``"sol-execbench"`` or ``"flashinfer-bench"``.
        reference: the reference's name in that file; ``None`` if it has none.
        sizes: the arguments of `inputs`, with their defaults; dtypes as ``"bfloat16"``.
        shapes: the workloads, each a subset of `sizes` with values; at least one, maybe ``{}``.
        held_out_shapes: workloads kept for checking a tuned kernel.
        tolerance: the file's own; ``None`` means the default of the outputs' dtype.
        outputs: arguments that the kernel writes, for destination passing.
    """

    name: str
    path: str
    format: str
    reference: str | None
    sizes: Mapping[str, Value]
    shapes: tuple[Mapping[str, Value], ...]
    held_out_shapes: tuple[Mapping[str, Value], ...] = ()
    tolerance: Tolerance | None = None
    outputs: tuple[str, ...] = ()

    @property
    def is_definition(self) -> bool:
        """True if it is a definition of SOL-ExecBench or FlashInfer-Bench, with its workloads."""
        return self.format in ("sol-execbench", "flashinfer-bench")

    def whole_shape(self, shape: Mapping[str, Value]) -> dict[str, Value]:
        """Return every size: of a definition those of the workload that agrees with `shape`.

        Raises:
            ShapeError: `shape` names a workload by its ``uuid`` where sizes tell all apart.
        """
        workload: Mapping[str, Value] = {}
        if self.is_definition:
            if "uuid" in shape and "uuid" not in self.sizes:
                raise ShapeError(f"{self.path}: no two workloads are alike: name one by its sizes")
            agreeing = (s for s in self.shapes if shape.items() <= s.items())
            named = (s for s in self.shapes if "uuid" in shape and s["uuid"] == shape["uuid"])
            workload = next(itertools.chain(agreeing, named), {})
        return {**self.sizes, **workload, **shape}

    @property
    def allows_tf32(self) -> bool:
        """True if its own tolerance does; the default one does not."""
        return self.tolerance is not None and self.tolerance.allows_tf32


@dataclass(frozen=True)
class Candidate:
    """One kernel for a problem.

    Attributes:
        name: the entry point's name.
        path: the file that holds it.
        params: its tuning parameters with the chosen values.
        space: what may be tuned, without a shape's constraints: `LoadedKernel.space` has those.
        is_deployed: whether its file says how a program launches it: `LoadedKernel.deployment`.
    """

    name: str
    path: str
    params: Mapping[str, Value]
    space: Space = field(default_factory=Space)
    is_deployed: bool = False


@dataclass(frozen=True)
class KernelFile:
    """A loaded file: a problem, and a candidate unless the file holds only a reference."""

    problem: Problem
    candidate: Candidate | None

    @property
    def path(self) -> str:
        """The candidate's file, or the problem's if there is no candidate."""
        return self.candidate.path if self.candidate is not None else self.problem.path

    @property
    def name(self) -> str:
        """Stem of that file, or the problem's name if there is no candidate."""
        return self.problem.name if self.candidate is None else PurePath(self.path).stem


_DEFAULTS = {
    "float64": Tolerance(1e-7, 1e-7),
    # KernelBench, src/kernelbench/eval.py, get_tolerance_for_precision: 1e-4 and 1e-2
    "float32": Tolerance(1e-4, 1e-4),
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(1e-2, 1e-2),
    "complex64": Tolerance(1e-4, 1e-4),
    "complex128": Tolerance(1e-7, 1e-7),
    # one step of e4m3's three mantissa bits
    **dict.fromkeys(
        ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
        Tolerance(0.125, 0.125),
    ),
}


def default_tolerance(dtype: object) -> Tolerance:
    """Return the tolerance for outputs of a dtype; exact for integers and bools.

    Args:
        dtype: a `torch.dtype`, or its name: ``"bfloat16"``.
    """
    return _DEFAULTS.get(str(dtype).removeprefix("torch."), Tolerance(0.0, 0.0))
