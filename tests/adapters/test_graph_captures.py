"""Captures of CUDA graphs by other threads, on a driver that keeps each thread's mode."""

from __future__ import annotations

import threading

import pytest
import torch

from solkit.adapters import graph_captures
from solkit.adapters.graph_captures import (
    beside_captures,
    is_any_capturing,
    wait_for_captures,
    watch_captures,
)
from solkit.errors import UnsupportedError

GLOBAL, THREAD_LOCAL, RELAXED = range(3)


class Graph:
    """As torch's: begins and ends in one thread, and may fail to do so."""

    fails = False

    def capture_begin(self, pool=None, capture_error_mode="global"):
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.mode = capture_error_mode
        return pool

    def capture_end(self):
        if self.fails:
            raise RuntimeError("capture was invalidated")


class Driver:
    """`cuThreadExchangeStreamCaptureMode`: a mode for each thread."""

    def __init__(self):
        self.modes, self.refuses = threading.local(), False

    @property
    def mode(self):
        return getattr(self.modes, "mode", GLOBAL)

    def exchange(self, place):
        if self.refuses:
            return 3
        before, self.modes.mode = self.mode, place._obj.value
        place._obj.value = before
        return 0


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(graph_captures, "_exchange_function", lambda: driver.exchange)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return driver


@pytest.fixture
def graphs(monkeypatch):
    form = type("CUDAGraph", (Graph,), dict(vars(Graph)))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", form)
    watch_captures()
    watch_captures()
    return form


def in_thread(call):
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


def test_a_thread_is_relaxed_within_and_as_it_was_after(driver):
    driver.modes.mode = THREAD_LOCAL
    with beside_captures():
        assert driver.mode == RELAXED
        assert in_thread(lambda: driver.mode) == GLOBAL
        with beside_captures():
            assert driver.mode == RELAXED
        assert driver.mode == RELAXED
    assert driver.mode == THREAD_LOCAL


def test_an_error_within_gives_the_mode_back(driver):
    with pytest.raises(KeyError), beside_captures():
        raise KeyError
    assert driver.mode == GLOBAL


def test_a_driver_that_refuses_is_asked_once(driver):
    driver.refuses = True
    with beside_captures():
        driver.refuses = False
    assert driver.mode == GLOBAL


def test_without_a_context_no_driver_is_loaded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(graph_captures, "_exchange_function", lambda: pytest.fail("loaded"))
    with beside_captures():
        assert not is_any_capturing()


def test_a_machine_without_a_driver_has_nothing_to_exchange(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr("ctypes.CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    graph_captures._exchange_function.cache_clear()
    with beside_captures():
        assert graph_captures._exchange_function() is None
    graph_captures._exchange_function.cache_clear()


def test_captures_of_other_threads_are_seen(graphs):
    graph = graphs()
    assert in_thread(lambda: graph.capture_begin("pool", capture_error_mode="relaxed")) == "pool"
    assert graph.mode == "relaxed"
    assert is_any_capturing()
    in_thread(graph.capture_end)
    assert not is_any_capturing()


def test_captures_that_fail_are_over(graphs):
    graph = graphs()
    graph.fails = True
    with pytest.raises(RuntimeError, match="not permitted"):
        graph.capture_begin()
    assert not is_any_capturing()
    graph.fails = False
    graph.capture_begin()
    graph.fails = True
    with pytest.raises(RuntimeError, match="invalidated"):
        graph.capture_end()
    assert not is_any_capturing()


def test_a_capture_that_is_never_ended_is_gone_with_its_graph(graphs):
    graph = graphs()
    graph.capture_begin()
    assert is_any_capturing()
    del graph
    assert not is_any_capturing()


def test_who_waits_goes_on_after_the_capture_or_says_why_not(graphs, monkeypatch):
    graph = graphs()
    graph.capture_begin()
    with pytest.raises(UnsupportedError, match=r"still being captured after 0\.02 s"):
        wait_for_captures(0.02)
    monkeypatch.setattr(graph_captures.time, "sleep", lambda _: graph.capture_end())
    wait_for_captures()
