"""Manifests of profiles: only what a profile can know."""

from __future__ import annotations

import pytest

from solkit.core import Bound, IdleTime, Profile, ProfiledKernel, ProfiledOp
from solkit.errors import InputError
from solkit.roofline import devices
from solkit.tuner.manifest import Workload, parse_manifest, profiled_manifest


@pytest.fixture
def profile():
    bound = Bound.__new__(Bound)  # a manifest needs none
    mm, small = ("bf16[64, 64]",) * 2, ("bf16[8, 8]",) * 2

    def op(name, inputs, calls, time_ms, saving_ms):
        return ProfiledOp(name, inputs, calls, time_ms, (), bound, 0.0, saving_ms)

    return Profile(
        path="run.json",
        device=devices.find("h100"),
        span_ms=100.0,
        steps=1,
        busy_ms=90.0,
        idle=IdleTime(0.0, 0.0, 0.0),
        ops=(
            op("aten::mm", mm, 4, 40.0, 20.0),
            op("aten::relu", mm[:1], 2, 5.0, 1.0),
            op("aten::mm", small, 3, 3.0, 0.6),
            op("aten::add", small, 9, 3.0, 0.4),
        ),
        unbounded=(
            ProfiledKernel("_rms_norm_kernel", 8, 12.0, reason="launched outside of any op"),
            ProfiledKernel("Memcpy HtoD", 1, 9.0, reason="a copy that leaves the GPU"),
            ProfiledKernel("Memset (Device)", 1, 9.0, reason="launched outside of any op"),
            ProfiledKernel("ncclAllReduce", 1, 9.0, reason="communication between GPUs"),
            ProfiledKernel("tiny", 1, 0.4),
        ),
        saving_ms=22.0,
    )


def test_ops_and_kernels_worth_working_on_are_listed_with_their_calls(profile):
    found = parse_manifest(profiled_manifest(profile), "m.toml")
    assert found.device == "h100-sxm"
    assert [each.name for each in found.kernels] == ["aten::mm", "aten::relu", "_rms_norm_kernel"]
    assert {each.path for each in found.kernels} == {""}
    assert found.kernels[0].shapes == (
        Workload(None, 4, ("bf16[64, 64]",) * 2, 10.0),
        Workload(None, 3, ("bf16[8, 8]",) * 2, 1.0),
    )
    assert found.kernels[2].shapes == (Workload(None, 8, (), 1.5),)


def test_nothing_can_be_tuned_before_files_are_filled_in(profile):
    found = parse_manifest(profiled_manifest(profile), "m.toml")
    with pytest.raises(InputError, match="aten::mm is left out: its path is empty"):
        found.tunable_kernels()


def test_a_kernel_that_is_filled_in_can_be_tuned(profile):
    text = profiled_manifest(profile).replace('path = ""', 'path = "norm.py"')
    text = text.replace("calls = 8", "sizes = { M = 4096 }, calls = 8")
    (entry,) = parse_manifest(text, "m.toml").tunable_kernels()
    assert (entry.name, entry.shapes) == (
        "_rms_norm_kernel",
        (Workload({"M": 4096}, 8, (), 1.5),),
    )
