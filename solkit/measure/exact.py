"""The reference in wide arithmetic: what its outputs are without rounding, and how sure that is."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.measure.inputs import fresh, seed_everything

__all__ = ["Exact", "exact_reference"]


@dataclass(frozen=True)
class Exact:
    """One output of a reference, computed in wide arithmetic.

    Attributes:
        value: the output, in fp64 (fp32 where the reference does not run in fp64), of the same
            shape. Integers and bools as the wide reference gives them.
        sensitivity: per element, how far it moves if every input moves by a relative amount t at
            random, divided by t. Zero for integers and bools.
        others: the output of nearby inputs. Kept only of integers and bools, where a tie that
            rounding breaks one way or the other gives another value altogether.
    """

    value: torch.Tensor
    sensitivity: torch.Tensor
    others: tuple[torch.Tensor, ...] = ()


def exact_reference(workload: Workload, seed: int = 0) -> list[Exact]:
    """The reference's outputs on the same inputs, in fp64; in fp32 where fp64 does not run.

    Raises:
        UnsupportedError: the reference runs in neither.
    """
    raise UnsupportedError(f"not yet: {workload}, {seed}")
