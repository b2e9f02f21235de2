"""Probes of the candidate's process: whose code acts, settings of torch, streams, what still runs.

Threads and processes: the innermost frame outside the standard library counts as the starter.
Python's audit events report processes, and nobody can unsubscribe them (PEP 578). Threads have such
events only from Python 3.12 on, so the function that starts them is wrapped.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import importlib.metadata
import os
import signal
import sys
import sysconfig
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import solkit
from solkit.measure.anti_cheating import Finding

# ------------------------------------- Whose code it is: the candidate's or an installed library's


@functools.cache
def _standard_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({os.path.realpath(paths[name]) + os.sep for name in ("stdlib", "platstdlib")})


@functools.cache
def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    beside = importlib.metadata.distribution("pydantic").locate_file("")  # `pip install --target`
    installed = [paths["purelib"], paths["platlib"], str(beside)]
    packages = [str(Path(str(module.__file__)).parent) for module in (torch, solkit)]
    return tuple({os.path.realpath(path) + os.sep for path in (*installed, *packages)})


@functools.cache
def is_library(file: str) -> bool:
    """Tell whether a file belongs to an installed package, SolKit or Python's standard library."""
    return is_standard(file) or os.path.realpath(file).startswith(_library_roots())


@functools.cache
def is_standard(file: str) -> bool:
    """Tell whether a file belongs to Python's standard library."""
    if file.startswith("<frozen "):
        return True
    path = os.path.realpath(file)
    return path.startswith(_standard_roots()) and not path.startswith(_library_roots())


def defining_file(value: Any) -> str | None:
    """Return the file that defines a function or class; ``None`` if there is none."""
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        return code.co_filename
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def responsible_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside the standard library, on whose behalf the library acts."""
    while frame is not None and is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def format_location(frame: FrameType) -> str:
    """``file:line`` of a frame."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# ------------------------------------------------------------------ Process-wide settings of torch


# `fp32_precision`, not `allow_tf32`: the latter raises once the former was set.
_BACKENDS = """
    fp32_precision cuda.matmul.fp32_precision cudnn.conv.fp32_precision cudnn.rnn.fp32_precision
    cudnn.enabled cudnn.benchmark cudnn.deterministic cuda.matmul.allow_fp16_accumulation
    cuda.matmul.allow_fp16_reduced_precision_reduction
    cuda.matmul.allow_bf16_reduced_precision_reduction
""".split()
_FLAGS: Mapping[str, Callable[[], Any]] = {
    **{f"torch.backends.{n}": partial(attrgetter(n), torch.backends) for n in _BACKENDS},
    "flash_sdp_enabled": torch.backends.cuda.flash_sdp_enabled,
    "mem_efficient_sdp_enabled": torch.backends.cuda.mem_efficient_sdp_enabled,
    "math_sdp_enabled": torch.backends.cuda.math_sdp_enabled,
    "cudnn_sdp_enabled": torch.backends.cuda.cudnn_sdp_enabled,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "gradients": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "autocast on the GPU": lambda: torch.is_autocast_enabled("cuda"),
    "autocast on the CPU": lambda: torch.is_autocast_enabled("cpu"),
    "threads": torch.get_num_threads,
    "subnormals kept": lambda: sys.float_info.min / _TWO > 0.0,
}
_TWO = 2.0  # a name, so the quotient is not folded into a constant
_COMPUTE_KEYS = (
    *("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutocastCUDA"),
    *("CompositeImplicitAutograd", "CompositeExplicitAutograd", "BackendSelect", "Autograd"),
)


class Globals:
    """The settings at construction."""

    def __init__(self) -> None:
        self._flags = _read_flags()
        self._modes = _active_modes()
        self._overrides = _registered_overrides()

    def findings(self) -> Iterator[Finding]:
        """Yield changed settings; a flag proves nothing: the results it changes are checked."""
        for name, now in _read_flags().items():
            before = self._flags[name]
            if now != before:
                yield Finding("global flag", f"{name} is now {now}, was {before}", False)
        for mode in _active_modes()[len(self._modes) :]:
            text = f"{type(mode).__qualname__} was entered and never left: it sees all ops"
            yield Finding("torch mode", text, True)
        for name in sorted(_registered_overrides() - self._overrides):
            yield Finding("dispatcher override", f"the op {name} was given new code", True)


def _read_flags() -> dict[str, Any]:
    return {name: read() for name, read in _FLAGS.items()}


_function_modes: Callable[[], list[Any]] = _get_current_function_mode_stack


def _active_modes() -> list[Any]:
    """Return the active modes; `torch.set_default_device` is both a mode and a flag."""
    modes = [*_function_modes(), *_get_current_dispatch_mode_stack()]
    return [mode for mode in modes if not isinstance(mode, DeviceContext)]


def _registered_overrides() -> set[str]:
    """Python implementations registered for torch's own ops on real devices."""
    return {
        name
        for name in torch.library._impls
        if name.startswith("aten/") and name.rpartition("/")[2] in _COMPUTE_KEYS
    }


# -------------- The streams after a candidate returns: work that nobody waits for, data kept in L2


_PRIORITIES = (0, -1)  # the two usual priorities of torch.cuda.Stream
_STREAMS_PER_POOL = 32  # c10/cuda/CUDAStream.cpp, kStreamsPerPoolBits = 5

# cuda.h: CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_ACCESS_PROPERTY_PERSISTING
_ACCESS_POLICY_WINDOW, _PERSISTING = 1, 2


class _AccessPolicyWindow(ctypes.Structure):
    """cuda.h, CUaccessPolicyWindow, in a CUstreamAttrValue of 64 bytes."""

    _fields_ = (
        ("base_ptr", ctypes.c_uint64),
        ("num_bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit_prop", ctypes.c_int),
        ("miss_prop", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    )


def stream_findings(inputs: Sequence[torch.Tensor]) -> Iterator[Finding]:
    """Yield findings from the current stream and torch's pools; wait for the current one.

    Streams created without torch are not seen. `inputs` must not stay in L2 from call to call.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return
    current = torch.cuda.current_stream()
    current.synchronize()
    pool = _torch_stream_pool()
    busy = [stream for stream in pool if not stream.query()]
    if busy:
        text = f"{len(busy)} stream(s) still work after the caller's stream: nobody waits"
        yield Finding("unjoined stream", text, True)
    for window in _persisting_windows([current, *pool]):
        kept = [index for index, tensor in enumerate(inputs) if _window_covers(window, tensor)]
        text = f"a stream keeps {window.num_bytes} bytes in L2 after the call"
        input_words = f", of input {kept[0]}" if kept else ""
        yield Finding("L2 persistence", text + input_words, bool(kept))


@functools.cache
def _torch_stream_pool() -> list[torch.cuda.Stream]:
    """Return the streams that torch hands out in rotation; one full rotation restores their order.

    They are made in advance: making them takes longer than short work on them.
    """
    streams: Callable[..., torch.cuda.Stream] = torch.cuda.Stream
    turns = [streams(priority=p) for p in _PRIORITIES for _ in range(_STREAMS_PER_POOL)]
    return list({stream.cuda_stream: stream for stream in turns}.values())


def _persisting_windows(streams: Iterable[Any]) -> Iterator[_AccessPolicyWindow]:
    """Yield the streams' access-policy windows that keep data in L2, if supported."""
    cuda = ctypes.CDLL("libcuda.so.1")
    for stream in {stream.cuda_stream: stream for stream in streams}.values():
        window = _AccessPolicyWindow()
        handle = ctypes.c_void_p(stream.cuda_stream)
        failed = cuda.cuStreamGetAttribute(handle, _ACCESS_POLICY_WINDOW, ctypes.byref(window))
        if not failed and window.hit_prop == _PERSISTING and window.num_bytes:
            yield window


def _window_covers(window: _AccessPolicyWindow, tensor: torch.Tensor) -> bool:
    start = tensor.untyped_storage().data_ptr()
    end = start + tensor.untyped_storage().nbytes()
    return bool(start < window.base_ptr + window.num_bytes and window.base_ptr < end)


# ------------------ Activity that outlasts a candidate's return: threads, processes, timers, hooks


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

    def record_event(self, event: str) -> None:
        """Record an audit event."""
        frame = responsible_frame(_calling_frame())
        if frame is None:
            return
        is_own = not is_library(frame.f_code.co_filename)
        if event in _PEEK_EVENTS:
            if is_own and _reads_foreign_memory(event):
                self.peeks.add((event, format_location(frame)))
        elif is_own:
            self.processes.append(format_location(frame))
        else:
            self.library_processes += 1

    def record_thread(self, function: Any) -> None:
        """Record a thread that is started to run `function`."""
        frame = responsible_frame(_calling_frame())
        if frame is None or is_library(frame.f_code.co_filename):
            return
        thread = getattr(function, "__self__", None)
        if isinstance(thread, threading.Thread):
            self.threads.append((weakref.ref(thread), format_location(frame)))
        else:
            self.hidden_threads.append(format_location(frame))


class _Watch:
    """Keeps the log of this process; set up once, since an audit hook cannot be removed."""

    def __init__(self) -> None:
        self._log: _Log | None = None
        self._noting = threading.local()

    def start_log(self) -> _Log:
        """Return a new log."""
        if self._log is None:
            sys.addaudithook(self._handle_audit_event)
            for module, name in _THREAD_STARTERS:
                if hasattr(module, name):
                    setattr(module, name, self._wrap_thread_starter(getattr(module, name)))
        self._log = _Log()
        return self._log

    def _handle_audit_event(self, event: str, _: tuple[Any, ...]) -> None:
        is_noted = event in _PROCESS_EVENTS or event in _PEEK_EVENTS
        if not is_noted or self._log is None or getattr(self._noting, "now", False):
            return
        self._noting.now = True
        try:
            self._log.record_event(event)
        finally:
            self._noting.now = False

    def _wrap_thread_starter(self, start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def starting(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if self._log is not None:
                self._noting.now = True  # looking at frames is an audit event itself
                self._log.record_thread(function)
                self._noting.now = False
            return start(function, *args, **kwargs)

        return starting


_watch = _Watch()


class Background:
    """Background activity at construction, to find what a candidate adds."""

    def __init__(self) -> None:
        self._log = _watch.start_log()
        self._hidden = _count_hidden()
        self._children = set(_running_children())
        self._timers = _active_timers()
        self._hooks = _installed_hooks()

    def findings(self) -> Iterator[Finding]:
        """Yield what the candidate left running, and what it read."""
        yield from self._thread_findings()
        yield from self._process_findings()
        for name in _active_timers() - self._timers:
            yield Finding("timer signal", f"a timer ({name}) is set to interrupt later code", True)
        for name, hook in _installed_hooks() - self._hooks:
            yield Finding("trace hook", f"{name} now traces all Python code: {hook}", True)
        for event, place in sorted(self._log.peeks):
            yield Finding("peeked memory", f"{event} was called at {place}", False)

    def _thread_findings(self) -> Iterator[Finding]:
        for reference, place in self._log.threads:
            thread = reference()
            if thread is not None and thread.is_alive():
                runs_on = _outlives_call(thread)  # first: a worker may become idle meanwhile
                is_idle = _is_idle_worker(thread)
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
        alive = set(_running_children()) - self._children
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


def _reads_foreign_memory(event: str) -> bool:
    """Tell whether the candidate itself asks: much of the standard library looks one frame up."""
    frame = _calling_frame()
    file = frame.f_code.co_filename if frame is not None else ""
    return event != "sys._getframe" or not is_library(file) or Path(file).name == "inspect.py"


def _outlives_call(thread: threading.Thread) -> bool:
    """Tell whether a thread is more than a finished thread that is about to end."""
    frame = sys._current_frames().get(thread.ident or 0)
    owner = responsible_frame(frame)
    if owner is None:
        time.sleep(_SETTLING_S)
    return thread.is_alive()


def _count_hidden() -> int:
    """Count running threads unknown to ``threading``."""
    main = threading.main_thread()
    python_threads = [thread for thread in threading.enumerate() if thread is not main]
    return _thread._count() - len(python_threads)


def _is_idle_worker(thread: threading.Thread) -> bool:
    """Tell whether a thread is an idle worker of a standard pool."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return False
    file, function = frame.f_code.co_filename, frame.f_code.co_name
    return function == "_worker" and Path(file).match("concurrent/futures/thread.py")


def _running_children() -> Iterator[int]:
    """Yield running processes that this one started (Linux)."""
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, _read_proc_file(task).split()):
            state = _read_proc_file(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
            if state and state[0] not in "ZX":  # zombie, dead: proc(5)
                yield pid


def _read_proc_file(file: Path) -> str:
    """Return a file of a thread or process; empty if that is gone."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _active_timers() -> set[str]:
    return {name for name in _TIMERS if signal.getitimer(getattr(signal, name))[0] > 0}


def _installed_hooks() -> set[tuple[str, str]]:
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
