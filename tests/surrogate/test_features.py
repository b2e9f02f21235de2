"""Features of candidates, by hand."""

from __future__ import annotations

import math

import pytest

from solkit.core import Facts, KernelAnalysis, KernelModel, Launch, Term
from solkit.roofline.devices import find
from solkit.surrogate.features import GROUPS, Problem, features, group_of

H100 = find("h100")
PROBLEM = Problem(0.1, "dram", {"fp32": 2.0**20}, 2.0**28, 2.0**28, {"N": 2**26}, ("float32",))


def kernel(time_ms, **launch):
    told = {"name": "own", "grid": (264, 1, 1), "num_warps": 4, "num_stages": 3} | launch
    model = KernelModel(time_ms, (Term("dram", time_ms, ""),))
    return KernelAnalysis(Facts(Launch(**told)), model=model)


LIBRARY = kernel(0.3, name="aten.mm", grid=(0, 0, 0), num_warps=0, num_stages=0, library=True)


def test_a_candidates_features():
    found = features(PROBLEM, H100, [kernel(0.2)], {"BLOCK": 1024, "CAUSAL": True, "STORE": ".cg"})
    assert {group_of(name) for name in found} <= set(GROUPS)
    assert found["model.gap"] == pytest.approx(1)  # twice the speed of light
    assert found["geometry.blocks_per_sm"] == pytest.approx(1)  # 264 blocks on 132 SMs
    assert found["geometry.bytes_per_thread"] == pytest.approx(29 - math.log2(264 * 128))
    assert found["problem.write_share"] == 0.5
    params = {name: value for name, value in found.items() if group_of(name) == "params"}
    assert params == {"params.BLOCK": 10, "params.CAUSAL": 1, "params.STORE=.cg": 1}


def test_pytorchs_operators_count_in_the_time_but_have_no_geometry():
    both = features(PROBLEM, H100, [kernel(0.1), LIBRARY], {})
    assert both["model.gap"] == pytest.approx(2)
    assert both["geometry.blocks"] == pytest.approx(math.log2(264))
    alone = features(PROBLEM, H100, [LIBRARY], {})
    assert alone["model.gap"] == pytest.approx(math.log2(3))
    assert not any(group_of(name) == "geometry" for name in alone)
