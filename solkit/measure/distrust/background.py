"""Activity that outlasts a candidate's return: threads, processes, timers, hooks.

The innermost frame outside the standard library counts as the starter of a thread or process.
Python's audit events report processes, and nobody can unsubscribe them (PEP 578). Threads have such
events only from Python 3.12 on, so the function that starts them is wrapped.
"""

from __future__ import annotations

import _thread
import functools
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from solkit.measure.distrust.findings import Finding
from solkit.measure.distrust.provenance import is_library, responsible, where

__all__ = ["Background"]

_THREAD_STARTERS = (
    *((_thread, name) for name in ("start_new_thread", "start_new", "start_joinable_thread")),
    *((threading, name) for name in ("_start_new_thread", "_start_joinable_thread")),
)
_PROCESS_EVENTS = set(
    "os.fork os.forkpty os.posix_spawn os.spawn os.system subprocess.Popen".split()
)
_PEEK_EVENTS = {"gc.get_objects", "gc.get_referrers", "sys._getframe", "sys._current_frames"}
_SETTLING_S = 0.01  # for a finished thread to end
_BEGINNING_S = 0.2  # for a new one to begin, on a busy machine
_TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")


class _Log:
    """Events that the audit hook saw since the candidate was imported."""

    def __init__(self) -> None:
        # threads that the candidate started, and the lines that did so
        self.threads: list[tuple[weakref.ref[threading.Thread], str]] = []
        self.hidden_threads: list[str] = []  # lines that started threads unknown to ``threading``
        self.processes: list[str] = []  # lines that started processes
        self.library_processes = 0  # number of other processes
        self.peeks: set[tuple[str, str]] = set()  # events that read foreign memory, their lines

    def note(self, event: str) -> None:
        """Record an audit event."""
        frame = responsible(_calling_frame())
        if frame is None:
            return
        is_own = not is_library(frame.f_code.co_filename)
        if event in _PEEK_EVENTS:
            if is_own and _is_peek(event):
                self.peeks.add((event, where(frame)))
        elif is_own:
            self.processes.append(where(frame))
        else:
            self.library_processes += 1

    def note_thread(self, function: Any) -> None:
        """Record a thread that is started to run `function`."""
        frame = responsible(_calling_frame())
        if frame is None or is_library(frame.f_code.co_filename):
            return
        thread = getattr(function, "__self__", None)
        if isinstance(thread, threading.Thread):
            self.threads.append((weakref.ref(thread), where(frame)))
        else:
            self.hidden_threads.append(where(frame))


class _Watch:
    """Keeps the log of this process; set up once, since an audit hook cannot be removed."""

    def __init__(self) -> None:
        self._log: _Log | None = None
        self._noting = threading.local()

    def begin(self) -> _Log:
        """Return a new log."""
        if self._log is None:
            sys.addaudithook(self._audit)
            for module, name in _THREAD_STARTERS:
                if hasattr(module, name):
                    setattr(module, name, self._noted(getattr(module, name)))
        self._log = _Log()
        return self._log

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        is_noted = event in _PROCESS_EVENTS or event in _PEEK_EVENTS
        if not is_noted or self._log is None or getattr(self._noting, "now", False):
            return
        self._noting.now = True
        try:
            self._log.note(event)
        finally:
            self._noting.now = False

    def _noted(self, start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def starting(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if self._log is not None:
                self._noting.now = True  # looking at frames is an audit event itself
                self._log.note_thread(function)
                self._noting.now = False
            return start(function, *args, **kwargs)

        return starting


_watch = _Watch()


class Background:
    """Background activity at construction, to find what a candidate adds."""

    def __init__(self) -> None:
        self._log = _watch.begin()
        self._hidden = _count_hidden()
        self._children = set(_children())
        self._timers = _timers()
        self._hooks = _hooks()

    def findings(self) -> Iterator[Finding]:
        """Yield what the candidate left running, and what it read."""
        yield from self._thread_findings()
        yield from self._process_findings()
        for name in _timers() - self._timers:
            yield Finding("timer signal", f"a timer ({name}) is set to interrupt later code", True)
        for name, hook in _hooks() - self._hooks:
            yield Finding("trace hook", f"{name} now traces all Python code: {hook}", True)
        for event, place in sorted(self._log.peeks):
            yield Finding("peeked memory", f"{event} was called at {place}", False)

    def _thread_findings(self) -> Iterator[Finding]:
        for reference, place in self._log.threads:
            thread = reference()
            if thread is not None and thread.is_alive():
                runs_on = _outlives(thread)  # first: a worker may become idle meanwhile
                is_idle = _is_idle(thread)
                doing = "waits for work" if is_idle else "still runs after the call returned"
                if is_idle or runs_on:
                    text = f"the thread {thread.name!r} started at {place} {doing}"
                    yield Finding("background thread", text, not is_idle)
        if self._log.hidden_threads and self._has_hidden_ones():
            text = f"a thread unknown to threading runs since {self._log.hidden_threads[0]}"
            yield Finding("background thread", text, True)

    def _has_hidden_ones(self) -> bool:
        for _ in range(round(_BEGINNING_S / _SETTLING_S)):
            time.sleep(_SETTLING_S)
            if _count_hidden() > self._hidden:
                return True
        return False

    def _process_findings(self) -> Iterator[Finding]:
        alive = set(_children()) - self._children
        if len(alive) > self._log.library_processes:
            started = f" (started at {self._log.processes[0]})" if self._log.processes else ""
            text = f"{len(alive)} child process(es) still run{started}"
            yield Finding("background process", text, bool(self._log.processes))


def _calling_frame() -> FrameType | None:
    """Return the innermost frame outside this module."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _is_peek(event: str) -> bool:
    """Tell whether the candidate itself asks: much of the standard library looks one frame up."""
    frame = _calling_frame()
    file = frame.f_code.co_filename if frame is not None else ""
    return event != "sys._getframe" or not is_library(file) or Path(file).name == "inspect.py"


def _outlives(thread: threading.Thread) -> bool:
    """Tell whether a thread is more than a finished thread that is about to end."""
    frame = sys._current_frames().get(thread.ident or 0)
    owner = responsible(frame)
    if owner is None:
        time.sleep(_SETTLING_S)
    return thread.is_alive()


def _count_hidden() -> int:
    """Count running threads unknown to ``threading``."""
    main = threading.main_thread()
    python_threads = [thread for thread in threading.enumerate() if thread is not main]
    return _thread._count() - len(python_threads)


def _is_idle(thread: threading.Thread) -> bool:
    """Tell whether a thread is an idle worker of a standard pool."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return False
    file, function = frame.f_code.co_filename, frame.f_code.co_name
    return function == "_worker" and Path(file).match("concurrent/futures/thread.py")


def _children() -> Iterator[int]:
    """Yield running processes that this one started (Linux)."""
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, _read(task).split()):
            state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
            if state and state[0] not in "ZX":  # zombie, dead: proc(5)
                yield pid


def _read(file: Path) -> str:
    """Return a file of a thread or process; empty if that is gone."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _timers() -> set[str]:
    return {name for name in _TIMERS if signal.getitimer(getattr(signal, name))[0] > 0}


def _hooks() -> set[tuple[str, str]]:
    """Return the hooks that Python calls on function calls: names, with what is installed."""
    hooks: dict[str, Callable[..., Any] | str | None] = {
        "sys.settrace": sys.gettrace(),
        "sys.setprofile": sys.getprofile(),
        "threading.settrace": threading.gettrace(),
        "threading.setprofile": threading.getprofile(),
    }
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    if monitoring is not None:
        hooks |= {f"sys.monitoring tool {i}": monitoring.get_tool(i) for i in range(6)}
    return {(name, repr(hook)) for name, hook in hooks.items() if hook is not None}
