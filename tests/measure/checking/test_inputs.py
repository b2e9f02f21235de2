from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from solkit.kernelfiles import Workload
from solkit.kernelfiles.seeding import seed_everything
from solkit.measure.checking import inputs
from solkit.measure.checking.inputs import (
    copy_workload,
    digest_inputs,
    is_unchanged,
    poison_tensors,
)
from solkit.measure.checking.redrawing import values_may_move


def workload(*args, **kwargs):
    return Workload(args, kwargs, reference=None, kernel=None)


def test_values_strides_and_offsets_are_kept():
    base = torch.arange(60.0).reshape(6, 10)
    view = base[1:5, ::3].t()
    (copy,) = copy_workload(workload(view)).args
    assert torch.equal(copy, view)
    assert (copy.stride(), copy.storage_offset()) == (view.stride(), view.storage_offset())
    copy.zero_()
    assert torch.equal(base, torch.arange(60.0).reshape(6, 10))


def test_shared_memory_stays_shared():
    x = torch.zeros(8)
    copy = copy_workload(workload(x, {"half": x[4:]}, [x.view(2, 4)], 3, flag="yes"))
    copy.args[0].fill_(7.0)
    assert copy.args[1]["half"].tolist() == [7.0] * 4
    assert copy.args[2][0].tolist() == [[7.0] * 4] * 2
    assert copy.args[3] == 3
    assert copy.kwargs == {"flag": "yes"}
    assert x.sum() == 0


def test_expanded_tensors_stay_expanded():
    copy = copy_workload(workload(torch.ones(3, 1).expand(3, 1000))).args[0]
    assert copy.stride() == (1, 0)
    assert copy.untyped_storage().nbytes() == 12


def test_gradients_are_asked_for_again():
    x = torch.randn(4, requires_grad=True)
    copy = copy_workload(workload(x, y=torch.randn(3))).args[0]
    assert copy.requires_grad
    assert copy.is_leaf


def test_odd_tensors():
    conjugate = torch.tensor([1 + 2j]).conj()
    sparse = torch.eye(3).to_sparse()
    empty = torch.empty(0, 4)
    copies = copy_workload(workload(conjugate, sparse, empty))
    assert torch.equal(copies.args[0], conjugate)
    assert torch.equal(copies.args[1].to_dense(), torch.eye(3))
    assert copies.args[2].shape == (0, 4)
    assert is_unchanged(workload(conjugate, sparse, empty), copies)


def test_changes_are_seen():
    before = workload(torch.tensor([1.0, float("nan"), -0.0]), out=torch.zeros(2))
    after = copy_workload(before)
    assert is_unchanged(before, after)
    after.kwargs["out"][1] = 1e-30
    assert not is_unchanged(before, after)


def test_a_changed_sign_of_zero_is_a_change():
    before = workload(torch.zeros(2))
    after = copy_workload(before)
    after.args[0].neg_()
    assert not is_unchanged(before, after)


def test_seeding_covers_all_generators():
    draws = []
    for _ in range(2):
        seed_everything(2**40 + 3)
        draws.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert draws[0] == draws[1]


FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float8_e4m3fn, torch.float8_e5m2])
def test_poison_is_nan_in_every_float(dtype):
    out = torch.zeros(4, 6).to(dtype)[:, ::2]
    poison_tensors([out])
    wide = out.to(torch.complex128 if dtype.is_complex else torch.float64)
    assert wide.isnan().all()


def poisoned(tensors):
    """How many of each tensor's numbers still hold the poison: compared as integers."""
    counts = []
    for tensor in tensors:
        again = torch.empty_like(tensor)
        poison_tensors([again])
        parts = [torch.view_as_real(t) if t.is_complex() else t for t in (tensor, again)]
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        bits = [part.contiguous().view(kind[part.element_size()]) for part in parts]
        counts.append(int((bits[0] == bits[1]).sum()))
    return counts


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int16])
def test_elements_left_unwritten_are_counted(dtype):
    out = torch.zeros(4, 5).to(dtype)
    assert poisoned([out]) == [0]
    poison_tensors([out])
    out[:3] = 0
    unwritten = 10 if dtype.is_complex else 5  # of a complex number, both parts
    assert poisoned([out]) == [unwritten]


def test_nan_that_was_computed_is_no_poison():
    out = torch.empty(3)
    poison_tensors([out])
    out.copy_(torch.zeros(3) / 0)
    assert poisoned([out]) == [0]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.float8_e5m2])
def test_single_bytes_are_poisoned(dtype):
    out = torch.zeros(8).to(dtype)
    before = out.clone()
    poison_tensors([out])
    assert not (out.view(torch.uint8) == before.view(torch.uint8)).any()


def test_expanded_tensors_are_poisoned():
    out = torch.zeros(3, 1).expand(3, 4)
    poison_tensors([out])
    assert out.isnan().all()


def test_equal_inputs_have_one_digest_whatever_their_memory(monkeypatch):
    bytes_ = torch.arange(100, dtype=torch.uint8)
    whole = digest_inputs(workload(bytes_[3:90], 2, flag=True))
    assert digest_inputs(workload(bytes_[3:90].clone(), 2, flag=True)) == whole
    monkeypatch.setattr(inputs, "_CHUNK_BYTES", 16)
    assert digest_inputs(workload(bytes_[3:90], 2, flag=True)) == whole
    turned = torch.arange(6.0).reshape(2, 3)
    assert digest_inputs(workload(turned.t())) == digest_inputs(workload(turned.t().contiguous()))


def test_inputs_that_differ_have_other_digests():
    zeros, ones = torch.zeros(4), torch.ones(4)
    different = [
        workload(zeros, ones),
        workload(ones, zeros),
        workload(zeros, x=ones),
        workload(zeros, ones, 1),
        workload(zeros, ones, True),
        workload(zeros, ones.reshape(2, 2)),
        workload(zeros, ones.view(torch.int32)),
        workload(zeros, torch.tensor([1.0, 1.0, 1.0, 1.0 + 2**-23])),
        workload(zeros, torch.zeros(0)),
        workload(torch.tensor([0.0, 0.0, 1.0, 0.0])),
        workload(torch.tensor([1.0, 0.0, 0.0, 0.0])),
        workload(torch.zeros(4).to_sparse()),
    ]
    assert len({digest_inputs(item) for item in different}) == len(different)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_values_of_rows_that_never_tie_stay_where_they_are(dtype):
    def orders():
        rows = [torch.randperm(2048).to(dtype) for _ in range(600)]
        return workload(torch.stack(rows))

    def numbers():
        return workload(torch.rand(600, 2048).to(dtype))

    assert values_may_move([numbers(), numbers()])
    assert values_may_move([numbers(), orders()])  # what one draw has by chance binds nothing
    assert not values_may_move([orders(), orders()])
