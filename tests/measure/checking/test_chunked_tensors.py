"""Parts change nothing: what they cut is put together again."""

from __future__ import annotations

import pytest
import torch

from solkit.kernelfiles import Workload
from solkit.measure.checking import chunked_tensors
from solkit.measure.checking.distributions import DISTRIBUTIONS, MIXED, NEAR
from solkit.measure.checking.exact import exact_reference
from solkit.measure.checking.inputs import fingerprints_of

KEY = 1 << 40


@pytest.fixture
def small(monkeypatch):
    """Parts of a few elements."""
    monkeypatch.setattr(chunked_tensors, "ELEMENTS", 7)


def seeded(make):
    torch.manual_seed(3)
    return make()


@pytest.mark.parametrize("name", ["large", "one-hot rows", "ramps", "negative", "subnormal"])
def test_distributions_do_not_depend_on_parts(name, monkeypatch):
    tensor = torch.randn(5, 9)
    (selected_distribution,) = (
        distribution for distribution in DISTRIBUTIONS if distribution.name == name
    )
    whole = selected_distribution.values(tensor, torch.float32)
    monkeypatch.setattr(chunked_tensors, "ELEMENTS", 7)
    assert torch.equal(selected_distribution.values(tensor, torch.float32), whole)
    assert torch.equal(selected_distribution.values(tensor.T.contiguous().T, torch.float32), whole)


@pytest.mark.usefixtures("small")
def test_values_in_parts():
    inputs = torch.arange(1.0, 46.0).view(5, 9)
    mixed = seeded(lambda: MIXED.values(inputs, torch.float32)).flatten()
    moves = {int(m) for m in (inputs.flatten() - mixed) % 45}
    assert len(moves) == 2  # all that move do so by the same distance, around the end
    near = seeded(lambda: NEAR.values(inputs, torch.float32))
    assert 0 < (near / inputs - 1).abs().max() < 1e-6
    for distribution in DISTRIBUTIONS:
        values = distribution.values(inputs, torch.float32)
        assert values.shape == inputs.shape
        assert values.data_ptr() != inputs.data_ptr()
        assert int(values.isinf().sum()) >= distribution.infinite


@pytest.mark.parametrize("offset", [0, 1, 8])
@pytest.mark.parametrize("size", [0, 5, 56, 57, 200, 203])
@pytest.mark.usefixtures("small")
def test_every_byte_is_compared(size, offset):
    room = torch.randint(256, (offset + size,), dtype=torch.uint8)
    bytes_, other = room[offset:], room[offset:].clone()
    assert chunked_tensors.equal_bytes(bytes_, other)
    assert not chunked_tensors.equal_bytes(
        bytes_, torch.cat((other, other[:1], torch.zeros(1).byte()))
    )
    mine = chunked_tensors.fingerprint(bytes_, KEY)
    assert mine == chunked_tensors.fingerprint(other, KEY)
    for place in range(size):
        changed = other.clone()
        changed[place] ^= 1 << place % 8
        assert not chunked_tensors.equal_bytes(bytes_, changed)
        assert chunked_tensors.fingerprint(changed, KEY) != mine


def test_fingerprints_tell_places_forms_and_keys():
    x = torch.zeros(64)
    x[3], x[40] = 1.0, 2.0
    swapped = x.clone()
    swapped[3], swapped[40] = 2.0, 1.0
    other = torch.zeros(64)  # the same sums of words, and of words by their places
    other[4], other[39] = 1.0, 2.0
    prints = [fingerprints_of([item], KEY) for item in (x, swapped, other, x.view(8, 8), -x)]
    assert len({tuple(map(str, item)) for item in prints}) == 5
    assert fingerprints_of([x], KEY) == fingerprints_of([x.clone()], KEY)
    assert fingerprints_of([x], KEY) != fingerprints_of([x], KEY + 1)
    nan = torch.tensor([torch.nan, 0.0])
    assert fingerprints_of([nan], KEY) == fingerprints_of([nan.clone()], KEY)
    assert fingerprints_of([nan], KEY) != fingerprints_of([nan * torch.tensor([1, -1])], KEY)


@pytest.mark.usefixtures("small")
def test_elements_are_counted_in_parts():
    inputs = torch.arange(45).view(5, 9).T
    assert chunked_tensors.count_elements(inputs, lambda part: part % 2 == 0) == 23
    assert [slab.shape for slab in chunked_tensors.cut_slabs(inputs)[1]] == [(1, 5)] * 9


def test_exact_outputs_do_not_depend_on_parts(monkeypatch):
    x = torch.randn(40, 24)
    problem = Workload((x,), {}, lambda x: (x.cumsum(1), x.T.exp(), x.sum()), None)
    whole = exact_reference(problem)
    monkeypatch.setattr(chunked_tensors, "ELEMENTS", 100)
    for one, other in zip(whole, exact_reference(problem), strict=True):
        assert torch.equal(one.value, other.value)  # sensitivities: by other signs
        ratio = (one.sensitivity / other.sensitivity).log().abs()
        assert float(ratio.mean()) < 1.0
