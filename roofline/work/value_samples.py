"""Samples of the values that tensors hold, and of the errors that products leave in them.

Follows a program by a sample of each storage, as if its elements were independent: what is drawn is
drawn, pointwise operators run on the sample, and a sum of n elements is normal, with the moments of
n of them (the central limit theorem). So the size of a result follows from how the inputs are
drawn, though nothing runs at full size. Each wide product adds an error of one part of what it sums
(the root of the sum of squared products), which the rest of the program carries along: the first
derivative of a pointwise operator, taken numerically.

A storage without a sample is one of which nothing is known. No bound rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from solkit.core import Tolerance
from solkit.core.rounding import LARGEST, admitted_error
from solkit.ops import Family, Normalised, Reduction
from solkit.roofline.work.costs import attention_pairs, cost_of
from solkit.roofline.work.program import Program, Sample, TensorUse, TracedOp, map_leaves

_SIZE = 512
_STEP = 1e-4  # of the sample's size, for derivatives
_MOST = 256  # elements that the largest is taken of
_SEED = 7
_MAKES = (Family.CREATION, Family.FILL, Family.RANDOM)
_MOVES = (Family.COPY, Family.LOOKUP, Family.MOVE, Family.ORDER)
_SPREADS = ("aten.var", "aten.std")
_WIDE = (torch.float32, torch.float64)
_PLACES = ("dtype", "device", "layout", "generator", "memory_format", "pin_memory", "non_blocking")


def samples_of(program: Program) -> dict[int, Sample]:
    """Return samples of the storages that a program leaves, by number, as far as they are known."""
    with _apart():
        walk = _Walk(program.samples)
        for op in program.ops:
            walk.follow(op)
    return walk.samples


def with_admitted_errors(program: Program, tolerance: Tolerance | None) -> Program:
    """Return a program whose ops say which errors of wide products the file's tolerance admits.

    A product has the least of what the results admit that depend on it.

    Args:
        program: of ops that its results depend on.
        tolerance: the file's own; ``None`` if it has none.
    """
    if tolerance is None or not any(map(_is_wide_product, program.ops)):
        return program
    shares = _admitted_shares(program, tolerance)
    if not any(shares.values()):
        return program
    ops = []
    for op in reversed(program.ops):
        storages = {use.storage for use in op.stored} & shares.keys()
        share = min((shares[storage] for storage in storages), default=0.0)
        ops.append(replace(op, admitted=share) if share and _is_wide_product(op) else op)
        for use in op.inputs if storages else ():
            shares[use.storage] = min(share, shares.get(use.storage, share))
    return replace(program, ops=tuple(reversed(ops)))


def _is_wide_product(op: TracedOp) -> bool:
    kinds = (Family.PRODUCT, Family.CONVOLUTION, Family.ATTENTION, Family.RECURRENT)
    return op.operator.family in kinds and op.result.dtype in _WIDE


def _admitted_shares(program: Program, tolerance: Tolerance) -> dict[int, float]:
    """Return the largest errors of products that a tolerance admits, by storage of the results.

    They are relative to what the products sum, as `solkit.roofline.precision_routes` has them; 0
    where nothing is known.
    """
    samples = samples_of(program)
    shares = {use.storage: 0.0 for use in program.results}
    for use in program.results:
        sample = samples.get(use.storage)
        if use.dtype.is_floating_point and use.dtype.itemsize <= 2:
            shares[use.storage] = math.inf  # `solkit.roofline.work.needed_precision` has these
        if sample is None or use.dtype not in _WIDE:
            continue
        if not sample.error_square:
            shares[use.storage] = math.inf  # it depends on no product
            continue
        mean = float(sample.values.mean())
        deviation = math.sqrt(max(0.0, sample.mean_square - mean**2))
        error = LARGEST * admitted_error(tolerance, mean, deviation)
        shares[use.storage] = error / math.sqrt(sample.error_square)
    return shares


@contextmanager
def _apart() -> Iterator[None]:
    """Run operators for real, and leave the random numbers of the program as they are."""
    with _disable_current_modes(), torch.no_grad():
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(_SEED)
        try:
            yield
        finally:
            torch.default_generator.set_state(before)


class _Walk:
    """Samples of each storage at one point of the program."""

    def __init__(self, samples: Mapping[int, Sample]) -> None:
        self.samples = dict(samples)
        self._extents: dict[int, int] = {}  # elements of each storage, at the least

    def follow(self, op: TracedOp) -> None:
        """Note the sample of an op's first result; nothing is known of others."""
        target = op.result
        before = self.samples.get(target.storage) if op.written else None
        sample = self._sample_of(op)
        for use in (*op.inputs, *op.outputs):
            self._extents[use.storage] = max(use.numel, self._extents.get(use.storage, 0))
        for use in op.stored:
            self.samples.pop(use.storage, None)
        if sample is None or not bool((sample.values.double() < math.inf).all()):
            return
        kept = self._extents.get(target.storage, 0) - target.numel if op.written else 0
        if kept > 0 and before is None:
            return
        if kept > 0 and before is not None:
            sample = _mixed([before, sample], [float(kept), float(target.numel)])
        self.samples[target.storage] = sample

    def sample_read(self, use: TensorUse) -> Sample | None:
        """Return the sample of what an op reads."""
        if use.value is not None and use.value.size and use.value.dtype.kind in "biuf":
            flat = torch.from_numpy(use.value.reshape(-1).copy())
            return _exactly(_widened(flat[torch.randint(flat.numel(), (_SIZE,))]))
        sample = self.samples.get(use.storage)
        return None if sample is None else sample.of_region(use)

    def _sample_of(self, op: TracedOp) -> Sample | None:
        record = op.operator
        if record.family in _MAKES and not record.aligned:
            return _made(op)
        sources = [self.sample_read(use) for use in op.inputs]
        if any(source is None for source in sources):
            return None
        read = [source for source in sources if source is not None]
        sample = self._combined(op, read)
        return None if sample is None or _is_cancelled(sample, read) else sample

    def _combined(self, op: TracedOp, read: Sequence[Sample]) -> Sample | None:
        record = op.operator
        if record.family in (Family.PRODUCT, Family.CONVOLUTION):
            return self._product(op)
        if op.is_elementwise and not record.moves and not record.zeros.endswith("triangle"):
            return self._pointwise(op)
        for applies, rule in _RULES:
            if applies(op) and read:
                return rule(op, read)
        return None

    def _pointwise(self, op: TracedOp) -> Sample | None:
        sources = {id(use): sample for use in op.inputs if (sample := self.sample_read(use))}
        values = _run(op, lambda use: sources[id(use)].values)
        if values is None or not values.is_floating_point():
            return values if values is None else _exactly(values)
        errors = [s for s in sources.values() if s.values.is_floating_point() and s.errors.any()]
        if not errors:
            return _exactly(values)
        size = math.sqrt(max(sample.mean_square for sample in errors)) or 1.0
        size = size if size < math.inf else 1.0
        error = math.sqrt(max(sample.error_square for sample in errors))
        step = _STEP * size / error

        def moved(use: TensorUse) -> torch.Tensor:
            sample = sources[id(use)]
            floats = sample.values.is_floating_point()
            return sample.values + step * sample.errors if floats else sample.values

        nearby = _run(op, moved)
        if nearby is None:
            return None
        return Sample(values, ((nearby - values) / step).nan_to_num(0.0, 0.0, 0.0))

    def _product(self, op: TracedOp) -> Sample | None:
        """Return sums of products of two factors, an added term included."""
        terms = _summed_terms(op)
        named = op.operator.factors or ("input", "weight")
        factors = [op.arguments.get(name) for name in named]
        if not terms or not all(isinstance(use, TensorUse) for use in factors):
            return None
        a, b = (self.sample_read(use) for use in factors if use is not None)
        if a is None or b is None:
            return None
        mean = float(a.values.double().mean() * b.values.double().mean())
        square = a.mean_square * b.mean_square
        carried = a.error_square * b.mean_square + a.mean_square * b.error_square
        own = square if op.result.dtype in _WIDE else 0.0
        spread = math.sqrt(max(0.0, terms * (square - mean**2)))
        result = Sample(
            _normal(terms * mean, spread), _normal(0, math.sqrt(terms * (carried + own)))
        )
        added = op.arguments.get("bias") if "bias" in op.arguments else op.arguments.get("self")
        is_added = op.operator.adds_terms or "bias" in op.arguments
        if not is_added or not isinstance(added, TensorUse):
            return result
        scale, term = float(op.arguments.get("beta", 1) or 0), self.sample_read(added)
        factor = float(op.arguments.get("alpha", 1))
        if term is None:
            return None
        return Sample(
            factor * result.values + scale * term.values,
            factor * result.errors + scale * term.errors,
        )


# --------------------------------------------------------------------- rules of whole families


def _moved(op: TracedOp, sources: Sequence[Sample]) -> Sample | None:
    """Return elements of the operands, as many of each as it has."""
    data = [
        (sample, use.numel)
        for sample, use in zip(sources, op.inputs)
        if use.dtype.is_floating_point == op.result.dtype.is_floating_point
    ]
    if len(data) == 1 or op.operator.family in (Family.LOOKUP, Family.ORDER):
        return (data or [(sources[0], 1)])[0][0]
    if not any(count for _, count in data):
        return None
    return _mixed([sample for sample, _ in data], [float(count) for _, count in data])


def _normalised(op: TracedOp, sources: Sequence[Sample]) -> Sample:
    """Return the operand, less its mean and over its size, by the weight and the bias."""
    x, named = sources[0], dict(zip(map(id, op.inputs), sources))
    centred = op.operator.normalises is not Normalised.SCALED
    mean = x.values.mean() if centred else 0.0
    size = (x.values - mean).square().mean().sqrt() + 1e-30
    values, errors = (x.values - mean) / size, x.errors / size
    weight, bias = (named.get(id(op.arguments.get(name))) for name in ("weight", "bias"))
    if weight is not None:
        values, errors = values * weight.values, errors * weight.values
    return Sample(values if bias is None else values + bias.values, errors)


def _softmaxed(op: TracedOp, sources: Sequence[Sample]) -> Sample:
    """Return a softmax or its logarithm."""
    x = sources[0].values
    terms = op.inputs[0].shape[op.arguments["dim"]] if op.inputs[0].shape else 1
    total = float(torch.logsumexp(x, 0)) + math.log(terms / _SIZE)
    if op.operator.normalises is Normalised.LOG_SUM_ONE:
        return Sample(x - total, sources[0].errors)
    shares = (x - total).exp()
    return Sample(shares, shares * sources[0].errors)


def _attended(op: TracedOp, sources: Sequence[Sample]) -> Sample | None:
    """Return sums of values, weighed by a softmax of products over as many keys as queries see.

    Rows that see few keys leave larger results: of 1 to n keys, the mean of 1 / keys is some
    ln(n) / n.
    """
    query, key, value = (op.arguments[name] for name in op.operator.factors)
    queries = op.result.numel // max(1, value.shape[-1])
    keys = attention_pairs(op) / max(1, queries)
    q, k, v = sources[:3]
    if not keys:
        return None
    scale = op.arguments.get("scale") or query.shape[-1] ** -0.5
    depth, squares = query.shape[-1], q.mean_square * k.mean_square
    carried = q.error_square * k.mean_square + q.mean_square * k.error_square
    scores = scale * _normal(0, math.sqrt(depth * squares))
    errors = scale * _normal(0, math.sqrt(depth * (carried + squares)))
    shares = (scores - torch.logsumexp(scores, 0) - math.log(keys / _SIZE)).exp()
    uneven = max(1.0, math.log(2 * keys) / 2) if keys < key.shape[-2] else 1.0
    total = uneven * keys * float(shares.square().mean())
    of_scores = uneven * keys * float((shares * errors).square().mean())
    mean = float(v.values.mean())
    spread = math.sqrt(total * max(0.0, v.mean_square - mean**2))
    error = (of_scores + total) * v.mean_square + total * v.error_square
    return Sample(_normal(mean, spread), _normal(0, math.sqrt(error)))


def _reduced(op: TracedOp, sources: Sequence[Sample]) -> Sample | None:
    """Return a sum, a mean, a norm or the largest of as many elements as it takes."""
    x, kind = sources[0], op.operator.reduces
    terms = max(1, op.inputs[0].numel // max(1, op.result.numel))
    if terms == 1 and kind is not Reduction.NORM:
        return x
    mean, values = float(x.values.double().mean()), x.values.double()
    error = math.sqrt(terms * x.error_square)
    if kind in (Reduction.SUM, Reduction.MEAN):
        spread = math.sqrt(terms * max(0.0, x.mean_square - mean**2))
        scale = 1 / terms if kind is Reduction.MEAN else 1.0
        return Sample(scale * _normal(terms * mean, spread), scale * _normal(0, error))
    if kind in (Reduction.LARGEST, Reduction.LEAST):
        several = values[torch.randint(_SIZE, (_SIZE, min(terms, _MOST)))]
        best = several.amax(1) if kind is Reduction.LARGEST else several.amin(1)
        return Sample(best, x.errors)
    if op.name in _SPREADS:
        variance = max(0.0, x.mean_square - mean**2)
        moved = 2 * math.sqrt(x.mean_square * x.error_square / terms)
        if op.name == "aten.std":
            moved, variance = moved / (2 * math.sqrt(variance) or 1.0), math.sqrt(variance)
        return Sample(torch.full((_SIZE,), variance, dtype=torch.float64), _normal(0, moved))
    if kind is Reduction.NORM and op.arguments.get("ord", op.arguments.get("p", 2)) == 2:
        norm = math.sqrt(terms * x.mean_square)
        return Sample(torch.full((_SIZE,), norm, dtype=torch.float64), x.errors)
    return None


def _cut(op: TracedOp, sources: Sequence[Sample]) -> Sample:
    """Return a triangle: half of the elements, the others zero."""
    del op
    values, kept = sources[0].values, torch.rand(_SIZE) < 0.5
    return Sample(values.where(kept, torch.zeros_like(values)), sources[0].errors * kept)


_Applies = Callable[[TracedOp], bool]
_Rule = Callable[[TracedOp, Sequence[Sample]], "Sample | None"]


def _normalises(op: TracedOp) -> bool:
    kind = op.operator.normalises
    trained = op.operator.cost == "norm" and bool(op.arguments.get("training", True))
    return kind in (Normalised.CENTRED, Normalised.SCALED) or trained


_RULES: tuple[tuple[_Applies, _Rule], ...] = (
    (lambda op: bool(op.operator.moves) or op.operator.family in _MOVES, _moved),
    (lambda op: op.operator.zeros.endswith("triangle"), _cut),
    (_normalises, _normalised),
    (lambda op: op.operator.cost == "softmax", _softmaxed),
    (lambda op: op.operator.cost == "attention" and bool(op.operator.factors), _attended),
    (lambda op: op.operator.reduces is not None or op.name in _SPREADS, _reduced),
)


# ------------------------------------------------------------------------------------- helpers


def _made(op: TracedOp) -> Sample | None:
    """Return a sample of what an op draws or fills in, by running it at that size."""
    target = torch.zeros(_SIZE, dtype=torch.float64)
    if op.name == "aten.arange":
        step = float(op.arguments.get("step", 1))
        places = torch.randint(max(1, op.result.numel), (_SIZE,))
        counted = float(op.arguments.get("start", 0)) + step * places
        is_float = op.result.dtype.is_floating_point
        return _exactly(counted.double() if is_float else counted.long())
    if not op.operator.launches or (op.inputs and not op.operator.reads_shape):
        return None  # it is not filled, or its parameters are tensors
    values = _run(op, lambda _: target, sized=True)
    return None if values is None else _exactly(values)


def _run(
    op: TracedOp, value: Callable[[TensorUse], torch.Tensor], sized: bool = False
) -> torch.Tensor | None:
    """Return the first result of an op on samples; ``None`` if it does not take them.

    Args:
        op: an op of the namespace ``aten``.
        value: the sample of an operand.
        sized: whether its first list is the size of its result.
    """
    namespace, _, name = op.name.partition(".")
    packet = getattr(torch.ops.aten, name, None)
    if namespace != "aten" or packet is None:
        return None

    def sampled(leaf: Any) -> Any:
        return value(leaf).clone() if isinstance(leaf, TensorUse) else leaf

    args = [
        [_SIZE] if sized and isinstance(arg, (list, tuple)) else map_leaves(sampled, arg)
        for arg in op.args
    ]
    kwargs = {
        name: map_leaves(sampled, arg) for name, arg in op.kwargs.items() if name not in _PLACES
    }
    try:
        out = packet(*args, **kwargs)
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # an operator that takes no such samples: nothing is known of its result
    first = out[0] if isinstance(out, (list, tuple)) and out else out
    usable = isinstance(first, torch.Tensor) and not first.is_complex()
    return _widened(first).expand(_SIZE) if usable and first.numel() in (1, _SIZE) else None


def _is_cancelled(sample: Sample, sources: Sequence[Sample]) -> bool:
    """Tell whether state that starts at zero hides how large a result may become."""
    if not sample.values.is_floating_point() or sample.values.any():
        return False
    return any(s.values.is_floating_point() and bool(s.values.any()) for s in sources)


def _widened(values: torch.Tensor) -> torch.Tensor:
    if values.dtype is torch.bool:
        return values.reshape(-1)
    return values.reshape(-1).to(torch.float64 if values.is_floating_point() else torch.int64)


def _exactly(values: torch.Tensor) -> Sample:
    return Sample(values, torch.zeros(_SIZE, dtype=torch.float64))


def _normal(mean: float, deviation: float) -> torch.Tensor:
    return mean + deviation * torch.randn(_SIZE, dtype=torch.float64)


def _mixed(samples: Sequence[Sample], weights: Iterable[float]) -> Sample:
    """Return elements of several samples, drawn by their weights."""
    chosen = torch.multinomial(torch.tensor(list(weights)), _SIZE, replacement=True)
    places = torch.arange(_SIZE)
    values = torch.stack([sample.values.double() for sample in samples])[chosen, places]
    errors = torch.stack([sample.errors for sample in samples])[chosen, places]
    is_float = any(sample.values.is_floating_point() for sample in samples)
    return Sample(values if is_float else values.long(), errors)


def _summed_terms(op: TracedOp) -> float:
    """Return how many products a result sums, by what they cost; 0 if that is unknown."""
    cost = cost_of(op)
    operations = {} if cost is None else cost.operations
    count = sum(n for key, n in operations.items() if key.startswith("contraction."))
    return count / 2 / op.result.numel if op.result.numel and len(op.outputs) == 1 else 0.0
