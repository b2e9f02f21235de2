from __future__ import annotations

import random

import numpy as np
import torch

from solkit.kernelfiles import Workload
from solkit.measure.inputs import fresh, is_unchanged, seed_everything


def workload(*args, **kwargs):
    return Workload(args, kwargs, reference=None, kernel=None)


def test_values_strides_and_offsets_are_kept():
    base = torch.arange(60.0).reshape(6, 10)
    view = base[1:5, ::3].t()
    (copy,) = fresh(workload(view)).args
    assert torch.equal(copy, view)
    assert (copy.stride(), copy.storage_offset()) == (view.stride(), view.storage_offset())
    copy.zero_()
    assert torch.equal(base, torch.arange(60.0).reshape(6, 10))


def test_shared_memory_stays_shared():
    x = torch.zeros(8)
    copy = fresh(workload(x, {"half": x[4:]}, [x.view(2, 4)], 3, flag="yes"))
    copy.args[0].fill_(7.0)
    assert copy.args[1]["half"].tolist() == [7.0] * 4
    assert copy.args[2][0].tolist() == [[7.0] * 4] * 2
    assert copy.args[3] == 3
    assert copy.kwargs == {"flag": "yes"}
    assert x.sum() == 0


def test_expanded_tensors_stay_expanded():
    copy = fresh(workload(torch.ones(3, 1).expand(3, 1000))).args[0]
    assert copy.stride() == (1, 0)
    assert copy.untyped_storage().nbytes() == 12


def test_gradients_are_asked_for_again():
    x = torch.randn(4, requires_grad=True)
    copy = fresh(workload(x, y=torch.randn(3))).args[0]
    assert copy.requires_grad
    assert copy.is_leaf


def test_odd_tensors():
    conjugate = torch.tensor([1 + 2j]).conj()
    sparse = torch.eye(3).to_sparse()
    empty = torch.empty(0, 4)
    copies = fresh(workload(conjugate, sparse, empty))
    assert torch.equal(copies.args[0], conjugate)
    assert torch.equal(copies.args[1].to_dense(), torch.eye(3))
    assert copies.args[2].shape == (0, 4)
    assert is_unchanged(workload(conjugate, sparse, empty), copies)


def test_changes_are_seen():
    before = workload(torch.tensor([1.0, float("nan"), -0.0]), out=torch.zeros(2))
    after = fresh(before)
    assert is_unchanged(before, after)
    after.kwargs["out"][1] = 1e-30
    assert not is_unchanged(before, after)


def test_a_changed_sign_of_zero_is_a_change():
    before = workload(torch.zeros(2))
    after = fresh(before)
    after.args[0].neg_()
    assert not is_unchanged(before, after)


def test_seeding_covers_all_generators():
    draws = []
    for _ in range(2):
        seed_everything(2**40 + 3)
        draws.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert draws[0] == draws[1]
