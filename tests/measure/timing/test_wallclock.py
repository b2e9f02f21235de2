from __future__ import annotations

import random

import pytest

from solkit.measure.timing.wallclock import check_reported_time


class Process:
    """Takes `gpu_ms` a call on the GPU and `host_ms` to launch it, and some to be asked at all."""

    def __init__(self, gpu_ms, host_ms=0.0, overhead_ms=0.3, occupied=1.0):
        self.gpu_ms, self.host_ms, self.overhead_ms = gpu_ms, host_ms, overhead_ms
        self.occupied = occupied  # how long the GPU really is, of what was asked for
        self.asked = []
        self.judged = 0

    def row(self, calls, behind_s):
        self.asked.append(calls)
        # the GPU starts a call when it was launched and the one before is over
        end = 1e3 * behind_s * self.occupied
        for call in range(calls):
            end = max(end, (call + 1) * self.host_ms) + self.gpu_ms
        return (self.overhead_ms + end) / 1e3

    def judge(self):
        self.judged += 1

    def launch(self, calls, _behind_s):
        return (self.overhead_ms + calls * self.host_ms) / 1e3


class Waiting(Process):
    """Waits for the GPU at the end of each call."""

    def row(self, calls, behind_s):
        return behind_s + (self.overhead_ms + calls * (self.host_ms + self.gpu_ms)) / 1e3

    def launch(self, calls, behind_s):
        return self.row(calls, behind_s)


def judged(told_ms, process):
    return check_reported_time(told_ms, process)


@pytest.mark.parametrize("gpu_ms", [0.002, 0.02, 0.2, 2.0, 20.0, 200.0])
def test_a_true_time_agrees(gpu_ms):
    process = Process(gpu_ms)
    result = judged(gpu_ms, process)
    assert result.contradiction is result.note is None
    assert result.slope_ms == pytest.approx(gpu_ms, rel=1e-6)


@pytest.mark.parametrize(("gpu_ms", "host_ms"), [(0.002, 0.05), (0.3, 2.0), (1.0, 60.0)])
def test_a_slow_host_is_no_lie(gpu_ms, host_ms):
    result = judged(gpu_ms, Process(gpu_ms, host_ms))
    assert result.contradiction is result.note is None
    assert result.slope_ms == pytest.approx(gpu_ms, rel=1e-6)


@pytest.mark.parametrize("gpu_ms", [0.1, 0.5, 5.0, 50.0])
@pytest.mark.parametrize("host_ms", [0.0, 0.03])
def test_a_third_of_the_truth_is_contradicted(gpu_ms, host_ms):
    result = judged(gpu_ms / 3, Process(gpu_ms, host_ms))
    assert "by the referee's clock" in result.contradiction
    assert result.slope_ms == pytest.approx(gpu_ms, rel=1e-6)


def test_a_cold_time_above_the_slope_agrees():
    assert judged(0.05, Process(0.01)).contradiction is None


def test_under_10_microseconds_it_tells_little():
    assert judged(0.0005, Process(0.004)).contradiction is None


def test_one_that_waits_gets_the_time_of_the_clock():
    result = judged(0.002, Waiting(0.002, host_ms=0.04))
    assert result.contradiction is None
    assert "it waits for the GPU" in result.note
    assert result.slope_ms == pytest.approx(0.042, rel=1e-6)


def test_a_host_too_slow_to_hide_is_told():
    result = judged(1.0, Process(1.0, 300.0))
    assert result.contradiction is None
    assert "can't be confirmed" in result.note


@pytest.mark.parametrize("occupied", [0.3, 3.0])
@pytest.mark.parametrize("overhead_ms", [0.3, 3.0])
def test_what_hides_the_host_may_last_otherwise_than_asked(occupied, overhead_ms):
    process = Process(0.002, host_ms=0.03, overhead_ms=overhead_ms, occupied=occupied)
    result = judged(0.002, process)
    assert result.contradiction is result.note is None
    assert result.slope_ms == pytest.approx(0.002, rel=1e-6)


def test_where_nothing_hides_the_host_nobody_is_accused():
    result = judged(0.002, Process(0.002, host_ms=0.03, occupied=0.0))
    assert result.contradiction is None
    assert "can't be confirmed" in result.note


class Delayed(Process):
    """Begins on a machine that is busy: the first rows of N take so much longer."""

    def __init__(self, *args, delays_ms):
        super().__init__(*args)
        self.delays_ms = iter(delays_ms)

    def row(self, calls, behind_s):
        taken_s = super().row(calls, behind_s)
        delay_ms = next(self.delays_ms, 0.0) if calls == min(self.asked) else 0.0
        return taken_s + delay_ms / 1e3


@pytest.mark.parametrize("delays_ms", [(60.0, 45.0), (44.0, 44.0, 44.0)])
@pytest.mark.parametrize(("told_ms", "lies"), [(1.0, True), (20.0, False)])
def test_delays_of_a_busy_machine_hide_no_lie_and_accuse_nobody(told_ms, lies, delays_ms):
    result = judged(told_ms, Delayed(20.0, delays_ms=delays_ms))
    assert (result.contradiction is not None) == lies
    assert result.note is None


class Disturbed(Process):
    """Most rows take longer, by up to 2 ms; each kind has some that do not."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.noise = random.Random(1)

    def row(self, calls, behind_s):
        return super().row(calls, behind_s) + max(0.0, self.noise.uniform(-0.5, 2.0)) / 1e3


@pytest.mark.parametrize(("gpu_ms", "host_ms"), [(0.1, 0.0), (0.002, 0.03), (0.02, 0.08)])
def test_rows_that_are_disturbed_accuse_nobody(gpu_ms, host_ms):
    for _ in range(20):
        assert judged(gpu_ms, Disturbed(gpu_ms, host_ms)).contradiction is None


@pytest.mark.parametrize("gpu_ms", [0.2, 2.0])
def test_who_disturbs_rows_is_not_excused_by_it(gpu_ms):
    result = judged(gpu_ms / 3, Disturbed(gpu_ms))
    assert result.contradiction is not None


def test_rows_that_count_are_judged():
    process = Process(0.1)
    judged(0.1, process)
    assert process.asked[0] * 2 == process.asked[1]
    assert 1 <= process.judged <= len(process.asked) / 2


def test_long_calls_are_made_few():
    process = Process(500.0)
    judged(500.0, process)
    assert process.asked == [1, 2]
