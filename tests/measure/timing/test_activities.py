from __future__ import annotations

from dataclasses import dataclass

import pytest
from torch._C._autograd import DeviceType

from solkit.measure.timing.activities import Activity, ActivityError, Kind, call_times
from solkit.measure.timing.timers import read_activities

A, B = "solkit::candidate::0", "solkit::reference::1"


def span(name, start, end):
    return Activity(Kind.RANGE, name, start, end)


def launch(start, correlation):
    return Activity(Kind.LAUNCH, "cuLaunchKernelEx", start, start + 5, correlation)


def gpu(start, end, correlation, stream=7, name="kernel"):
    return Activity(Kind.GPU, name, start, end, correlation, (0, stream))


def test_two_calls_with_flushes_between():
    events = [
        launch(10, 1),  # flush
        span(A, 20, 60),
        launch(30, 2),
        launch(40, 3),
        launch(70, 4),  # flush
        span(B, 80, 99),
        launch(85, 5),
        gpu(1000, 9000, 1),
        gpu(9100, 9600, 2),
        gpu(9700, 10_000, 3),
        gpu(10_100, 20_000, 4),
        gpu(20_500, 21_000, 5),
    ]
    first, second = call_times(events, [A, B])
    assert first.span_ms == pytest.approx(900e-6)
    assert first.kernel_sum_ms == pytest.approx(800e-6)
    assert second.span_ms == second.kernel_sum_ms == pytest.approx(500e-6)


def test_order_of_events_and_labels_does_not_matter():
    events = [gpu(50, 60, 2), span(B, 30, 40), gpu(10, 40, 1), span(A, 0, 9), launch(33, 2)]
    events.append(launch(3, 1))
    times = call_times(events, [B, A])
    assert [t.span_ms for t in times] == pytest.approx([10e-6, 30e-6])


def test_streams_overlap():
    events = [
        span(A, 0, 50),
        launch(1, 1),
        launch(2, 2),
        gpu(100, 300, 1, stream=7),
        gpu(150, 400, 2, stream=13),
    ]
    (time,) = call_times(events, [A])
    assert time.span_ms == pytest.approx(300e-6)
    assert time.kernel_sum_ms == pytest.approx(450e-6)


def test_all_kernels_of_a_graph_bear_its_launch():
    events = [span(A, 0, 50), launch(1, 9), *(gpu(100 * i, 100 * i + 40, 9) for i in (1, 2, 3))]
    (time,) = call_times(events, [A])
    assert time.span_ms == pytest.approx(240e-6)
    assert time.kernel_sum_ms == pytest.approx(120e-6)


def test_a_launch_from_another_thread_counts_by_its_time():
    events = [span(A, 0, 50), launch(49, 1), gpu(900, 1000, 1)]  # launches carry no thread at all
    assert call_times(events, [A])[0].span_ms == pytest.approx(100e-6)


def test_an_activity_without_a_launch_is_found_in_the_gpu_annotation():
    events = [
        span(A, 0, 50),
        launch(1, 1),
        gpu(100, 200, 1),
        gpu(210, 260, 44, name="Memcpy DtoD"),
        Activity(Kind.GPU_RANGE, A, 100, 260, 0, (0, 7)),
    ]
    (time,) = call_times(events, [A])
    assert time.span_ms == pytest.approx(160e-6)


def test_an_activity_of_unknown_origin_is_an_error():
    stranger = [
        span(A, 0, 50),
        launch(1, 1),
        gpu(100, 200, 1),
        gpu(120, 180, 44, stream=8, name="Memset"),
        Activity(Kind.GPU_RANGE, A, 100, 200, 0, (0, 7)),
    ]
    with pytest.raises(ActivityError, match="'Memset'"):
        call_times(stranger, [A])


def test_nothing_recorded_for_a_call():
    events = [span(A, 0, 50), span(B, 60, 90), launch(1, 1), gpu(100, 200, 1)]
    with pytest.raises(ActivityError, match=B):
        call_times(events, [A, B])


def test_a_lost_range():
    with pytest.raises(ActivityError, match="1 ranges recorded for 2 calls"):
        call_times([span(A, 0, 50), launch(1, 1), gpu(100, 200, 1)], [A, B])


@dataclass
class KinetoEvent:
    """As much of ``torch._C._autograd._KinetoEvent`` as is read."""

    of: str
    device: str
    annotation: bool = False

    def name(self):
        return self.of

    def device_type(self):
        return getattr(DeviceType, self.device)

    def is_user_annotation(self):
        return self.annotation

    def start_ns(self):
        return 100

    def duration_ns(self):
        return 20

    def correlation_id(self):
        return 5

    def device_index(self):
        return 0

    def device_resource_id(self):
        return 7


def test_kineto_events_are_sorted_into_kinds():
    events = [
        KinetoEvent(A, "CPU", annotation=True),
        KinetoEvent(A, "CUDA", annotation=True),
        KinetoEvent("cudaLaunchKernel", "CPU"),
        KinetoEvent("cuLaunchKernelEx", "CPU"),
        KinetoEvent("aten::cumsum", "CPU"),
        KinetoEvent("custom_op", "CPU"),
        KinetoEvent("aten::a_candidates_own_kernel(float*)", "CUDA"),
        KinetoEvent("Memcpy DtoD (Device -> Device)", "CUDA"),
    ]
    activities = read_activities(events)
    assert [a.kind for a in activities] == [
        Kind.RANGE,
        Kind.GPU_RANGE,
        Kind.LAUNCH,
        Kind.LAUNCH,
        Kind.GPU,
        Kind.GPU,
    ]
    assert activities[-1] == Activity(Kind.GPU, events[-1].of, 100, 120, 5, (0, 7))


def test_the_profilers_own_events_have_what_is_read():
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU]) as session, record_function(A):
        torch.ones(3) + 1
    activities = read_activities(session.profiler.kineto_results.events())
    assert [(a.kind, a.name) for a in activities] == [(Kind.RANGE, A)]
    assert 0 < activities[0].end_ns - activities[0].start_ns < 60e9
