"""Entry point of another kernel for the same problem, whose callers a program must serve.

A program fits the arguments that it was compiled with. So callers get it under a condition, an
expression of the entry point's parameters, and what it returns is nested and laid out as before.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from solkit.errors import InputError


@dataclass(frozen=True)
class Layout:
    """Properties of a tensor that an entry point returns.

    Attributes:
        dtype, shape, stride: as of the tensor.
        argument: place of the argument that it is; ``None`` if it is another tensor.
        is_shared: whether it lies in the memory of an argument.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    argument: int | None = None
    is_shared: bool = False

    @staticmethod
    def of(tensor: torch.Tensor, arguments: Sequence[torch.Tensor]) -> Layout:
        """Return those of a tensor that was returned for these arguments."""
        same = (place for place, other in enumerate(arguments) if other is tensor)
        memory = tensor.untyped_storage()._cdata
        is_shared = any(memory == other.untyped_storage()._cdata for other in arguments)
        layout = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())
        return Layout(*layout, next(same, None), is_shared)


@dataclass(frozen=True)
class Returned:
    """Values that an entry point returns.

    Attributes:
        leaves: its values in order, a `Layout` for each tensor.
        form: how they are nested.
    """

    leaves: Sequence[Any]
    form: TreeSpec

    @staticmethod
    def of(value: Any, arguments: Sequence[torch.Tensor]) -> Returned:
        """Return it of a value that was returned for these arguments."""
        leaves, form = tree_flatten(value)
        tensors = [Layout.of(x, arguments) if isinstance(x, torch.Tensor) else x for x in leaves]
        return Returned(tensors, form)

    def filled(self, texts: Sequence[Any]) -> Any:
        """Return the value with these in place of its tensors."""
        rest = iter(texts)
        return tree_unflatten(
            [next(rest) if isinstance(leaf, Layout) else leaf for leaf in self.leaves], self.form
        )

    @property
    def layouts(self) -> list[Layout]:
        """Those of its tensors."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Layout)]


@dataclass(frozen=True)
class Caller:
    """An entry point in place of the reference's own.

    Attributes:
        signature: its parameters, as far as the problem's inputs go.
        returned: what it returns; ``None`` if that is unknown, or goes to its arguments.
        module: its object, if it is a module's ``forward``.
        places: expressions for tensors of the reference's module that its object has elsewhere.
        written: places of the tensors among its arguments that it may write.
        destinations: tensors for its results, by the parameters that come after the inputs.
    """

    signature: inspect.Signature
    returned: Returned | None
    module: torch.nn.Module | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    written: frozenset[int] = frozenset()
    destinations: Mapping[str, torch.Tensor] = field(default_factory=dict)


def conditions_of(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """Return expressions that are true where a call has such arguments as these.

    Raises:
        InputError: an argument cannot be told from others; says which.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the kernel takes other arguments: {error}") from error
    bound.apply_defaults()
    return [text for name, value in bound.arguments.items() for text in _conditions(name, value)]


def _conditions(text: str, value: Any) -> Iterator[str]:
    """Yield expressions, each of which may rely on those before."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        yield f"isinstance({text}, torch.Tensor)"
        yield f"{text}.layout is torch.strided"
        yield from tensor_conditions(text, value)
        yield f"not {text}.requires_grad"
        if value.is_floating_point() or value.is_complex():
            yield f"not {text}.is_neg()"
        if value.is_complex():
            yield f"not {text}.is_conj()"
    elif value is None or kind is bool or kind is torch.dtype:
        yield f"{text} is {value!r}"
    elif kind in _COMPARED:
        yield f"type({text}) is {kind.__name__} and {text} == {value!r}"
    elif kind is float:
        yield from _float_conditions(text, value)
    elif isinstance(value, torch.device):
        yield f"str({text}) == {str(value)!r}"
    elif kind in (list, tuple):
        yield f"type({text}) is {kind.__name__} and len({text}) == {len(value)}"
        for place, entry in enumerate(value):
            yield from _conditions(f"{text}[{place}]", entry)
    elif kind is dict and all(type(key) in _COMPARED for key in value):
        yield f"type({text}) is dict and list({text}) == {list(value)!r}"
        for key, entry in value.items():
            yield from _conditions(f"{text}[{key!r}]", entry)
    else:
        raise InputError(f"nothing tells {text}, a {kind.__name__}, from others")


_COMPARED = (int, str)
"""Types of values that a file can write and compare, but not those that inherit from them."""


def _float_conditions(text: str, value: float) -> Iterator[str]:
    """Tell zeros of both signs apart; what is no number equals nothing."""
    yield f"type({text}) is float"
    is_plain = math.isfinite(value) and value != 0
    yield f"{text} == {value!r}" if is_plain else f"str({text}) == {str(value)!r}"


def tensor_conditions(text: str, tensor: torch.Tensor) -> Iterator[str]:
    """Yield expressions that are true for tensors of the same properties."""
    if tensor.layout is not torch.strided:
        raise InputError(f"{text} is a sparse tensor")
    if not tensor.is_cuda:
        raise InputError(f"{text} is not on the GPU: its value may be part of the program")
    yield f"isinstance({text}, torch.Tensor)"
    yield f"{text}.is_cuda"
    yield f"{text}.dtype == {tensor.dtype} and {text}.shape == {tuple(tensor.shape)}"
    yield f"{text}.stride() == {tuple(tensor.stride())}"


def state_conditions(tensors: Sequence[str]) -> Iterator[str]:
    """Yield expressions that are true where PyTorch's settings are as now, and launches reach.

    Args:
        tensors: expressions for tensors. Kernels are launched on the current GPU.
    """
    yield f"torch.get_default_dtype() is {torch.get_default_dtype()}"
    for name in ("is_autocast_enabled", "are_deterministic_algorithms_enabled"):
        is_set = getattr(torch, name)()
        yield f"{'' if is_set else 'not '}torch.{name}()"
    for text in tensors[1:]:
        yield f"{text}.device == {tensors[0]}.device"
    if tensors:
        yield f"{tensors[0]}.device.index == torch.cuda.current_device()"
