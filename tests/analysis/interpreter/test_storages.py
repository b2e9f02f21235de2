"""Integers behind the tensors of a launch."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.storages import Storages

EDGES = np.array([[5, 0, 7], [2, 9, 4]])
FIRST, SECOND, COLUMN = [(0, (3,), (1,)), (24, (3,), (1,)), (8, (2,), (3,))]
"""Offset in bytes, shape and strides of rows and of the middle column."""


def view(offset_bytes, shape, strides):
    return TensorArgument(1, EDGES.nbytes, offset_bytes, shape, strides, 8, EDGES.reshape(-1))


@pytest.mark.parametrize("order", [(FIRST, SECOND, COLUMN), (COLUMN, SECOND, FIRST)])
def test_each_view_of_a_storage_has_its_own_integers(order):
    storages = Storages()
    integers = {}
    for place in order:
        tensor = view(*place)
        addresses = storages.address_of(tensor) + 8 * tensor.strides[0] * np.arange(*tensor.shape)
        integers[place], is_known = storages.integers_at(1, addresses, 64)
        assert is_known
    assert len(storages) == 1
    assert integers[FIRST].tolist() == [5, 0, 7]
    assert integers[SECOND].tolist() == [2, 9, 4]
    assert integers[COLUMN].tolist() == [0, 9]


def test_unknown_integers_count_up_from_the_first_of_the_view():
    storages = Storages()
    address = storages.address_of(TensorArgument(1, 48, 24, (3,), (1,), 8))
    assert address >> ADDRESS_BITS == 1
    integers, is_known = storages.integers_at(1, address + 8 * np.arange(3), 64)
    assert (integers.tolist(), is_known) == ([0, 1, 2], False)
