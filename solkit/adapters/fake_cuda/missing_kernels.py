"""Results of ops that have no kernel for fake tensors."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from solkit.adapters.fake_cuda.contents import computing_really, recall_contents
from solkit.adapters.fake_cuda.suppositions import SMALL
from solkit.errors import UnsupportedError


def call_without_kernel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an op's result by its functional overload, or by the shapes that the CPU gives.

    Raises:
        UnsupportedError: the op has neither.
    """
    if (functional := _functional_twin(func)) is not None:
        return _call_into(func, functional, args, kwargs)
    return _shaped_by_cpu(func, args, kwargs)


@functools.cache
def _functional_twin(func: Any) -> Any:
    """Return the overload that allocates what an ``out=`` overload gets; ``None`` if none does.

    Some versions of torch have fake kernels for that one alone, as of ``aten.bmm.dtype_out``.
    """
    plain = [argument for argument in func._schema.arguments if not argument.is_out]
    if len(plain) == len(func._schema.arguments):
        return None
    signature = [(argument.name, str(argument.type)) for argument in plain]
    for name in func.overloadpacket.overloads():
        schema = getattr(func.overloadpacket, name)._schema
        if [(a.name, str(a.type)) for a in schema.arguments] == signature and not schema.is_mutable:
            return getattr(func.overloadpacket, name)
    return None


def _call_into(func: Any, functional: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the results of an ``out=`` call, as large as those of the functional overload."""
    names = [argument.name for argument in func._schema.arguments if argument.is_out]
    outs = [kwargs[name] for name in names]
    others = {name: value for name, value in kwargs.items() if name not in names}
    for out, result in zip(outs, tree_leaves(functional(*args, **others)), strict=True):
        if result.dtype != out.dtype:
            raise RuntimeError(f"out has dtype {out.dtype}, and the result {result.dtype}")
        if out.shape != result.shape:
            out.resize_(result.shape)
    return outs[0] if len(outs) == 1 else tuple(outs)


def _shaped_by_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an op without a kernel for fake tensors: the shapes that the CPU gives for zeros.

    `torch._subclasses.fake_tensor.run_fallback_kernel` does so on the GPU. Shapes of large tensors
    follow from those that two sets of small sizes give.
    """
    if func._schema.name.startswith("aten::_use_"):  # asks for a library, and there is none here
        return False
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if func._schema.is_mutable or not inputs:
        raise UnsupportedError(f"{func} has no kernel for fake tensors")
    if sum(t.numel() for t in inputs) <= SMALL:
        return tree_map(functools.partial(_fake_leaf, inputs[0]), _of_zeros(func, args, kwargs, {}))
    sizes = sorted({n for t in inputs for n in t.shape if n > 4})
    trials = [{n: a + b * i for i, n in enumerate(sizes)} for a, b in ((5, 4), (7, 6))]
    results = [_of_zeros(func, args, kwargs, small) for small in trials]

    def scaled_leaf(*leaves: Any) -> Any:
        if not isinstance(leaves[0], torch.Tensor):
            return leaves[0]
        pairs = list(zip(*(leaf.shape for leaf in leaves)))
        sizes = [_scaled_size(pair, trials) for pair in pairs]
        shape = [size for size in sizes if size is not None]
        if len(shape) < len(pairs) or leaves[0].dim() != leaves[1].dim():
            raise UnsupportedError(f"{func} has no kernel for fake tensors")
        order = sorted(range(len(shape)), key=leaves[0].stride().__getitem__, reverse=True)
        return torch.empty_permuted(shape, order, dtype=leaves[0].dtype, device=inputs[0].device)

    return tree_map(scaled_leaf, *results)


def _of_zeros(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], small: Mapping[int, int]
) -> Any:
    """Run an op on the CPU, on zeros or known contents; `small` maps sizes to others."""

    def real_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
        fact = recall_contents(leaf)
        shape = tuple(small.get(n, n) for n in leaf.shape)
        zeros = torch.zeros(shape, dtype=leaf.dtype, device="cpu")
        return zeros if fact is None or small else fact.value

    with computing_really():
        try:
            return func(*tree_map(real_leaf, args), **tree_map(real_leaf, kwargs))
        except (NotImplementedError, RuntimeError, IndexError) as error:
            raise UnsupportedError(f"{func} has no kernel for fake tensors") from error


def _fake_leaf(like: torch.Tensor, leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.layout != torch.strided:
        raise UnsupportedError(f"an op gives a tensor of layout {leaf.layout}")
    return like.new_empty_strided(tuple(leaf.shape), leaf.stride(), dtype=leaf.dtype)


def _scaled_size(pair: Sequence[int], trials: Sequence[Mapping[int, int]]) -> int | None:
    """Return the size that two trials give for small ones; ``None`` if they say of none."""
    if pair[0] == pair[1]:
        return pair[0]
    fitting = [n for n in trials[0] if all(trial[n] == m for trial, m in zip(trials, pair))]
    return fitting[0] if fitting else None
