"""Imports in other threads."""

from __future__ import annotations

import sys
import threading

import pytest

from solkit.processes.imports import other_thread_imports


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """A module whose import waits, and the events that say so and end it."""
    (tmp_path / "slow_to_import.py").write_text("begun.set()\nended.wait(120)\n")
    monkeypatch.syspath_prepend(tmp_path)
    begun, ended = threading.Event(), threading.Event()
    monkeypatch.setattr("builtins.begun", begun, raising=False)
    monkeypatch.setattr("builtins.ended", ended, raising=False)
    yield begun, ended
    sys.modules.pop("slow_to_import", None)


def test_an_import_is_seen_from_other_threads_while_it_lasts(slow_module):
    begun, ended = slow_module
    seen = []

    def import_it():
        import slow_to_import  # noqa: F401

        seen.append(other_thread_imports())

    assert not other_thread_imports()
    thread = threading.Thread(target=import_it)
    thread.start()
    assert begun.wait(120)
    assert other_thread_imports()
    ended.set()
    thread.join()
    assert seen == [False]
    assert not other_thread_imports()


def test_a_threads_own_import_is_none_of_others(tmp_path, monkeypatch):
    (tmp_path / "looking.py").write_text(
        "from solkit.processes.imports import other_thread_imports\nSEEN = other_thread_imports()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import looking

    assert not looking.SEEN
