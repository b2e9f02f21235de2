"""Two launchers of a kernel in turns, on a GPU whose clock the test moves."""

from __future__ import annotations

import contextlib
import itertools
from types import SimpleNamespace

import pytest
import torch

from solkit.adapters import live_trials
from solkit.adapters.live_trials import LaunchTrial


class Gpu:
    """Makes launches take time; events are passed at once unless it lags."""

    def __init__(self):
        self.now_ms, self.lags, self.is_capturing = 0.0, False, False

    def launcher(self, name, ms, log):
        """Return one that takes `ms` for each unit of its size."""

        def launch(_, size, stream):
            if callable(ms):
                raise RuntimeError("Triton Error [CUDA]: too many resources")
            log.append((name, size, stream))
            self.now_ms += ms * size

        launch.config, launch._is_static = f"{name}'s", True
        return launch

    def event(self):
        event = SimpleNamespace(at_ms=None)

        def record():
            event.at_ms = self.now_ms

        event.record, event.query = record, lambda: not self.lags
        event.elapsed_time = lambda other: other.at_ms - event.at_ms
        return event


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: gpu.event())
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)
    monkeypatch.setattr(live_trials, "is_capturing", lambda: gpu.is_capturing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    return gpu


def judge(own_ms, tuned_ms):
    assert len(own_ms) == len(tuned_ms) >= 6
    gains = [own - tuned for own, tuned in zip(own_ms, tuned_ms)]
    if all(gain > 1e-9 for gain in gains):
        return True
    return False if all(gain < -1e-9 for gain in gains) else None


def start_trial(gpu, own_ms, tuned_ms):
    log, settled = [], []
    own, tuned = gpu.launcher("own", own_ms, log), gpu.launcher("tuned", tuned_ms, log)
    trial = LaunchTrial(own, tuned, judge, settled.append)
    return trial.launcher(), log, settled


@pytest.mark.parametrize(("own_ms", "tuned_ms", "stays"), [(2, 1, True), (1, 2, False)])
def test_the_faster_launcher_stays_and_each_launch_is_made_once(gpu, own_ms, tuned_ms, stays):
    launch, log, settled = start_trial(gpu, own_ms, tuned_ms)
    for _ in range(40):
        launch("x", 1, stream=7)
    assert len(log) == 40
    assert settled == [stays]
    names = [name for name, *_ in log]
    assert names[:24].count("own") == names[:24].count("tuned") == 12
    assert set(names[24:]) == {"tuned" if stays else "own"}


@pytest.mark.parametrize(("own_ms", "tuned_ms", "stays"), [(2, 1, True), (1, 2, False)])
def test_launchers_of_other_bits_do_not_alternate(gpu, own_ms, tuned_ms, stays):
    log, settled = [], []
    own, tuned = gpu.launcher("own", own_ms, log), gpu.launcher("tuned", tuned_ms, log)
    launch = LaunchTrial(own, tuned, judge, settled.append, alternates=False).launcher()
    for turn in range(80):
        launch("x", 1 + turn % 2, stream=7)
    assert settled == [stays]
    names = [name for name, *_ in log]
    changes = sum(one != other for one, other in itertools.pairwise(names))
    assert changes == (1 if stays else 2)
    assert (len(names), names[-1]) == (80, "tuned" if stays else "own")


def test_equal_launchers_are_timed_longer_and_inductors_own_stays(gpu):
    launch, log, settled = start_trial(gpu, 1, 1)
    for _ in range(47):
        launch("x", 1, stream=7)
    assert settled == []
    launch("x", 1, stream=7), launch("x", 1, stream=7)
    assert settled == [False]
    assert log[-1][0] == "own"


def test_pairs_are_of_equal_sizes(gpu):
    launch, _, settled = start_trial(gpu, 1, 0.9)
    for turn in range(30):
        launch("x", 1 + 99 * (turn % 2), stream=7)  # one pair of both would show anything
    assert settled == [True]


def test_sizes_that_never_repeat_show_nothing(gpu):
    launch, log, settled = start_trial(gpu, 2, 1)
    for size in range(live_trials._MOST_TIMED + 1):
        launch("x", size + 1, stream=7)
    assert settled == [False]
    assert log[-1][0] == "own"


def test_the_host_does_not_wait_for_the_gpu(gpu):
    launch, log, settled = start_trial(gpu, 2, 1)
    gpu.lags = True
    for _ in range(100):
        launch("x", 1, stream=7)
    assert settled == []
    assert len(log) == 100
    gpu.lags = False
    launch("x", 1, stream=7)
    assert settled == [True]


def test_events_of_a_trial_are_no_reason_for_another_threads_capture_to_fail(gpu, monkeypatch):
    """In CUDA's default mode a capture fails if any thread asks for an event."""
    modes = []

    @contextlib.contextmanager
    def beside_captures():
        modes.append("relaxed")
        yield
        modes.pop()

    def event(**_):
        event = gpu.event()
        for name in ("record", "query", "elapsed_time"):
            setattr(event, name, relaxed(getattr(event, name)))
        return event

    def relaxed(call):
        def checked(*args):
            assert modes
            return call(*args)

        return checked

    monkeypatch.setattr(live_trials, "beside_captures", beside_captures)
    monkeypatch.setattr(torch.cuda, "Event", event)
    launch, _, settled = start_trial(gpu, 2, 1)
    for _ in range(60):
        launch("x", 1, stream=7)
    assert settled == [True]
    assert modes == []


@pytest.mark.parametrize("is_capturing", [False, True])
def test_a_captured_graph_and_another_stream_get_the_tuned_launcher_untimed(gpu, is_capturing):
    launch, log, settled = start_trial(gpu, 1, 2)
    gpu.is_capturing = is_capturing
    for _ in range(60):
        launch("x", 1, stream=7 if is_capturing else 8)
    assert (settled, {name for name, *_ in log}) == ([], {"tuned"})


def test_one_that_the_gpu_refuses_ends_the_trial_and_the_launch_is_made(gpu):
    launch, log, settled = start_trial(gpu, 1, lambda: None)
    for _ in range(3):
        launch("x", 1, stream=7)
    assert (settled, [name for name, *_ in log]) == ([False], ["own"] * 3)


def test_one_that_the_gpu_refuses_while_a_graph_is_captured_is_launched_by_inductors(gpu):
    launch, log, settled = start_trial(gpu, 1, lambda: None)
    gpu.is_capturing = True
    launch("x", 1, stream=7), launch("x", 1, stream=7)
    assert (settled, [name for name, *_ in log]) == ([False], ["own"] * 2)


def test_errors_of_who_is_told_the_result_are_not_the_launchs(gpu):
    log = []
    own, tuned = gpu.launcher("own", 2, log), gpu.launcher("tuned", 1, log)
    launch = LaunchTrial(own, tuned, judge, lambda _: 1 / 0).launcher()
    for _ in range(30):
        launch("x", 1, stream=7)
    assert (len(log), log[-1][0]) == (30, "tuned")


def test_where_nothing_can_be_timed_the_launch_is_made_and_inductors_own_stays(gpu, monkeypatch):
    def refuse(_):
        raise RuntimeError("another stream is capturing")

    launch, log, settled = start_trial(gpu, 2, 1)
    launch("x", 1, stream=7)
    monkeypatch.setattr(torch.cuda, "_sleep", refuse)
    launch("x", 1, stream=7), launch("x", 1, stream=7)
    assert settled == [False]
    assert len(log) == 3
    assert log[-1][0] == "own"


def test_a_launch_in_another_thread_during_one_is_inductors_own(gpu):
    launch, log, settled = start_trial(gpu, 1, 1)
    inner = []

    def launch_within(_, size, stream):
        inner.append(len(inner))
        if len(inner) == 1:
            launch("x", size, stream=stream)

    trial = LaunchTrial(launch_within, launch_within, judge, settled.append)
    launch = trial.launcher()
    launch("x", 1, stream=7)
    assert len(inner) == 2
    assert log == []


def test_it_looks_like_the_tuned_launcher_but_is_not_launched_past(gpu):
    launch, _, _ = start_trial(gpu, 1, 2)
    assert launch.config == "tuned's"
    assert not hasattr(launch, "_is_static")
