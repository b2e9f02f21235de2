from __future__ import annotations

import pytest

from solkit.measure.wallclock import check


class Process:
    """Takes `gpu_ms` a call on the GPU and `host_ms` to launch it, and some to be asked at all."""

    def __init__(self, gpu_ms, host_ms=0.0, overhead_ms=0.3, occupied=1.0):
        self.gpu_ms, self.host_ms, self.overhead_ms = gpu_ms, host_ms, overhead_ms
        self.occupied = occupied  # how long the GPU really is, of what was asked for
        self.asked = []

    def row(self, calls, behind_s):
        self.asked.append(calls)
        # the GPU starts a call when it was launched and the one before is over
        end = 1e3 * behind_s * self.occupied
        for call in range(calls):
            end = max(end, (call + 1) * self.host_ms) + self.gpu_ms
        return (self.overhead_ms + end) / 1e3


@pytest.mark.parametrize("gpu_ms", [0.002, 0.02, 0.2, 2.0, 20.0, 200.0])
def test_a_true_time_agrees(gpu_ms):
    process = Process(gpu_ms)
    found = check(gpu_ms, process.row)
    assert found.contradiction is found.note is None
    assert found.slope_ms == pytest.approx(gpu_ms, rel=1e-6)


@pytest.mark.parametrize(("gpu_ms", "host_ms"), [(0.002, 0.05), (0.3, 2.0), (1.0, 60.0)])
def test_a_slow_host_is_no_lie(gpu_ms, host_ms):
    found = check(gpu_ms, Process(gpu_ms, host_ms).row)
    assert found.contradiction is found.note is None
    assert found.slope_ms == pytest.approx(gpu_ms, rel=1e-6)


@pytest.mark.parametrize("gpu_ms", [0.1, 0.5, 5.0, 50.0])
@pytest.mark.parametrize("host_ms", [0.0, 0.03])
def test_a_third_of_the_truth_is_contradicted(gpu_ms, host_ms):
    found = check(gpu_ms / 3, Process(gpu_ms, host_ms).row)
    assert "by the referee's clock" in found.contradiction
    assert found.slope_ms == pytest.approx(gpu_ms, rel=1e-6)


def test_a_cold_time_above_the_slope_agrees():
    assert check(0.05, Process(0.01).row).contradiction is None


def test_under_10_microseconds_it_tells_little():
    assert check(0.0005, Process(0.004).row).contradiction is None


def test_a_host_too_slow_to_hide_is_told():
    found = check(1.0, Process(1.0, 300.0).row)
    assert found.contradiction is None
    assert "can't confirm" in found.note


@pytest.mark.parametrize("occupied", [0.3, 3.0])
def test_what_hides_the_host_may_last_otherwise_than_asked(occupied):
    process = Process(0.002, host_ms=0.03, occupied=occupied)
    found = check(0.002, process.row)
    assert found.contradiction is found.note is None
    assert found.slope_ms == pytest.approx(0.002, rel=1e-6)


def test_where_nothing_hides_the_host_nobody_is_accused():
    found = check(0.002, Process(0.002, host_ms=0.03, occupied=0.0).row)
    assert found.contradiction is None
    assert "can't confirm" in found.note


def test_what_disturbs_one_row_changes_nothing():
    process = Process(0.1)
    disturbed = iter([5e-3, 0, 0, 0, 5e-3, 0])
    found = check(0.1, lambda calls, behind: process.row(calls, behind) + next(disturbed))
    assert found.slope_ms == pytest.approx(0.1, rel=1e-6)


def test_long_calls_are_made_few():
    process = Process(500.0)
    check(500.0, process.row)
    assert process.asked == [1, 2]
