"""Which input elements a result depends on, found by running the reference for real.

The oracle knows nothing of ATen: it runs a micro problem on the CPU in float64, changes input
elements and watches the outputs. An element whose gradient is not zero matters; of the others,
whole groups are changed at once and halved until each is cleared or convicted. So it is a lower
bound of what must be read that owes nothing to the rules under test.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import micro_trace
import torch


@dataclass(frozen=True)
class Dependence:
    """What a problem depends on and what it writes.

    Attributes:
        read: bytes of input elements that some output depends on, for one draw of the inputs.
        least, most: the same, the least and the most over several draws.
        written: bytes of the results; of an input changed in place, only what was changed.
    """

    least: int
    most: int
    written: int


_TO_DOUBLE = [
    (r"\.(float|bfloat16|half)\(\)", ".double()"),
    (r"torch\.(float32|bfloat16|float16|float8_e4m3fn|float8_e5m2)\b", "torch.float64"),
    (r"\bcomplex64\b", "complex128"),
]


def _module(problem: micro_trace.Micro, double: bool) -> dict[str, Any]:
    text = problem.source.replace(".cuda()", ".double()" if double else "")
    text = text.replace('DEV = "cuda"', 'DEV = "cpu"').replace("'cuda'", "'cpu'")
    for pattern, other in _TO_DOUBLE if double else ():
        text = re.sub(pattern, other, text)
    namespace: dict[str, Any] = {}
    exec(compile(text, "<micro>", "exec"), namespace)
    return namespace


@contextlib.contextmanager
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def _seed(seed: int) -> None:
    """Of the CPU alone: `torch.manual_seed` notes a stack trace for each kind of GPU, 10 ms."""
    torch.default_generator.manual_seed(seed)


def _leaves(args: list[Any]) -> list[torch.Tensor]:
    """The tensors among the arguments, and those of modules."""
    results: list[torch.Tensor] = []
    for arg in args:
        if isinstance(arg, torch.nn.Module):
            results += [t.data for t in (*arg.parameters(), *arg.buffers())]
        elif isinstance(arg, torch.Tensor):
            results.append(arg)
    return results


def _flat(out: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """Its storage as a flat tensor of real numbers or integers: what is perturbed, counted."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.detach()).reshape(-1)
    return tensor.detach().reshape(-1)


_FEW = 8  # elements that are sooner tried one by one than halved, since mostly all matter


class Oracle:
    """One problem, ready to be run again and again."""

    def __init__(self, problem: micro_trace.Micro, seed: int = 0) -> None:
        _seed(seed)
        self._module = _module(problem, double=True)
        with _double():
            self._args: list[Any] = self._module["inputs"]()
        self.base = [_elements(t).clone() for t in _leaves(self._args)]
        _seed(seed)
        true = _module(problem, double=False)
        self._true_args = true["inputs"]()
        self.item_bytes = [_item_bytes(t) for t in _leaves(self._true_args)]
        self._true = true["reference"]

    # -------------------------------------------------------------------------- running

    def run(self, values: list[torch.Tensor], leaves: list[torch.Tensor] | None = None) -> _Seen:
        """The reference on these element values."""
        args, inputs = self._fill(values, leaves)
        _seed(7)
        with warnings.catch_warnings(), _double():
            warnings.simplefilter("ignore")
            outputs = _flat(self._module["reference"](*args))
        return _Seen(inputs, values, outputs)

    def _fill(
        self, values: list[torch.Tensor], leaves: list[torch.Tensor] | None
    ) -> tuple[list[Any], list[torch.Tensor]]:
        remaining = iter(range(len(values)))
        args: list[Any] = []
        inputs: list[torch.Tensor] = []
        for arg in self._args:
            if isinstance(arg, torch.nn.Module):
                for t in (*arg.parameters(), *arg.buffers()):
                    t.grad = None
                    with torch.no_grad():
                        _elements(t).copy_(values[next(remaining)])
                    inputs.append(t)
                args.append(arg)
            elif isinstance(arg, torch.Tensor):
                i = next(remaining)
                flat = leaves[i] if leaves is not None else values[i].clone()
                if arg.is_complex():
                    args.append(torch.view_as_complex(flat.reshape(*arg.shape, 2)))
                else:
                    args.append(flat.view(arg.shape))
                inputs.append(args[-1])
            else:
                args.append(arg)
        return args, inputs

    # ---------------------------------------------------------------------- dependence

    def read(self) -> list[torch.Tensor]:
        """Of each input, which elements matter: a boolean mask."""
        seen = self.run(self.base)
        results = self._by_gradient(seen)
        doubtful = [
            (leaf, int(e)) for leaf, mask in enumerate(results) for e in (~mask).nonzero().ravel()
        ]
        for leaf, element in self._convicted(seen, doubtful):
            results[leaf][element] = True
        return results

    def _by_gradient(self, base: _Seen) -> list[torch.Tensor]:
        masks = [torch.zeros(v.shape, dtype=torch.bool) for v in self.base]
        leaves = [v.clone().requires_grad_(v.is_floating_point()) for v in self.base]
        # a clone, since a leaf that requires a gradient must not be changed in place
        with contextlib.suppress(RuntimeError, NotImplementedError):
            seen = self.run(self.base, [leaf.clone() for leaf in leaves])
            expected = {  # a module's parameters are leaves themselves
                i: t if isinstance(t, torch.nn.Parameter) else leaves[i]
                for i, t in enumerate(seen.given)
                if leaves[i].requires_grad and t.requires_grad
            }
            total = seen.cotangent(base)
            if total is not None and expected:
                grads = torch.autograd.grad(total, list(expected.values()), allow_unused=True)
                for i, grad in zip(expected, grads):
                    if grad is not None:
                        masks[i] |= _elements(grad).nan_to_num(1.0).abs() > 1e-9
        return masks

    def _convicted(self, seen: _Seen, group: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        if not group or not self._matters(seen, group):
            return
        if len(group) == 1:
            yield group[0]
            return
        if len(group) <= _FEW:
            yield from (one for one in group if self._matters(seen, [one]))
            return
        yield from self._convicted(seen, group[: len(group) // 2])
        yield from self._convicted(seen, group[len(group) // 2 :])

    def _matters(self, seen: _Seen, group: list[tuple[int, int]]) -> bool:
        for kind in range(KINDS):
            try:
                if self.run(self._changed(group, kind)).differs(seen):
                    return True
            except (RuntimeError, IndexError, ValueError):
                # an index out of range is no input that a kernel must mind; among others, split
                if len(group) > 1:
                    return True
        return False

    def _changed(self, group: list[tuple[int, int]], kind: int) -> list[torch.Tensor]:
        values = [v.clone() for v in self.base]
        chosen: dict[int, list[int]] = defaultdict(list)
        for leaf, element in group:
            chosen[leaf].append(element)
        for leaf, elements in chosen.items():
            at = torch.tensor(elements)
            values[leaf][at] = _other(values[leaf][at], kind)
        return values

    # ------------------------------------------------------------------------- results

    def written(self) -> int:
        """Bytes of the results at their true dtypes."""
        before = [t.detach().clone() for t in _leaves(self._true_args)]
        _seed(7)
        outputs = _flat(self._true(*self._true_args))
        inputs = {t.untyped_storage().data_ptr(): i for i, t in enumerate(_leaves(self._true_args))}
        total, fresh = 0, defaultdict(set)
        for storage in {t.untyped_storage().data_ptr() for t in outputs}:
            if storage in inputs:
                leaf = inputs[storage]
                now, then = _leaves(self._true_args)[leaf].detach(), before[leaf]
                total += int((now != then).sum()) * now.element_size()
        for out in outputs:
            if out.untyped_storage().data_ptr() not in inputs:
                fresh[out.untyped_storage().data_ptr()] |= _bytes_of(out)
        return total + sum(map(len, fresh.values()))


class _Seen:
    """One run: the outputs, of an input changed in place only what was changed."""

    def __init__(
        self, tensors: list[torch.Tensor], values: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        home = {t.untyped_storage().data_ptr(): i for i, t in enumerate(tensors)}
        homes = [home.get(o.untyped_storage().data_ptr()) for o in outputs]
        self.given = tensors
        self.fresh = [o for o, leaf in zip(outputs, homes) if leaf is None]
        self.changed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for leaf in sorted({leaf for leaf in homes if leaf is not None}):
            now = _live_elements(tensors[leaf]).clone()  # the next run reuses a module's
            self.changed[leaf] = now, ~_same(now.detach(), values[leaf])

    def differs(self, other: _Seen) -> bool:
        if len(self.fresh) != len(other.fresh):
            return True
        for mine, theirs in zip(self.fresh, other.fresh):
            if mine.shape != theirs.shape or not bool(_same(_r(mine), _r(theirs)).all()):
                return True
        for leaf, (now, touched) in self.changed.items():
            then, was_touched = other.changed[leaf]
            moved = (touched | was_touched) & ~_same(now.detach(), then.detach())
            if bool(moved.any()):
                return True
        return False

    def cotangent(self, base: _Seen) -> torch.Tensor | None:
        """A random combination of all outputs, to be differentiated."""
        parts = [(_live_elements(o), None) for o in self.fresh]
        parts += [(now, base.changed[leaf][1]) for leaf, (now, _) in self.changed.items()]
        terms = []
        for values, mask in parts:
            if values.is_floating_point() and values.requires_grad:
                weights = torch.rand_like(values) + 0.5
                terms.append((values * (weights if mask is None else weights * mask)).sum())
        return torch.stack(terms).sum() if terms else None


def _r(tensor: torch.Tensor) -> torch.Tensor:
    return _live_elements(tensor).detach()


def _live_elements(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.resolve_neg().reshape(-1)


def _same(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    if not left.is_floating_point():
        return left == right
    return torch.isclose(left, right, rtol=1e-9, atol=1e-9, equal_nan=True)


KINDS = 5


def _other(values: torch.Tensor, kind: int) -> torch.Tensor:
    """Other values of the same dtype: above, below and near."""
    if values.dtype == torch.bool:
        return ~values
    if values.is_floating_point():
        return torch.randn_like(values) + (30.0, -30.0, 0.0, 3.0, -3.0)[kind]
    if values.dtype == torch.uint8:
        return values ^ (torch.randint(1, 16, values.shape) * (1, 16, 17, 1, 16)[kind]).to(
            torch.uint8
        )
    return values + (1, -1, 3, -5, 10)[kind]


def _item_bytes(tensor: torch.Tensor) -> int:
    return tensor.element_size() // (2 if tensor.is_complex() else 1)


def _bytes_of(tensor: torch.Tensor) -> set[int]:
    """The elements of its storage that a tensor covers, each as many bytes as it takes."""
    size = tensor.element_size()
    count = tensor.untyped_storage().nbytes() // size
    places = torch.arange(count).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return {int(p) * size + byte for p in places.unique() for byte in range(size)}


def dependence(problem: micro_trace.Micro, draws: int = 2) -> Dependence:
    """Bytes that `problem` must read and write, by brute force."""
    reads, written = [], []
    for seed in range(draws):
        oracle = Oracle(problem, seed)
        masks = oracle.read()
        reads.append(sum(int(m.sum()) * n for m, n in zip(masks, oracle.item_bytes)))
        written.append(oracle.written())
    return Dependence(min(reads), max(reads), max(written))
