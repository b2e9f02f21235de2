"""Features of candidates, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solkit.core import (
    Binding,
    Facts,
    KernelAnalysis,
    KernelModel,
    Launch,
    TensorLayout,
    Term,
)
from solkit.roofline.devices import find
from solkit.surrogate.features import (
    GROUPS,
    Candidates,
    Problem,
    feature_group,
    features_of_problems,
)

H100 = find("h100")
PROBLEM = Problem(0.1, "dram", {"fp32": 2.0**20}, 2.0**28, 2.0**28, {"N": 2**26})


def kernel(time_ms, **launch):
    result = {"name": "own", "grid": (264, 1, 1), "num_warps": 4, "num_stages": 3} | launch
    model = KernelModel(time_ms, (Term("dram", time_ms, ""),))
    return KernelAnalysis(Facts(Launch(**result)), model=model)


TYPES = {"x_ptr": "*fp32", "y_ptr": "*bf16", "n": "i32", "FLAG": "constexpr"}
LIBRARY = kernel(0.3, name="aten.mm", grid=(0, 0, 0), num_warps=0, num_stages=0, library=True)


def one(kernels):
    """The known features of one candidate."""
    features = features_of_problems([(PROBLEM, H100, Candidates([kernels]))])[0]
    return {name: column[0] for name, column in features.items() if not np.isnan(column[0])}


def test_a_candidates_features():
    constants = {"BLOCK": 1024, "CAUSAL": True, "STORE": ".cg", "N": 1, "SPLIT": 3}
    results = one([kernel(0.2, constants=constants)])
    assert {feature_group(name) for name in results} <= set(GROUPS)
    assert results["model.gap"] == pytest.approx(1)  # twice the speed of light
    assert results["geometry.blocks_per_sm"] == pytest.approx(1)  # 264 blocks on 132 SMs
    assert results["geometry.bytes_per_thread"] == pytest.approx(29 - math.log2(264 * 128))
    assert results["geometry.least_waves"] == pytest.approx(math.log2(2 / 16))  # 64 warps an SM
    assert results["problem.write_share"] == 0.5
    params = {name: value for name, value in results.items() if feature_group(name) == "params"}
    assert params == {
        "params.constant_0": 10,
        "params.constant_1": pytest.approx(math.log2(3)),
        "params.flags": 1,
    }
    assert results["geometry.size_0"] == 26  # of the problem: the launch records no tensors


def test_pytorchs_operators_count_in_the_time_but_have_no_geometry():
    both = one([kernel(0.1), LIBRARY])
    assert both["model.gap"] == pytest.approx(2)
    assert both["geometry.blocks"] == pytest.approx(math.log2(264))
    alone = one([LIBRARY])
    assert alone["model.gap"] == pytest.approx(math.log2(3))
    assert "geometry.blocks" not in alone
    assert alone["geometry.launches"] == 1


def test_candidates_of_one_call_may_have_other_constants():
    one_constant, two = {"BLOCK": 64, "ORDER": "rows"}, {"BLOCK": 128, "SPLIT": 2}
    kernels = [
        [kernel(0.2, constants=one_constant)],
        [kernel(0.4, num_warps=8, constants=two)],
        [LIBRARY],
    ]
    features = features_of_problems([(PROBLEM, H100, Candidates(kernels))])[0]
    assert features["geometry.warps"][:2].tolist() == [2, 3]
    np.testing.assert_array_equal(features["params.constant_0"], [6, 7, math.nan])
    np.testing.assert_array_equal(features["params.constant_1"], [math.nan, 1, math.nan])
    assert all(len(column) == 3 for column in features.values())


def test_sizes_and_alignment_are_those_of_the_arguments():
    wide = TensorLayout("bf16", 2, (4096, 1500), (1500, 1), role="input")
    narrow = TensorLayout("fp32", 4, (4096,), (1,), role="output", alignment_bytes=128)
    scratch = TensorLayout("fp32", 4, (77, 4096), (4096, 1), role="temporary")
    arguments = {
        name: Binding("tensor", tensor=tensor)
        for name, tensor in (("a", wide), ("b", narrow), ("c", scratch))
    }
    result = one([kernel(0.2, arguments=arguments)])
    assert result["geometry.size_0"] == 12
    assert result["geometry.size_1"] == pytest.approx(math.log2(1500))
    assert "geometry.size_2" not in result  # what is only in between has sizes of its own choice
    assert result["geometry.alignment"] == 3  # rows of 3,000 bytes
