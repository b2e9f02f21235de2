from __future__ import annotations

import os

import pytest
import torch

from solkit.measure.guarded.sharing import (
    Packed,
    allocate_block,
    attach_block,
    pack_value,
    unpack_value,
)


@pytest.fixture
def share():
    """Share a value as with another process; gives what arrives, and both ends of the memory."""
    blocks = []

    def share(value):
        packed = pack_value(value, "cpu")
        block = allocate_block(packed.size, "cpu")
        packed.fill_block(block)
        ticket, descriptors = block.ticket()
        other = attach_block(ticket, [os.dup(descriptor) for descriptor in descriptors])
        blocks.extend((block, other))
        return unpack_value(Packed.loads(packed.dumps()), other), packed, block, other

    yield share
    for block in blocks:
        block.close()


def test_values_arrive_and_memory_is_shared(share):
    value = {"x": torch.arange(6.0).reshape(2, 3), "n": 3, "dtype": torch.float8_e5m2}
    arrived, packed, block, _ = share(value)
    assert torch.equal(arrived["x"], value["x"])
    assert (arrived["n"], arrived["dtype"]) == (3, torch.float8_e5m2)
    assert arrived["x"].data_ptr() != value["x"].data_ptr()
    assert list(packed.changed_storages(block)) == []
    arrived["x"][1, 2] = 7.0
    assert list(packed.changed_storages(block)) == [0]
    assert value["x"][1, 2] == 5.0  # the referee's own
    packed.fill_block(block)
    assert arrived["x"][1, 2] == 5.0


def test_what_is_filled_has_settled(share, monkeypatch):
    """On a GPU the other process's work would else overtake the copies."""
    value = torch.arange(6.0)
    arrived, packed, block, _ = share(value)
    seen = []
    monkeypatch.setattr(type(block), "settle", lambda _: seen.append(arrived.clone()))
    arrived.zero_()
    packed.fill_block(block)
    assert len(seen) == 1
    assert torch.equal(seen[0], value)


def test_views_share_storages_again(share):
    base = torch.randn(8, 8)
    views = [base, base.T, base[3, 2:], base[::2], base.expand(2, 8, 8)]
    arrived, packed, _, _ = share(views)
    assert len(packed.places) == 1
    for view, again in zip(views, arrived, strict=True):
        assert torch.equal(view, again)
        assert (view.stride(), view.storage_offset()) == (again.stride(), again.storage_offset())
    arrived[0][3, 2] = 9.0
    assert arrived[2][0] == arrived[1][2, 3] == 9.0


def test_storages_are_aligned_and_apart(share):
    arrived, packed, block, _ = share([torch.ones(3), torch.ones(200), torch.ones(5)])
    assert [offset % 512 for offset, _ in packed.places] == [0, 0, 0]
    arrived[0].fill_(2.0)
    assert list(packed.changed_storages(block)) == [0]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(0, 4),
        torch.tensor(3.0),
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.randn(3, 3).to_sparse(),
        torch.tensor([True, False]),
        torch.randn(4).to(torch.float8_e4m3fn),
        torch.nn.Parameter(torch.randn(4)),
        torch.randn(4, requires_grad=True),
    ],
)
def test_kinds_of_tensors(share, tensor):
    (arrived, twice), *_ = share([tensor, tensor])
    assert type(arrived) is type(tensor)
    assert (arrived.dtype, arrived.shape) == (tensor.dtype, tensor.shape)
    assert arrived.requires_grad == tensor.requires_grad
    for item in (arrived, twice):
        wide = [t.detach().to_dense().to(torch.complex64).tolist() for t in (item, tensor)]
        assert wide[0] == wide[1]


def test_whether_a_tensor_lies_in_a_block(share):
    arrived, _, _, other = share([torch.ones(4), torch.ones(4)])
    assert all(other.holds(tensor) for tensor in (*arrived, arrived[0][2:]))
    assert not other.holds(torch.ones(4))
    assert not other.holds(torch.empty(0))
