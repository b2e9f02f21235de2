"""The page and the JSON of ``solkit profile``."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from solkit.core import IdleTime, Profile, ProfiledKernel, ProfiledOp
from solkit.report import profile as page


def text(profile, width=140, **flags):
    out = io.StringIO()
    page.render(profile, Console(file=out, width=width), **flags)
    return out.getvalue()


@pytest.fixture
def op(make):
    kernels = tuple(
        ProfiledKernel(f"void at::native::k{i}<float, 4>(int)", 10, 0.4 - i / 10, "aten::mm")
        for i in range(3)
    )
    inputs = tuple(f"bf16[{i}, 8]" for i in range(4))
    bound = make.bound()
    return ProfiledOp(
        "aten::mm", inputs, 10, 40 * bound.time_ms, kernels, bound, bound.time_ms, 3.0
    )


@pytest.fixture
def profile(make, op):
    lost = ProfiledKernel("ncclDevKernel_AllReduce(args)", 2, 0.5, "", "communication between GPUs")
    return Profile(
        path="run.json.gz",
        device=make.device(),
        span_ms=10.0,
        steps=2,
        busy_ms=8.0,
        idle=IdleTime(1.5, 1.0, 0.5),
        ops=(op, replace(op, name="aten::copy_", saving_ms=1.0)),
        unbounded=(lost,),
        saving_ms=3.5,
        notes=("Beware.",),
    )


def test_the_page_ranks_ops_and_idle_time_by_what_they_save(profile):
    said = text(profile)
    for part in (
        "10.0 ms over 2 steps on the GPU, busy 8.00 ms (80 %)",
        "1.50 ms because the host launched too late, 500 µs between launches that were queued",
        "every op at its target: 6.50 ms, 1.54× end to end",
        "500 µs (6.2 % of busy time) have none",
        "3.00 ms      1.429×  5.14 ms  64 %     10  128 µs  4.00×  mm",
        "limited by tensor.bf16 · bf16[0, 8], bf16[1, 8], bf16[2, 8], 1 more",
        "at::native::k0: 10 times, 400 µs",
        "and 1 more",
        "GPU idle  launch-bound\n    1.00 ms of it after the host waited for the GPU: wait ",
        "ncclDevKernel_AllReduce: communication between GPUs",
        "Beware.",
    ):
        assert part in said
    assert said.index("  mm\n") < said.index("GPU idle") < said.index("  copy_\n")


def test_everything_can_be_shown(profile, op):
    many = replace(profile, ops=(op,) * 20)
    assert "9 more: --all shows them" in text(many)  # of 20 and the idle time
    said = text(many, width=160, complete=True)
    assert "--all" not in said
    assert said.count("void at::native::k2<float, 4>(int)") == 20
    assert "bf16[3, 8]" in said


def test_what_keeps_ops_from_saving_is_said(profile, op):
    held = replace(profile, saving_ms=0.1)  # of 2 times 3.85
    assert "; 7.60 ms more would only lengthen waits for the host or other" in text(held)
    free = replace(profile, saving_ms=2 * op.excess_ms)
    assert "waiting for the host" not in text(free)


def test_a_target_above_the_bound_is_the_launch(profile, op):
    tiny = replace(op, target_ms=2 * op.bound.time_ms, bound=replace(op.bound, time_ms=1e-9))
    said = text(replace(profile, ops=(tiny,)))
    assert "limited by launch" in said
    assert ">1000×" in said


def test_a_host_that_is_late_without_having_waited_needs_a_graph(profile):
    late = replace(profile, idle=IdleTime(1.5, 0.2, 0.5))
    assert (
        "GPU idle  launch-bound\n    the host launches too late: a CUDA graph launches ahead"
        in text(late)
    )


def test_a_profile_of_nothing_known(profile):
    bare = replace(profile, ops=(), idle=IdleTime(0.0, 0.0, 0.0), failure="t.py: failed", steps=0)
    said = text(bare)
    assert "SOL" not in said
    assert "t.py: failed: this is what was profiled before" in said
    assert "10.0 ms on the GPU" in said


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_any_width(profile, width):
    assert max(map(len, text(profile, width).splitlines())) <= width


def test_json_holds_what_the_page_tells_and_more(profile):
    data = json.loads(page.dumps(profile))
    assert data["schema"] == "solkit.profile/1"
    assert page.ProfileJson.model_validate(data).ops[0].bound.limiter == "tensor.bf16"
    first = data["ops"][0]
    assert (first["name"], first["calls"], first["saving_ms"]) == ("aten::mm", 10, 3.0)
    assert first["gap"] == pytest.approx(4.0)
    assert first["excess_ms"] == pytest.approx(30 * profile.ops[0].target_ms)
    assert first["speedup"] == pytest.approx(10 / 7)
    assert data["speedup"] == pytest.approx(10 / 6.5)
    assert data["idle"] == {"host_ms": 1.5, "wait_ms": 1.0, "queue_ms": 0.5}
    assert data["unbounded"][0]["reason"] == "communication between GPUs"


def test_what_is_not_finite_is_null(profile, op):
    endless = replace(op, bound=replace(op.bound, time_ms=0.0))
    everything = replace(profile, ops=(endless,), saving_ms=10.0)
    data = json.loads(page.dumps(everything))
    assert data["ops"][0]["gap"] is data["speedup"] is None
