"""Networks of many layers: what reaches a result is found in one walk."""

from __future__ import annotations

import pytest

LAYERS = 60
TABLE = {
    "a chain": (
        "R(64, 64); R(64, 64)",
        f"for _ in range({LAYERS}):\n    a0 = F.gelu(a0 @ a1)\nreturn a0",
        LAYERS * 2 * 64**3,
    ),
    "two branches a layer": (
        "R(64, 64); R(64, 64); R(64, 64)",
        f"for _ in range({LAYERS}):\n    a0 = a0 + F.gelu(a0 @ a1) + F.silu(a0 @ a2)\nreturn a0",
        LAYERS * 4 * 64**3,
    ),
}


@pytest.fixture(scope="module")
def work_of(traced):
    return lambda name: traced(TABLE, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_deep_networks(work_of, name):
    work = work_of(name)  # 2^60 paths would never end
    whole = TABLE[name][2]
    assert sum(n for key, n in work.operations.items() if "contraction" in key) == whole
    if name == "a chain":
        assert sum(work.hard_operations.values()) == whole
