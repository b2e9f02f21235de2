"""The reference in wide arithmetic: its outputs without rounding, and how sensitive they are.

Notation
    f        the reference in wide arithmetic
    x        its inputs; x' = x (1 + t d), each d a random sign
    t        the cube root of the wide unit roundoff keeps both rounding and curvature small
    sigma    |f(x') - f(x)| / t, in the mean over the draws of d: the sensitivity

    x''      further inputs x (1 + eps d), rounded to x's dtype, where few elements show rounding

Sensitivities from random perturbations: Kenney & Laub, "Small-sample statistical condition
estimates for general matrix functions", SIAM J. Sci. Comput. 15(1), 1994.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from solkit.adapters.dispatch_modes import DispatchMode
from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking.chunked_tensors import cut_slabs, flat_elements, part_slices


class TooLargeError(UnsupportedError):
    """There is no memory for the reference in wide arithmetic."""


class TooSlowError(UnsupportedError):
    """There is no time for the reference in wide arithmetic."""


_DRAWS, _DRAWS_OF_FEW = 2, 6
_FEW = 16
"""Elements needed for a reliable root mean square."""
_ROUNDED_DRAWS = 4
"""Nearby inputs on which a reference's rounding is seen, too, where its outputs are few. One normal
number is below a quarter of its standard deviation once in five times, five are once in 3000."""
_JUMP, _SAMPLED = 2.0**8, 1 << 14
"""Times the median from which a sensitivity is that of a jump: a value that changes as a whole when
inputs move by t has 1 / t, 2^17 in fp64. Elements, evenly spaced, that the median is taken of."""
_FURTHER = 1000
"""Number of the first further draw: no other draw of a seed has it."""

_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
_WIDE = dict.fromkeys(_REAL, torch.float64) | dict.fromkeys(_COMPLEX, torch.complex128)
_AS_FP32 = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclass(frozen=True)
class Exact:
    """One output of a reference, computed in wide arithmetic.

    Attributes:
        value: the output, in fp64 (fp32 if the reference does not run in fp64), of the same shape.
            Integers and bools come from the wide reference.
        sensitivity: sigma of each element; zero for integers and bools. No element is below the
            root mean square of its neighbours along the axis where that is least, since a few draws
            of one element may be small by chance. Neighbours that jump, as where a draw breaks a
            tie, do not count.
        others: the output of nearby inputs. Kept only for integers and bools, where a tie broken by
            rounding gives a completely different value.
        nearby: where the output has few elements, pairs of the reference's own output and the exact
            one, each on further nearby inputs.
    """

    value: torch.Tensor
    sensitivity: torch.Tensor
    others: tuple[torch.Tensor, ...] = ()
    nearby: tuple[tuple[torch.Tensor, torch.Tensor], ...] = ()


def exact_reference(workload: Workload, seed: int = 0, limit_s: float = math.inf) -> list[Exact]:
    """Return the reference's outputs on the same inputs, in fp64; in fp32 if fp64 does not run.

    Inputs, weights and intermediates are widened, and casts to fp32, fp16 or bf16 are ignored.
    Casts to fp8 and to integers stay: a reference that quantises intends them.

    The workload stays unchanged. The seed is set before each run, for references that draw random
    numbers.

    Raises:
        TooLargeError: it does not fit into memory.
        TooSlowError: by its first run, it would take over `limit_s` seconds.
        UnsupportedError: the reference runs in neither.
    """
    failures = []
    for wide in (torch.float64, torch.float32):
        try:
            return _WideReference(workload, wide, seed).exact_outputs(limit_s)
        except TooSlowError:
            raise
        except torch.OutOfMemoryError:
            text = "the reference in wide arithmetic ran out of memory"
            raise TooLargeError(text) from None
        except Exception as error:  # user code on tensors that it was not written for
            failures.append(f"{type(error).__name__} in {wide}: {str(error)[:200]}")
    raise UnsupportedError("the reference does not run in wide arithmetic: " + "; ".join(failures))


def reference_in(workload: Workload, wide: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    """Return the reference's outputs on the same inputs, computed in fp32 or fp64 throughout."""
    return _WideReference(workload, wide, seed).run()


def nearby_outputs(
    workload: Workload, seed: int, wide: torch.dtype, draw: int, step: float | None = None
) -> list[torch.Tensor]:
    """Return the reference's outputs on further nearby inputs x', in the real dtype `wide`.

    Args:
        workload: it stays unchanged.
        seed: set before the run.
        wide: fp64, or fp32 where `exact_reference` gave that.
        draw: from 0; each is independent of the others and of those behind the sensitivity.
        step: instead of t.
    """
    return _WideReference(workload, wide, seed, step).run(_FURTHER + draw)


class _WideReference:
    """A workload's reference, to be run in the real dtype `wide`."""

    def __init__(
        self, workload: Workload, wide: torch.dtype, seed: int, step: float | None = None
    ) -> None:
        self._workload, self._wide, self._seed = workload, wide, seed
        self._reference = _with_wide_weights(workload.reference, wide)
        self._step = torch.finfo(wide).eps ** (1 / 3) if step is None else step
        self._nudges_fp8 = True

    def exact_outputs(self, limit_s: float) -> list[Exact]:
        """See `exact_reference`."""
        start = time.perf_counter()
        values, one_s = self.run(), 0.0
        if limit_s < math.inf:
            if values and values[0].is_cuda:
                torch.cuda.synchronize()
            one_s = time.perf_counter() - start
            if (1 + _DRAWS) * one_s > limit_s:
                raise TooSlowError(f"the reference in wide arithmetic takes {one_s:.2g} s a run")
        moves = [_Moves(value, self._step) for value in values]
        draws = _DRAWS_OF_FEW if any(map(_has_few, values)) else _DRAWS
        for draw in range(1, 1 + draws) if self._has_nearby_inputs() else ():
            for move, output in zip(moves, self._nearby_outputs(draw), strict=True):
                move.add_draw(output)
                del output  # it would stay in memory while the next ones are computed
        outputs = [move.exact_output() for move in moves]
        is_slow = (1 + draws + 2 * _ROUNDED_DRAWS) * one_s > limit_s
        if is_slow or draws == _DRAWS or not self._has_nearby_inputs():
            return outputs
        nearby = self._rounded_outputs(len(outputs))
        return [replace(o, nearby=tuple(n)) for o, n in zip(outputs, nearby, strict=True)]

    def _rounded_outputs(self, count: int) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
        """Return pairs of the reference's own output and the exact one on some x'', by output.

        Empty for outputs of many elements, and if there is no memory or the reference takes no such
        inputs.
        """
        pairs: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in range(count)]
        try:
            for draw in range(1, 1 + _ROUNDED_DRAWS):
                near = self._workload.with_inputs(*self._rounded_inputs(draw))
                exact = _WideReference(near, self._wide, self._seed).run()
                seed_everything(self._seed)
                for own, true, kept in zip(near.run_reference(), exact, pairs, strict=True):
                    kept += [(own.detach(), true)] if _has_few(own) else []
        except Exception:  # user code on tensors that it was not written for
            return [[] for _ in range(count)]
        return pairs

    def _rounded_inputs(self, draw: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return copies of the inputs whose elements are off by about a unit in the last place."""
        places = itertools.count()

        def convert(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            copied = leaf.detach().clone()
            if leaf.dtype in _WIDE:
                step = torch.finfo(leaf.dtype).eps
                _perturb_values(copied, step, (self._seed, _DRAWS_OF_FEW + draw, next(places)))
            return copied.requires_grad_(leaf.requires_grad)

        args, kwargs = tree_map(convert, (self._workload.args, dict(self._workload.kwargs)))
        return args, kwargs

    def _has_nearby_inputs(self) -> bool:
        """Tell whether any input has other values near it: integers and bools have none."""
        leaves = tree_leaves((self._workload.args, dict(self._workload.kwargs)))
        return any(isinstance(leaf, torch.Tensor) and is_inexact(leaf) for leaf in leaves)

    def _nearby_outputs(self, draw: int) -> list[torch.Tensor]:
        """Return the outputs on nearby inputs; fp8 ones stay if the reference takes no others."""
        if self._nudges_fp8:
            try:
                return self.run(draw)
            except Exception:  # user code on tensors that it was not written for
                self._nudges_fp8 = False
        return self.run(draw)

    def run(self, draw: int = 0) -> list[torch.Tensor]:
        """Return the outputs: on the inputs themselves for draw 0, else on nearby inputs."""
        inputs = self._converted_inputs(draw)
        with _wide_arithmetic(self._wide):
            seed_everything(self._seed)
            outputs = replace(inputs, reference=self._reference).run_reference()
        return [self._widen_output(output) if is_inexact(output) else output for output in outputs]

    def _converted_inputs(self, draw: int) -> Workload:
        places = itertools.count()

        def convert(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            is_fp8 = leaf.is_floating_point() and leaf.element_size() == 1
            if leaf.dtype not in _WIDE and not (is_fp8 and draw and self._nudges_fp8):
                return leaf.detach().clone()
            copied = leaf.detach().to(_wide_dtype(leaf.dtype, self._wide), copy=True)
            if draw:
                _perturb_values(copied, self._step, (self._seed, draw, next(places)))
            return copied.requires_grad_(leaf.requires_grad)

        args, kwargs = tree_map(convert, (self._workload.args, dict(self._workload.kwargs)))
        return self._workload.with_inputs(args, kwargs)

    def _widen_output(self, output: torch.Tensor) -> torch.Tensor:
        return output.detach().to(_wide_dtype(output.dtype, self._wide))


class _Moves:
    """Movement of one output per step t, accumulated so that only one draw is in memory."""

    def __init__(self, value: torch.Tensor, step: float) -> None:
        self._value, self._step, self._draws = value, step, 0
        self._sum = torch.zeros(value.shape, dtype=torch.float32, device=value.device)
        self._others: tuple[torch.Tensor, ...] = ()

    def add_draw(self, output: torch.Tensor) -> None:
        """Add the output of one draw."""
        if not is_inexact(output):
            self._others += (output,)
            return
        if output.shape != self._value.shape:
            raise ValueError(f"an output of shape {tuple(output.shape)} on nearby inputs")
        new, old, total = flat_elements(output), flat_elements(self._value), self._sum.view(-1)
        for part in part_slices(total.numel()):
            # the difference of two infinities says nothing about the element's movement
            move = (new[part] - old[part]).abs().nan_to_num_(nan=0.0, posinf=0.0)
            total[part] += move.div_(self._step)
        self._draws += 1

    def exact_output(self) -> Exact:
        """Return the output with its sensitivity."""
        if not self._draws:
            return Exact(self._value, self._sum, self._others)
        mean = self._sum.div_(self._draws)
        level = _least_root_mean_square(mean)
        return Exact(self._value, torch.maximum(mean, level, out=mean))


def _least_root_mean_square(values: torch.Tensor) -> torch.Tensor:
    """Return the root mean square over all but one axis, without jumps; the least one."""
    usual = _median(values)
    level = _root_mean_square(values, list(range(values.dim())), usual)
    for axis, size in enumerate(values.shape):
        if 1 < size <= values.numel() // _FEW:
            rest = [other for other in range(values.dim()) if other != axis]
            level = torch.minimum(level, _root_mean_square(values, rest, usual))
    return level


def _median(values: torch.Tensor) -> torch.Tensor:
    flat = flat_elements(values)
    return flat[:: max(1, flat.numel() // _SAMPLED)].median() if flat.numel() else flat.sum()


def _root_mean_square(values: torch.Tensor, axes: list[int], usual: torch.Tensor) -> torch.Tensor:
    """Return the root mean square over axes; what is far above the usual value counts as usual."""
    if not values.dim() or not values.numel():
        return values.abs().sum()
    limit = torch.where(usual > 0, _JUMP * usual, math.inf)
    cut, pieces = cut_slabs(values)
    usuals = (torch.where(piece > limit, usual, piece).double() for piece in pieces)
    squares = [piece.square().sum(axes, keepdim=True) for piece in usuals]
    whole = torch.stack(squares).sum(0) if cut in axes else torch.cat(squares, cut)
    count = math.prod(values.shape[axis] for axis in axes)
    return whole.div(max(count, 1)).sqrt().float()


def _perturb_values(values: torch.Tensor, step: float, key: tuple[int, ...]) -> None:
    """Multiply by 1 + t d, whose signs take a byte each until then."""
    generator = torch.Generator(values.device).manual_seed(hash(key) % 2**63)
    in_memory = values.permute(sorted(range(values.dim()), key=values.stride, reverse=True))
    pieces = [values]
    if in_memory.is_contiguous():
        pieces = [in_memory.view(-1)[part] for part in part_slices(values.numel())]
    one = torch.ones((), dtype=values.real.dtype, device=values.device)
    for piece in pieces:
        words = torch.empty(-(-piece.numel() // 8), dtype=torch.int64, device=piece.device)
        bits = words.random_(generator=generator).view(torch.int8)[: piece.numel()]
        signs = bits.bitwise_and_(2).sub_(1).view(piece.shape)
        piece.mul_(torch.add(one, signs, alpha=step))  # keeps the sign of zero


def _has_few(output: torch.Tensor) -> bool:
    return is_inexact(output) and output.numel() < _FEW**2


def is_inexact(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's elements are rounded: floating or complex ones."""
    return tensor.is_floating_point() or tensor.is_complex()


def _wide_dtype(dtype: torch.dtype, wide: torch.dtype) -> torch.dtype:
    """Return the wide dtype instead of a floating one, fp8 included."""
    kind = _WIDE.get(dtype, torch.float64)
    return kind if wide is torch.float64 else _AS_FP32[kind]


def _with_wide_weights(reference: Any, wide: torch.dtype) -> Callable[..., Any]:
    """Return a module's forward on wide weights; any other function unchanged.

    The module is copied, not patched: only `torch.nn.Module.to` updates the weight lists of
    recurrent layers.
    """
    model = getattr(reference, "model", None)
    if not isinstance(model, torch.nn.Module):
        return reference  # type: ignore[no-any-return]
    copied = copy.deepcopy(model).to(wide)

    def forward(*args: Any) -> Any:
        with torch.no_grad():
            return copied(*args)

    return forward


@contextlib.contextmanager
def _wide_arithmetic(wide: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(wide)
    try:
        with _Widening(wide):
            yield
    finally:
        torch.set_default_dtype(before)


class _Widening(DispatchMode):
    """Makes every op take and return wide tensors instead of fp32, fp16 and bf16 ones."""

    def __init__(self, wide: torch.dtype) -> None:
        self._wide = wide
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one op."""
        if func is torch.ops.aten.view.dtype:  # reads bits of the actual dtype
            return func(*args, **(kwargs or {}))
        wide_args, wide_kwargs = tree_map(self._widen_leaf, (args, dict(kwargs or {})))
        result = func(*wide_args, **wide_kwargs)
        for argument, old, new in zip(func._schema.arguments, args, wide_args, strict=False):
            if old is not new and argument.alias_info and argument.alias_info.is_write:
                old.copy_(new)  # an outside buffer, written in place
        return result

    def _widen_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return _wide_dtype(leaf, self._wide) if leaf in _WIDE else leaf
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDE:
            return leaf.to(_wide_dtype(leaf.dtype, self._wide))
        return leaf
