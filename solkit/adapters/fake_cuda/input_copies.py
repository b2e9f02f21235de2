"""Copies of inputs on fake tensors, for problems whose inputs take long to draw.

A thousand permutations take a second on fake tensors, and each run of a launcher gets inputs of its
own. Copies have the layout, the contents and the common storages of what was drawn.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from solkit.adapters.fake_cuda.contents import Contents, attach_contents, contents_of_storage

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
_MOST_BYTES = 1 << 26  # of contents: copies count as if they had their own
_KEPT = ("share", "choices", "later", "rows")  # fields of `Contents` that a copy shares
_BEYOND_LAYOUT = ("constant", "pytype", "real_tensor")  # fields of a fake tensor


class InputCopies:
    """Inputs as they were drawn, of which copies are made.

    Args:
        inputs: tensors and plain values, in tuples, lists and dictionaries.
    """

    def __init__(self, inputs: Any) -> None:
        leaves, self._form = tree_flatten(inputs)
        self._leaves = _copies(leaves)  # the candidate may write to those that were drawn

    @staticmethod
    def may_copy(inputs: Any) -> bool:
        """Tell whether copies are the same to a program: of plain tensors with few contents."""
        leaves, _ = tree_flatten(inputs)
        tensors = [leaf for leaf in leaves if type(leaf) not in _PLAIN]
        if not all(type(t) is FakeTensor and _is_plain(t) for t in tensors):
            return False
        held = {t.untyped_storage()._cdata: _contents_of(t) for t in tensors}
        flats = [c.flat for c in held.values() if c is not None and c.flat is not None]
        return sum(flat.nbytes for flat in flats) <= _MOST_BYTES

    def make(self) -> Any:
        """Return inputs like those that were drawn, of new tensors."""
        return tree_unflatten(_copies(self._leaves), self._form)


def _is_plain(tensor: torch.Tensor) -> bool:
    is_strided = tensor.layout is torch.strided and not (tensor.is_conj() or tensor.is_neg())
    named = {*vars(torch.empty(0)), "_solkit_contents"}
    has_more = not vars(tensor).keys() <= named or any(
        getattr(tensor, name) is not None for name in _BEYOND_LAYOUT
    )
    is_whole = tensor.untyped_storage().nbytes() % tensor.element_size() == 0
    return is_strided and is_whole and not tensor.requires_grad and not has_more


def _contents_of(tensor: torch.Tensor) -> Contents | None:
    return contents_of_storage.get(tensor.untyped_storage()._cdata)


def _copies(leaves: Sequence[Any]) -> list[Any]:
    """Return copies of tensors; those of one storage share a new one."""
    copied: dict[int, torch.Tensor] = {}  # one of each tensor: an argument may come twice
    bytes_of: dict[int, torch.Tensor] = {}  # of each storage
    return [_copy(leaf, copied, bytes_of) if torch.is_tensor(leaf) else leaf for leaf in leaves]


def _copy(
    tensor: torch.Tensor, copied: dict[int, torch.Tensor], bytes_of: dict[int, torch.Tensor]
) -> torch.Tensor:
    """Return a copy with the tensor's layout and contents; both dictionaries note what is new."""
    if id(tensor) in copied:
        return copied[id(tensor)]
    storage = tensor.untyped_storage()
    if storage._cdata not in bytes_of:
        size = storage.nbytes()
        bytes_of[storage._cdata] = torch.empty(size, dtype=torch.uint8, device=tensor.device)
    whole = bytes_of[storage._cdata].view(tensor.dtype)
    new = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).detach()
    copied[id(tensor)] = new
    if (contents := _contents_of(tensor)) is not None:
        fresh = _contents_of(new) or Contents(new.untyped_storage())
        fresh.hold_elements(contents.flat, contents.guesses, contents.drawn)
        vars(fresh).update({name: getattr(contents, name) for name in _KEPT})
        fresh.shared = contents.shared = True  # a write makes a copy
        attach_contents(new, fresh)
    return new
