"""What removing a cause saves, by hand for launches of one warp a block and one block an SM.

Kinds of terms that do not overlap add up at 1 / (1 + 1 / 4) = 0.8 beside the longest; the latency
meets them at a right angle, and the start of blocks hides the rest or is hidden.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import (
    Cause,
    Demand,
    Facts,
    GapFactor,
    KernelAnalysis,
    KernelModel,
    Launch,
    Occupancy,
    SharedAccess,
    Term,
)
from solkit.roofline import devices
from solkit.roofline.kernel.causes import cause_of
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.model import together
from solkit.roofline.kernel.savings import with_speedups

DEVICE = devices.find("h100-sxm")
NOTHING = Demand(
    accesses=(),
    operations={},
    l1_wavefronts=0,
    l2_read_bytes=0,
    l2_write_bytes=0,
    dram_read_bytes=0,
    dram_write_bytes=0,
)


def followed(name="kernel", *, count=1, demand=None, **terms_ms):
    """A launch with such terms of its model."""
    terms = tuple(Term(key.replace("_", "."), ms, "") for key, ms in terms_ms.items())
    kernel = KernelAnalysis(
        Facts(Launch(name, (DEVICE.sm_count, 1, 1), 1, 1, signature={"x": "*fp32"}, count=count)),
        Occupancy(1 / 64, "warps", 1, 1.0, 1.0),
        demand=demand or NOTHING,
        model=KernelModel(together(terms, 1, 1, 1.0), terms),
    )
    return LaunchView(kernel, DEVICE)


def factor(name, times, cause="arithmetic instructions", kernel="kernel", **figures):
    return GapFactor(name, times, "", Cause(cause, {"kernel": kernel, **figures}))


def speedups(factors, added_ms, *kernels):
    placed = [LaunchView(item.kernel, DEVICE, place) for place, item in enumerate(kernels)]
    return [item.speedup for item in with_speedups(factors, added_ms, placed)]


def test_what_hides_behind_the_start_of_blocks_saves_nothing():
    kernel = followed(dram=0.1, issue=0.2, dispatch=0.4)
    factors = [factor("instructions", 2.0), factor("dispatch", 1.5, "dispatch")]
    assert speedups(factors, [{0: 0.1}, {0: 0.2}], kernel) == [1.0, pytest.approx(1.5)]


def test_a_cause_saves_no_more_than_the_launches_that_it_names_add():
    large, small = followed("large", dram=0.9), followed("small", dram=0.05, count=2)
    alone = factor("extra traffic", 3.0, "uncoalesced", "small")
    # 0.06 of the 0.6 that the traffic adds to 0.3: 0.9 / (0.9 - 0.06)
    assert speedups([alone], [{0: 0.54, 1: 0.06}], large, small) == [pytest.approx(0.9 / 0.84)]
    handed = factor("extra traffic", 3.0, "hand-over", "small", reader="large")
    assert speedups([handed], [{0: 0.54, 1: 0.06}], large, small) == [pytest.approx(3.0)]


def test_factors_of_one_cause_are_removed_together():
    kernel = followed(dram=0.3, issue=0.3, latency=0.001)
    added = [{0: 0.1}, {0: 0.05}]
    both = [factor("extra traffic", 1.5), factor("instructions", 1.2)]
    assert speedups(both, added, kernel) == [pytest.approx(1.5), pytest.approx(1.2)]
    hidden = followed(dram=0.3, issue=0.3, dispatch=0.55)
    assert speedups(both, added, hidden) == [1.0, 1.0]  # 0.54 of the two hides behind it


def test_less_work_takes_less_of_everything():
    kernel = followed(fp32=0.1, issue=0.3, dispatch=0.4)
    work = factor("extra work", 2.0, "unneeded work")
    assert speedups([work], [{0: 0.1}], kernel) == [pytest.approx(2.0)]


def test_launches_without_a_cause_have_no_saving():
    assert speedups([GapFactor("latency", 2.0, "")], [{0: 1.0}], followed(latency=1.0)) == [None]
    launch = factor("launch", 1.3, "launch", "other")
    assert speedups([launch], [{}], followed(launch=1.0)) == [pytest.approx(1.3)]


def test_launches_to_which_a_factor_adds_little_are_not_its_cause():
    few, whole = followed("few", latency=0.1), followed("whole", latency=0.1, dispatch=1.0)
    assert cause_of("dispatch", 1.5, [few, whole], grown=[few]) is None
    cause = cause_of("dispatch", 1.5, [few, whole])
    assert cause is not None
    assert cause.figures["kernel"] == "whole"


def test_bank_conflicts_cost_the_wavefronts_beyond_the_least():
    shared = SharedAccess("load", "a.py:1", 100, 1000, 800)
    kernel = followed(shared=0.5, demand=replace(NOTHING, shared=(shared,)))
    conflicts = factor("extra traffic", 4.0, "bank conflicts")
    assert speedups([conflicts], [{0: 0.4}], kernel) == [pytest.approx(1000 / 800)]
