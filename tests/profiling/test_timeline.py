"""The window of a recording, why the GPU idles in it, and what shorter kernels save of it.

All times in microseconds; the timelines are drawn in each test.
"""

from __future__ import annotations

import pytest

from solkit.core import IdleTime
from solkit.errors import InputError
from solkit.profiling.matching import match_activities
from solkit.profiling.savings import Cuts, savings_us
from solkit.profiling.timeline import find_window, idle_time
from solkit.profiling.trace_reader import read_trace


def parts(trace, skip=0):
    matching = match_activities(read_trace(trace.write()), 0)
    return find_window(matching, skip)


def saved(trace, *cuts):
    """What each cut saves (one what-if an activity), and all together; windows begin at 0."""
    results = parts(trace)
    questions = [i if cut else -1 for i, cut in enumerate(cuts)]
    item, together = savings_us(results, Cuts(questions, cuts, len(cuts)))
    return [item[i] for i, cut in enumerate(cuts) if cut], together


# ------------------------------------------------------------------------------------- window


def test_without_steps_it_is_what_ran(trace):
    trace.kernel(10, 20, launch=1)
    trace.kernel(25, 40, launch=2)
    results = parts(trace)
    assert (results.start_us, results.end_us, results.span_us, results.steps) == (10, 40, 30, 0)


def test_steps_cut_off_what_was_launched_outside_of_them(trace):
    trace.step(1, 0, 100)
    trace.step(2, 100, 200)
    trace.kernel(5, 15, name="launched before the recording")
    trace.kernel(20, 110, launch=10, name="of step 1, and runs into step 2")
    trace.kernel(120, 230, launch=105, name="of step 2, and outlasts it")
    trace.kernel(250, 260, launch=210, name="after the steps")
    both = parts(trace)
    assert [activity.start_us for activity in both.activities] == [20, 120]
    assert (both.start_us, both.end_us, both.steps) == (15, 230, 2)
    assert both.notes[0].startswith("1 kernels and copies (0.01 ms) were launched before")
    second = parts(trace, skip=1)
    assert (second.start_us, second.end_us, second.steps) == (110, 230, 1)
    assert second.notes == both.notes


def test_a_host_that_outlasts_the_gpu_belongs_to_the_step(trace):
    trace.step(1, 0, 100)
    trace.kernel(20, 30, launch=10)
    results = parts(trace)
    assert (results.start_us, results.end_us) == (0, 100)


def test_at_least_one_step_is_kept(trace):
    trace.step(1, 0, 100)
    trace.kernel(20, 30, launch=10)
    assert parts(trace, skip=5).steps == 1


def test_kernels_of_a_trace_without_calls_count(trace):
    trace.step(1, 0, 100)
    trace.kernel(20, 30)
    trace.kernel(40, 50)
    assert len(parts(trace).activities) == 2


def test_steps_in_which_nothing_was_launched(trace):
    trace.step(1, 0, 100)
    trace.kernel(220, 230, launch=210)
    with pytest.raises(InputError, match="nothing was launched within its steps"):
        parts(trace)


# --------------------------------------------------------------------------------------- idle


def test_idle_time_is_told_apart_by_what_the_gpu_waited_for(trace):
    trace.kernel(0, 10, launch=-5)
    trace.kernel(12, 20, launch=-4)  # queued: 2 between
    trace.kernel(50, 60, launch=45)  # launched 25 after the GPU ran dry: 30
    trace.wait(55, 62)
    trace.kernel(75, 80, launch=70)  # after the host had waited: 15 more
    assert idle_time(parts(trace)) == (33, IdleTime(0.045, 0.015, 0.002))


def test_kernels_that_overlap_are_busy_once(trace):
    trace.kernel(0, 10, launch=-5, stream=7)
    trace.kernel(5, 20, launch=-4, stream=8)
    assert idle_time(parts(trace))[0] == 20


def test_what_the_host_does_after_the_last_kernel_is_idle_time(trace):
    trace.step(1, 0, 100)
    trace.kernel(0, 30, launch=0)
    assert idle_time(parts(trace))[1].host_ms == 0.07


# ------------------------------------------------------------------------------------ savings


def test_on_one_busy_stream_it_is_amdahls_law(trace):
    """All launched at once: what is cut is saved."""
    for start, end in ((0, 40), (40, 60), (60, 100)):
        trace.kernel(start, end, launch=-10 + start / 1000)
    item, together = saved(trace, 30, 5, 10)
    assert item == [30, 5, 10]
    assert together == 45


def test_gaps_between_queued_kernels_stay(trace):
    trace.kernel(0, 40, launch=-10)
    trace.kernel(42, 60, launch=-9)
    assert saved(trace, 30, 0) == ([30], 30)


def test_a_launch_bound_run_gains_nothing(trace):
    """Each kernel starts 5 after its launch, long after the one before it has ended."""
    for start in (0, 100, 200):
        trace.kernel(start, start + 20, launch=start - 5)
    item, together = saved(trace, 10, 10, 10)
    assert item == [0, 0, 10]  # but for the last, which nothing waits for
    assert together == 10


def test_a_cut_helps_until_the_next_launch_is_due(trace):
    """The second was launched at 15 and can start 5 later: 40 could shrink to 20."""
    trace.kernel(0, 40, launch=-5)
    trace.kernel(40, 50, launch=15)
    assert saved(trace, 10, 0) == ([10], 10)
    assert saved(trace, 30, 0) == ([20], 20)


def test_a_host_that_waits_for_the_gpu_moves_up_with_it(trace):
    """It synchronises until 41, launches at 50: that launch comes 30 earlier."""
    trace.kernel(0, 40, launch=-5)
    trace.wait(0, 41)
    trace.kernel(55, 65, launch=50)
    assert saved(trace, 30, 0) == ([30], 30)


def test_a_wait_that_has_become_short_ends_when_it_begins(trace):
    """It begins at 35 only: of the 30, the 6 that it lasted are gained, and not more."""
    trace.kernel(0, 40, launch=-5)
    trace.wait(35, 41)
    trace.kernel(55, 65, launch=50)
    assert saved(trace, 30, 0) == ([6], 6)


def test_a_copy_that_the_host_waits_for_needs_no_name(trace):
    """cudaMemcpyAsync from pageable memory returns when it is done: at 41, as the host says."""
    trace.kernel(0, 40, launch=0, call="cudaMemcpyAsync", call_us=41, category="gpu_memcpy")
    trace.kernel(55, 65, launch=55)
    assert saved(trace, 30, 0) == ([30], 30)


def test_on_two_streams_the_longer_one_decides(trace):
    trace.kernel(0, 50, launch=-5, stream=7)
    trace.kernel(0, 80, launch=-5, stream=8)
    assert saved(trace, 40, 0)[0] == [0]
    assert saved(trace, 0, 40) == ([30], 30)  # then the other one decides
    assert saved(trace, 25, 50) == ([0, 30], 50)


def test_what_waited_for_another_stream_still_does(trace):
    """Launched at -4, it starts at 51, when the other stream is done: an event was waited for."""
    trace.kernel(0, 50, launch=-5, stream=7)
    trace.kernel(51, 80, launch=-4, stream=8)
    assert saved(trace, 40, 0) == ([40], 40)


def test_a_full_launch_queue_holds_the_host_up(trace, monkeypatch):
    """With room for two, the third launch lasts until the first kernel is done."""
    monkeypatch.setattr("solkit.profiling.savings._QUEUE", 2)
    trace.kernel(0, 40, launch=-5)
    trace.kernel(40, 50, launch=-4)
    trace.kernel(60, 70, launch=-3, call_us=43)
    trace.kernel(70, 80, launch=41)
    item, _ = saved(trace, 30, 0, 0, 0)
    assert item == [30]


def test_a_graphs_kernels_share_one_launch(trace):
    trace.kernel(0, 20, launch=-5, call="cudaGraphLaunch")
    correlation = trace.events[-1]["args"]["correlation"]
    trace.kernel(20, 50)
    trace.events[-1]["args"]["correlation"] = correlation
    assert saved(trace, 15, 10) == ([15, 10], 25)


def test_kernels_whose_launch_is_unknown_follow_one_another(trace):
    trace.kernel(0, 20)
    trace.kernel(25, 50)
    assert saved(trace, 15, 10) == ([15, 10], 25)


def test_the_end_of_a_step_moves_up_with_what_the_host_waited_for(trace):
    trace.step(1, 0, 100)
    trace.kernel(5, 80, launch=0)
    trace.wait(10, 82)  # then 18 of host work
    assert saved(trace, 50) == ([50], 50)


def test_nothing_cut_is_nothing_saved(trace):
    """The replay gives the recording back, whatever is in it."""
    trace.step(1, 0, 400)
    starts = [(10, 5, 7), (12, 9, 8), (100, 60, 7), (101, 61, 8), (180, 61, 7), (300, 299, 9)]
    for start, launch, stream in starts:
        trace.kernel(start, start + 70, launch=launch, stream=stream)
    trace.wait(62, 260, "cudaStreamSynchronize")
    item, together = savings_us(parts(trace), Cuts([0] * 6, [0.0] * 6, 1))
    assert item.tolist() == pytest.approx([0])
    assert together == pytest.approx(0)
