from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection

import pytest

from solkit.processes.parallel_calls import call_in_forks


def test_what_a_call_needs_is_inherited():
    unpicklable = lambda: 41  # noqa: E731 - a lambda cannot be pickled
    assert call_in_forks([lambda: unpicklable() + 1], str, 1, 30.0) == [42]


def test_the_caller_works_while_processes_run_and_its_error_ends_them():
    done = []
    answers = call_in_forks([lambda: 1, lambda: 2], str, 1, 30.0, meanwhile=lambda: done.append(0))
    assert (answers, done) == ([1, 2], [0])
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        call_in_forks([lambda: time.sleep(600)], str, 1, 300.0, meanwhile=lambda: 1 / 0)
    assert time.monotonic() - start < 60
    assert multiprocessing.active_children() == []


def test_the_others_end_when_a_result_cannot_be_read():
    def unreadable():
        return Unreadable()

    def endless():
        time.sleep(600)

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="unreadable"):
        call_in_forks([unreadable, endless], str, 2, 300.0)
    assert time.monotonic() - start < 60
    assert multiprocessing.active_children() == []


def test_a_process_that_ends_within_its_answer_crashed(monkeypatch):
    def begin_answer(connection, data):
        os.write(connection.fileno(), data[:6])
        os._exit(9)

    monkeypatch.setattr(Connection, "_send", begin_answer)  # in the fork: nothing is sent to it
    (answer,) = call_in_forks([lambda: bytes(100)], str, 1, 300.0)
    assert answer == "crashed (exit code 9)"


def fail():
    raise RuntimeError("unreadable")


class Unreadable:
    def __reduce__(self):
        return fail, ()
