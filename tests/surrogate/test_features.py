"""Features of candidates, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solkit.core import Facts, KernelAnalysis, KernelModel, Launch, Term
from solkit.roofline.devices import find
from solkit.surrogate.features import (
    GROUPS,
    Candidates,
    Launches,
    Problem,
    all_features,
    captured_features,
    feature_group,
    feature_matrix,
)

H100 = find("h100")
PROBLEM = Problem(0.1, "dram", {"fp32": 2.0**20}, 2.0**28, 2.0**28, {"N": 2**26})


def kernel(time_ms, **launch):
    told = {"name": "own", "grid": (264, 1, 1), "num_warps": 4, "num_stages": 3} | launch
    model = KernelModel(time_ms, (Term("dram", time_ms, ""),))
    return KernelAnalysis(Facts(Launch(**told)), model=model)


TYPES = {"x_ptr": "*fp32", "y_ptr": "*bf16", "n": "i32", "FLAG": "constexpr"}
LIBRARY = kernel(0.3, name="aten.mm", grid=(0, 0, 0), num_warps=0, num_stages=0, library=True)


def one(kernels, params):
    """The known features of one candidate."""
    found = all_features(PROBLEM, H100, Candidates([kernels], [params]))
    return {name: column[0] for name, column in found.items() if not np.isnan(column[0])}


def test_a_candidates_features():
    found = one([kernel(0.2)], {"BLOCK": 1024, "CAUSAL": True, "STORE": ".cg"})
    assert {feature_group(name) for name in found} <= set(GROUPS)
    assert found["model.gap"] == pytest.approx(1)  # twice the speed of light
    assert found["geometry.blocks_per_sm"] == pytest.approx(1)  # 264 blocks on 132 SMs
    assert found["geometry.bytes_per_thread"] == pytest.approx(29 - math.log2(264 * 128))
    assert found["geometry.least_waves"] == pytest.approx(math.log2(2 / 16))  # 64 warps an SM
    assert found["problem.write_share"] == 0.5
    params = {name: value for name, value in found.items() if feature_group(name) == "params"}
    assert params == {"params.BLOCK": 10, "params.CAUSAL": 1, "params.STORE=.cg": 1}


def test_pytorchs_operators_count_in_the_time_but_have_no_geometry():
    both = one([kernel(0.1), LIBRARY], {})
    assert both["model.gap"] == pytest.approx(2)
    assert both["geometry.blocks"] == pytest.approx(math.log2(264))
    alone = one([LIBRARY], {})
    assert alone["model.gap"] == pytest.approx(math.log2(3))
    assert "geometry.blocks" not in alone
    assert alone["geometry.launches"] == 1


def test_candidates_of_one_call_may_have_other_parameters():
    kernels = [[kernel(0.2)], [kernel(0.4, num_warps=8)], [LIBRARY]]
    params = [{"BLOCK": 64, "ORDER": "rows"}, {"BLOCK": 128, "SPLIT": 2}, {}]
    found = all_features(PROBLEM, H100, Candidates(kernels, params))
    assert found["geometry.warps"][:2].tolist() == [2, 3]
    assert found["params.BLOCK"][:2].tolist() == [6, 7]
    np.testing.assert_array_equal(found["params.SPLIT"], [math.nan, 1, math.nan])
    np.testing.assert_array_equal(found["params.ORDER=rows"], [1, math.nan, math.nan])
    assert all(len(column) == 3 for column in found.values())


def test_arrays_of_launches_give_the_same_as_launches():
    kernels = [
        [kernel(0.2, constants={"N": 8, "B": 64}, signature=TYPES)],
        [kernel(0.2, grid=(7, 3, 1), signature=TYPES)],
    ]
    params = [{"B": 64, "FAST": True}, {"B": 32, "FAST": False}]
    want = all_features(PROBLEM, H100, Candidates(kernels, params))
    nan = math.nan
    launches = Launches(
        np.array([[264, 1, 1], [7, 3, 1]]),
        *(np.array([n, n]) for n in (4, 3, 1, 1, 1, 4, 2)),
        {"N": np.array([8, nan]), "B": np.array([64, nan])},
    )
    columns = {"B": np.array([64, 32]), "FAST": np.array([True, False])}
    found = captured_features(PROBLEM, H100, launches, columns)
    assert {n for n in want if feature_group(n) != "model"} == set(found)
    names = sorted(found)
    np.testing.assert_array_equal(feature_matrix(found, names), feature_matrix(want, names))
