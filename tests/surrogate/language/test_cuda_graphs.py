"""Graphs on a GPU: they leave the gradients that the function leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from few_kernels import table, tiny

from solkit.surrogate.language import training
from solkit.surrogate.language.cuda_graphs import GraphedFunction
from solkit.surrogate.language.training import Learning

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_each_call_gives_the_gradients_of_its_own_inputs():
    weight = torch.nn.Parameter(torch.randn(8, device="cuda"))
    seen = []

    def function(rows, scale):
        seen.append(rows.shape)
        loss = (rows @ weight).square().mean() * scale
        loss.backward()
        return loss.detach()

    graphed = GraphedFunction(function, [weight])
    for number in (4, 6, 4, 4, 6):
        rows, scale = torch.randn(number, 8, device="cuda"), torch.rand((), device="cuda")
        loss = graphed(rows, scale)
        truth = 2 * scale / number * (rows.T @ (rows @ weight.detach()))
        torch.testing.assert_close(weight.grad, truth)
        torch.testing.assert_close(loss, (rows @ weight).square().mean() * scale)
    assert len(seen) == 2 * 3  # two shapes, each called twice and captured once


def test_a_step_of_the_regressor_gives_the_gradients_that_it_gives_without_a_graph():
    result = table(12)
    model = tiny(device="cuda")
    parts = model.prepared(result)
    how = Learning(rows=32, piece=4, variants=2, unread=0.0, most=256)
    learners = {}
    for graphs in (False, True):
        learner = training._Learner(result, parts, replace(how, graphs=graphs), None, print)
        learner._graphed = learner._make_graphed_step(list(parts.network.parameters()))
        learners[graphs] = learner
    assert learners[False]._graphed is None
    assert learners[True]._graphed is not None
    parts.network.train(False)  # no dropout: it depends on the shape
    for step, rows in zip(range(4), learners[True]._rows_of_steps(), strict=False):
        results = {}
        for graphs, learner in learners.items():
            loss = learner._learn_step(np.asarray(rows), step)
            every = list(parts.network.parameters())
            grads = [torch.zeros_like(item) if item.grad is None else item.grad for item in every]
            results[graphs] = loss.item(), torch.cat([grad.flatten().clone() for grad in grads])
        assert results[True][0] == pytest.approx(results[False][0], rel=2e-2)
        same = torch.nn.functional.cosine_similarity(results[True][1], results[False][1], dim=0)
        assert same > 0.999
