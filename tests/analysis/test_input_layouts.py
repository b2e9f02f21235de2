"""Shapes and strides of what a candidate's function gets."""

from __future__ import annotations

import functools

import pytest
import torch

from solkit.analysis.input_layouts import input_layouts
from solkit.kernelfiles import Workload

MATRIX, VECTOR = torch.empty(6, 4)[:, :3], torch.empty(5)


def kernel(x, parts, scale, *, bias=None, BLOCK=16):
    raise AssertionError(f"called: {x} {parts} {scale} {bias} {BLOCK}")


def layouts(kernel, *args, **kwargs):
    return input_layouts(Workload(args, kwargs, None, kernel))


def test_tensors_go_by_the_parameter_that_gets_them():
    tuned = functools.partial(kernel, BLOCK=32)
    assert layouts(tuned, MATRIX, [VECTOR, 3], 2.0, bias=VECTOR) == {
        "x": ((6, 3), (4, 1)),
        "parts[0]": ((5,), (1,)),
        "bias": ((5,), (1,)),
    }


@pytest.mark.parametrize("unnamed", [None, lambda: 0, dict.fromkeys])
def test_nothing_is_known_of_a_function_without_names(unnamed):
    assert layouts(unnamed, MATRIX, VECTOR, VECTOR) == {}
