"""Tolerance of the outputs of a kernel that Inductor made: ``TOLERANCE`` and ``check``.

Notation
    y_ref, y   the reference's output, and without rounding (`solkit.measure.checking.exact`)
    y32        the same in float32 throughout, as fused kernels compute
    e          |y32 - y|, on inputs that ``inputs`` gives, on the CPU

::

    atol = max(rtol mean |y_ref|,  max(4 e - rtol |y|))        to one digit

so that four times what float32 rounding does to the reference is permitted everywhere: where large
terms cancel, that is more than a share of what they leave. Both kernel and reference lose e, which
makes 2; another 2 is for a kernel that adds up in a worse order
(`solkit.measure.checking.closeness` grants
the same). A pointwise kernel takes the reference's own steps and rounds as it does: there e is no
difference between them, and is not asked for.

Some outputs cancel to nothing, as the gradient of the norm of what was normalised: their size is
that of e. Any `atol` that they need lets zeros pass for them, and is tiny beside the other outputs.
They get an `atol` of their own, 4 e, in the file's ``check``; it is small beside what cancels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from solkit.adapters.inductor import CaughtKernel
from solkit.kernelfiles import Workload
from solkit.measure.checking.exact import exact_reference, reference_in
from tools.inductor.reference import CONTRACTIONS, Reference

__all__ = ["Permitted", "check_text", "permitted"]

_ROUNDING = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 2e-2}
_TF32_ROUNDING = 5e-3
_PRODUCT_ROUNDING = 2.0**-26
"""By factor of a running product in float32: a quarter of what may come of n roundings, gamma_n
(Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 3.1), as those of factors near 1
are biased: a million of them, multiplied block by block in any of several orders, lost up to a
tenth of it."""
_MARGIN = 4.0
_SIGNAL_SHARE = 0.25
"""Of an output's root mean square: `solkit.measure.checking.closeness` counts no more of an
`atol`."""
_MOST_OFF = 1e-2
"""The share of codes that may differ by one: Triton's division is not rounded to nearest, and a
quotient of bfloat16 lies halfway between integers about that often."""


@dataclass(frozen=True)
class Permitted:
    """Limits of what passes: ``|got - want| <= atol + rtol * |want|``.

    Attributes:
        rtol, atol: of every output.
        vanishing: the `atol` of outputs that are rounding and nothing else, by their places.
    """

    rtol: float
    atol: float
    vanishing: Mapping[int, float] = field(default_factory=dict)

    def text(self) -> str:
        """The value of ``TOLERANCE``."""
        return f'{{"rtol": {self.rtol:.2g}, "atol": {self.atol:.1g}}}'

    def of(self, place: int) -> str:
        """The arguments of ``assert_close`` for an output."""
        own = self.vanishing.get(place)
        return "**TOLERANCE" if own is None else f"rtol={self.rtol:.2g}, atol={own:.1g}"


def check_text(codes: Collection[int], passes: Permitted, outputs: int) -> str:
    """The source of ``check``, empty where a tolerance will do.

    Args:
        codes: places of outputs that are codes: they may fall either way.
        passes: for the others.
        outputs: how many there are.
    """
    why = ["Codes may differ by one where what is rounded lies halfway between two."] * bool(codes)
    why += ["What cancels to nothing may differ by rounding."] * bool(passes.vanishing)
    if not why:
        return ""
    lines = ["def check(got, want):", f'    """{" ".join(why)}"""']
    for place in range(outputs):
        mine, right = (f"{name}[{place}]" if outputs > 1 else name for name in ("got", "want"))
        if place in codes:
            lines += [
                f"    apart = ({mine}.int() - {right}.int()).abs()",
                f"    assert apart.max() <= 1 and apart.float().mean() < {_MOST_OFF:g}",
            ]
        else:
            lines.append(f"    torch.testing.assert_close({mine}, {right}, {passes.of(place)})")
    return "\n".join(lines)


def permitted(
    kernel: CaughtKernel, reference: Reference, samples: Sequence[torch.Tensor], problem: str
) -> Permitted:
    """Rounding of the coarsest dtype, absolute at the scale of the outputs and of what cancels.

    Args:
        kernel: the kernel.
        reference: what it computes.
        samples: a value of each of its outputs.
        problem: the text of ``inputs`` and ``reference``.
    """
    rtol = max(_ROUNDING.get(o.dtype, 1e-4) for o in samples)
    rtol = max(rtol, _PRODUCT_ROUNDING * reference.longest_product)
    uses_tf32 = bool(kernel.constants.get("ALLOW_TF32")) or "tf32" in kernel.source
    if uses_tf32:
        rtol = max(rtol, _TF32_ROUNDING)
    scale = max(float(o.double().abs().mean()) for o in samples)
    atol = rtol * max(scale, 1e-6)
    workload = _workload(problem)
    if uses_tf32 and reference.contracts_float32:
        atol = max(atol, 2 * _tf32_error(workload, rtol))
    rounding = {} if kernel.template == "pointwise" else _rounding(workload, rtol)
    vanishing = {p: own for p, (own, level) in rounding.items() if own > _SIGNAL_SHARE * level > 0}
    kept = [own for place, (own, _) in rounding.items() if place not in vanishing]
    return Permitted(rtol, max([atol, *kept]), vanishing)


def _workload(problem: str) -> Workload:
    namespace: dict[str, Any] = {"torch": torch, "aten": torch.ops.aten}
    exec(problem, namespace)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Workload(namespace["inputs"](device="cpu"), {}, namespace["reference"], None)


def _rounding(workload: Workload, rtol: float) -> dict[int, tuple[float, float]]:
    """By place of an output in floats: the `atol` that it needs, and its root mean square."""
    with torch.random.fork_rng(devices=[]):
        rounded, exact = reference_in(workload, torch.float32), exact_reference(workload)
    by_place = {}
    for place, want in enumerate(workload.run_reference()):
        mine, right = rounded[place], exact[place].value
        finite = want.isfinite() & mine.isfinite() & right.isfinite()
        if not want.is_floating_point() or not finite.any():
            continue
        y32, y = mine[finite].double(), right[finite].double()
        needed = _MARGIN * (y32 - y).abs() - rtol * y.abs()
        by_place[place] = float(needed.max()), float(want[finite].double().square().mean().sqrt())
    return by_place


def _tf32_error(workload: Workload, rtol: float) -> float:
    """The error of outputs, beyond `rtol`, where tensor cores cut operands down to tf32.

    What follows a product may widen its error, and its columns may be of unlike scale.
    """
    want = workload.run_reference()
    with _Tf32Operands():  # type: ignore[no-untyped-call]
        moved = workload.run_reference()
    return max(
        float(((m.double() - w.double()).abs() - rtol * w.double().abs()).max())
        for m, w in zip(moved, want, strict=True)
    )


class _Tf32Operands(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Has products read float32 as tensor cores do, without the last 13 bits of the mantissa."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one op."""
        if func._schema.name.removeprefix("aten::") in CONTRACTIONS:
            args = tree_map(_cut, args)
        return func(*args, **(kwargs or {}))


def _cut(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32:
        return value
    return (value.view(torch.int32) & ~0x1FFF).view(torch.float32)
