"""Record the Triton launches of a running program, through whatever library makes them.

::

    with solkit.recording("recorded/"):
        model(batch)

    SOLKIT_RECORD=recorded python serve.py      # each Python process that it starts records too

Each distinct launch is described once, before it runs first: text, arguments, configuration, space,
statistics of its tensors. How far back its tensors were used is counted by addresses, which says
what L2 still holds. After that a launch costs some microseconds, and after the window nothing. No
tensor is held, none is copied but samples for statistics, and while a CUDA graph is captured
nothing waits for the GPU. Whatever fails in here leaves the program as it is.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import parent_process, util
from pathlib import Path
from typing import Any, TextIO

import torch
import triton
from triton.runtime.driver import driver

from solkit.adapters.graph_captures import has_context, is_capturing
from solkit.adapters.launch_contents import FunctionsUnseen, tensor_recipe
from solkit.adapters.live_calls import LaunchHooks, PendingLaunch, tensor_behind
from solkit.adapters.live_tuned import INDUCTOR
from solkit.adapters.model_calls import ModelCalls
from solkit.adapters.triton_compiler import compiler_environment, compiler_name
from solkit.core.codec import to_json
from solkit.core.recordings import TensorRecipe
from solkit.datasets.launch_recordings import (
    SCHEMA,
    is_recording,
    read_launch_recording,
    write_kernel_files,
)
from solkit.errors import InputError, SolkitError
from solkit.integrations.launch_spaces import record_of_launch
from solkit.processes.startup import call_after_imports

_MOST_BYTES = 1 << 30
_MOST_KEYS = 256
"""Distinct launches of one kernel; after `_EXACT_KEYS` of them sizes are told apart roughly."""
_EXACT_KEYS = 64
_FOLLOWED = 4096
"""Launches whose tensors are followed."""
_REUSES = 33
"""Calls of a distinct launch of which the median distance is taken."""
_COUNTS_EVERY_S = 1.0
"""A process that is killed loses counts of this long."""


_SCALARS = frozenset({bool, int, float, str, type(None)})

# ------------------------------------------------------------------------------------------- keys


_Uses = list[tuple[int, int]]
"""Address and bytes of each tensor of a launch."""


def _exact_mark(uses: _Uses, value: Any, storages: dict[int, Any]) -> Hashable:
    """Return what tells a value from others at a launch; note its tensors."""
    kind = type(value)
    if kind in _SCALARS:  # most arguments are these or tensors
        return kind, value if value == value else "nan"
    if kind is torch.Tensor or isinstance(value, torch.Tensor):
        return _tensor_mark(uses, value, storages)
    if isinstance(value, (tuple, list)):
        return tuple([_exact_mark(uses, item, storages) for item in value])
    tensor = tensor_behind(value)
    if tensor is not None:
        block = tuple(getattr(value, "block_shape", ()))
        layout = (tuple(value.shape), tuple(value.strides)) if block else ()
        return block, layout, _tensor_mark(uses, tensor, storages)
    try:
        hash(value)
    except TypeError:
        return id(type(value))
    return type(value), value


def _tensor_mark(uses: _Uses, tensor: torch.Tensor, storages: dict[int, Any]) -> Hashable:
    address = tensor.data_ptr()
    uses.append((address, tensor.nbytes))
    storage = tensor.untyped_storage()._cdata
    place, first = storages.setdefault(storage, (len(storages), address))
    return tensor.dtype, tensor.shape, tensor.stride(), address % 16, place, address - first


def _rough(mark: Any) -> Hashable:
    """Return a mark whose integers are told apart as Triton specialises them, and by size."""
    if isinstance(mark, tuple):
        return tuple([_rough(part) for part in mark])
    if type(mark) is int:
        return mark if -1 <= mark <= 1 else (mark.bit_length(), mark % 16 == 0)
    return None if isinstance(mark, float) else mark


# ---------------------------------------------------------------------------------------- traffic


class _Traffic:
    """Tells how much was read and written since a launch used a tensor.

    Each GPU has a clock, since each has a cache. It counts the tensors of launches, and what
    PyTorch allocates meanwhile: operators in between write at least that. Programs repeat
    themselves, so some thousand launches are enough.
    """

    def __init__(self) -> None:
        self._launched_bytes: Counter[int] = Counter()
        self._used: dict[tuple[int, int], int] = {}
        self._launches = 0

    def reuse(self, uses: _Uses) -> list[int | None] | None:
        """Note a launch; return the clock's bytes since its tensors' last use, `None` if unseen.

        Nothing is returned after `_FOLLOWED` launches.
        """
        if self._launches >= _FOLLOWED:
            return None
        self._launches += 1
        device = _current_device()
        now = self._launched_bytes[device] + _allocated_bytes()
        before = [self._used.get((device, address)) for address, _ in uses]
        for address, size in dict(uses).items():
            self._used[device, address] = now
            self._launched_bytes[device] += size
        return [None if last is None else now - last for last in before]


def _current_device() -> int:
    """Return the number of the GPU that a launch of this thread runs on."""
    return int(torch.cuda.current_device()) if has_context() else 0


def _allocated_bytes() -> int:
    """Return the bytes that PyTorch allocated on this GPU so far, freed ones included."""
    if not has_context():
        return 0
    try:
        return int(torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["allocated"])
    except Exception:  # an allocator of the program's own may count nothing
        return 0


# --------------------------------------------------------------------------------------- recorder


@dataclass
class _Counter:
    """Counts of a distinct launch; `number` is -1 if it is not recorded."""

    number: int
    calls: int = 0
    graph_calls: int = 0
    host_s: float = 0.0
    tensors: tuple[str, ...] = ()
    reuses: list[list[int | None]] = field(default_factory=list)
    reuses_written: int = 0

    def reuse_bytes(self) -> dict[str, int | None]:
        """Return the median distance to each tensor's last use; `None` if mostly there is none."""
        columns = zip(*self.reuses, strict=True)
        return {n: _middle(column) for n, column in zip(self.tensors, columns, strict=True)}


def _middle(distances: Sequence[int | None]) -> int | None:
    ordered = sorted(distances, key=lambda d: (d is None, d or 0))
    return ordered[(len(ordered) - 1) // 2]


class _LastLaunch(threading.local):
    """When a thread launched last."""

    at_s: float | None = None


class LaunchRecorder:
    """Records the launches of this process into a folder until it is closed.

    Args:
        folder: of the recording.
        observe: gets each distinct launch, before and after its first run; for tests and benches.
        known_programs: digests of programs whose launches are left out.

    Attributes:
        programs: digests of the programs that this process recorded.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        observe: Callable[[str, int, PendingLaunch], None] | None = None,
        known_programs: frozenset[str] = frozenset(),
    ) -> None:
        self._known_programs = known_programs
        # absolute: the program may change its folder
        self._folder, self._observe = Path(folder).absolute(), observe
        self._hooks = LaunchHooks(self._launch)
        self._last = _LastLaunch()
        self._file: TextIO | None = None
        self._forget()
        _recorders.add(self)

    def _forget(self) -> None:
        """Begin a record of this process: a fork has nothing of its parent's file."""
        self._lock = threading.RLock()
        self._file = None
        self._counters: dict[Hashable, _Counter] = {}
        self._keys_of: dict[int, int] = {}
        self._traffic = _Traffic()
        self._kept: list[Any] = []  # kernels, whose identities are in keys
        self._left_out: set[str] = set()
        self.programs: set[str] = set()
        self._number, self._bytes, self._is_over = 0, 0, False
        self._counted_s = time.monotonic()

    def start(self) -> None:
        """Record from now on.

        Raises:
            InputError: the folder cannot be made.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot record into {self._folder}: {error.strerror}") from error
        self._hooks.install()
        task = "recording launches of torch.compile"
        call_after_imports([INDUCTOR], self._hooks.wrap_inductor, task)
        atexit.register(self.close)
        util.register_after_fork(self, _close_with_worker)
        if parent_process() is not None:
            _close_with_worker(self)

    def close(self) -> None:
        """Stop recording, and put back what was wrapped."""
        self._hooks.remove()
        atexit.unregister(self.close)
        with self._lock:
            self._write_counts()
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()
            self._file, self._is_over = None, True

    # ------------------------------------------------------------------------------------ launches

    def _launch(self, pending: PendingLaunch, proceed: Callable[[], Any]) -> Any:
        """Make a launch, and count it; the first of its kind is described."""
        begun_s = time.monotonic()
        uses: _Uses = []
        counter, recipes = self._prepare(pending, uses)
        try:
            result = proceed()
        except BaseException:
            if recipes is not None:  # the next one of its kind may be the first that runs
                self._forget_kind(counter)
            raise
        try:
            if recipes is not None:
                with self._hooks.unwatched(), FunctionsUnseen():
                    self._describe(pending, counter, recipes)
            self._count(counter, begun_s, uses)
        except Exception as error:  # the program goes on
            counter.number = -1
            self._leave_out(pending, error)
        return result

    def _forget_kind(self, counter: _Counter) -> None:
        with self._lock:
            kept = {key: c for key, c in self._counters.items() if c is not counter}
            self._counters = kept

    def _prepare(
        self, pending: PendingLaunch, uses: _Uses
    ) -> tuple[_Counter, dict[str, TensorRecipe] | None]:
        try:
            with self._hooks.unwatched(), FunctionsUnseen():
                key = pending.key(partial(_exact_mark, uses))
                counter = self._counters.get(key)
                if counter is not None:
                    return counter, None
                return self._new_counter(key, pending)
        except Exception as error:  # the program goes on
            self._leave_out(pending, error)
            return _Counter(-1), None

    def _new_counter(
        self, key: Hashable, pending: PendingLaunch
    ) -> tuple[_Counter, dict[str, TensorRecipe] | None]:
        with self._lock:
            if key in self._counters:  # another thread's launch of its kind came first
                return self._counters[key], None
            kernel = id(pending.kernel)
            count = self._keys_of.get(kernel, 0)
            if count >= _EXACT_KEYS:
                key = ("rough", _rough(key))
                if key in self._counters:
                    return self._counters[key], None
            if count >= _MOST_KEYS or self._is_over:
                return _Counter(-1), None
            self._keys_of[kernel] = count + 1
            self._kept += [pending.kernel] if not count else []
            is_known = bool(self._known_programs) and pending.program() in self._known_programs
            counter = self._counters[key] = _Counter(-1 if is_known else self._number)
            if is_known:
                return counter, None
            self._number += 1
        recipes = {} if is_capturing() else _recipes(pending)
        if self._observe is not None:
            self._observe("before", counter.number, pending)
        return counter, recipes

    def _describe(
        self, pending: PendingLaunch, counter: _Counter, recipes: dict[str, TensorRecipe]
    ) -> None:
        record = replace(record_of_launch(pending.requested()), recipes=recipes)
        if record.launch.program is not None:
            if record.launch.program.digest in self._known_programs:
                counter.number = -1
                return
            self.programs.add(record.launch.program.digest)
        self._write({"number": counter.number, "launch": to_json(record)})
        counter.tensors = tuple(path for path, _ in pending.tensors())
        if self._observe is not None:
            self._observe("after", counter.number, pending)

    def _count(self, counter: _Counter, begun_s: float, uses: _Uses) -> None:
        reuse = self._traffic.reuse(uses)
        if reuse and len(counter.reuses) < _REUSES and len(reuse) == len(counter.tensors):
            counter.reuses.append(reuse)
        last_s, self._last.at_s = self._last.at_s, time.monotonic()
        counter.calls += 1
        counter.host_s += begun_s - last_s if last_s is not None else 0.0
        if is_capturing():
            counter.graph_calls += 1
        if begun_s - self._counted_s > _COUNTS_EVERY_S:
            with self._lock:
                self._write_counts()

    # -------------------------------------------------------------------------------------- file

    def _write_counts(self) -> None:
        self._counted_s = time.monotonic()
        counts = [
            (c.number, c.calls, c.graph_calls, round(1e3 * c.host_s, 6))
            for c in list(self._counters.values())
            if c.number >= 0 and c.calls
        ]
        if counts:
            self._write({"counts": counts})
        for counter in list(self._counters.values()):
            if counter.number >= 0 and len(counter.reuses) > counter.reuses_written:
                counter.reuses_written = len(counter.reuses)
                self._write({"number": counter.number, "reuse_bytes": counter.reuse_bytes()})

    def _write(self, document: dict[str, Any]) -> None:
        """Append a line, unless the disk or the folder's share of it is full."""
        with self._lock:
            if self._is_over:
                return
            try:
                if self._file is None:
                    self._file = self._open_file()
                line = json.dumps(document, separators=(",", ":")) + "\n"
                self._bytes += len(line)
                self._file.write(line)
                self._file.flush()
            except OSError as error:
                self._give_up(error)
            if self._bytes > _MOST_BYTES:
                self._give_up(OSError(0, "the recording has 1 GB"))

    def _open_file(self) -> TextIO:
        rank = os.environ.get("RANK", "0")
        name = f"launches-{os.getpid()}-{rank}-{secrets.token_hex(4)}.jsonl"
        file = (self._folder / name).open("x", encoding="utf-8")
        head = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "rank": rank,
            "device": _device_name(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "environment": compiler_environment(),
            "compiler": _compiler_name(),
        }
        file.write(json.dumps(head) + "\n")
        return file

    def _give_up(self, error: OSError) -> None:
        """Record nothing further; the program goes on, and what was recorded stays."""
        if not self._is_over:
            self._is_over = True
            with contextlib.suppress(Exception):
                print(f"solkit: recording ended early: {error.strerror}", file=sys.stderr)

    def _leave_out(self, pending: PendingLaunch, error: Exception) -> None:
        """Say that a launch cannot be recorded, once a kernel."""
        with contextlib.suppress(Exception):
            name = pending.kernel.__name__
            if name not in self._left_out:
                self._left_out.add(name)
                note = f"{name} is not recorded: {type(error).__name__}: {error}"
                print(f"solkit: {note}", file=sys.stderr)
                self._write({"note": note})

    def hold(self) -> None:
        """Let no other thread write until `release`: a fork would inherit half a line."""
        self._lock.acquire()

    def release(self) -> None:
        """End `hold`."""
        self._lock.release()

    def begin_in_fork(self) -> None:
        """Go on in a new process with a file of its own."""
        is_over = self._is_over
        self._forget()
        self._is_over = is_over


def _recipes(pending: PendingLaunch) -> dict[str, TensorRecipe]:
    return {path: _recipe(tensor) for path, tensor in pending.tensors()}


def _recipe(tensor: torch.Tensor) -> TensorRecipe:
    try:
        return tensor_recipe(tensor)
    except NotImplementedError:  # torch converts no values of some dtypes
        return TensorRecipe()


def _device_name() -> str:
    """Return the GPU's name; starts no context where there is none yet."""
    return torch.cuda.get_device_name() if has_context() else ""


def _compiler_name() -> str:
    """Return what compiled the program's kernels; empty where there is no GPU."""
    try:
        return compiler_name(driver.active.get_current_target())
    except Exception:  # drivers raise anything
        return ""


_recorders: weakref.WeakSet[LaunchRecorder] = weakref.WeakSet()


class _Held(threading.local):
    """Recorders that a thread holds while it forks: another thread may fork at the same time."""

    def __init__(self) -> None:
        self.recorders: list[LaunchRecorder] = []


_held = _Held()


def _hold_all() -> None:
    for recorder in list(_recorders):
        recorder.hold()
        _held.recorders.append(recorder)


def _release_all() -> None:
    while _held.recorders:
        _held.recorders.pop().release()


def _begin_in_forks() -> None:
    _held.recorders.clear()
    for recorder in list(_recorders):
        recorder.begin_in_fork()


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_begin_in_forks)


def _close_with_worker(recorder: LaunchRecorder) -> None:
    """Close with a worker of multiprocessing, which leaves without Python's own exit."""
    util.Finalize(None, recorder.close, exitpriority=100)


# ----------------------------------------------------------------------------------------- window


class _Window:
    """Calls of the program's model that are recorded.

    Args:
        recorder: to start and to close.
        skip: calls before the window.
        calls: in the window; ``None`` for all.
    """

    def __init__(self, recorder: LaunchRecorder, skip: int, calls: int | None) -> None:
        self._recorder, self._skip, self._calls = recorder, skip, calls
        self._model = ModelCalls(self._begin_call)

    def install(self) -> None:
        """Watch the model's calls."""
        self._model.install()

    def _begin_call(self, number: int) -> None:
        if self._skip and number == self._skip + 1:
            try:
                self._recorder.start()
            except Exception as error:  # the model's call goes on
                print(f"solkit: nothing is recorded: {error}", file=sys.stderr)
        if self._calls is not None and number > self._skip + self._calls:
            self._recorder.close()
            self._model.remove()


@contextlib.contextmanager
def recording(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Record the Triton launches within the ``with`` block, of all threads and forks.

    Launches go into files of `folder`, each process's into its own. Afterwards each kernel that can
    be launched again has a kernel file there, which every command takes.

    Args:
        folder: where to; it may hold earlier recordings, which are merged.

    Raises:
        InputError: the folder cannot be made.
    """
    place = Path(folder).absolute()  # the program may change its folder
    recorder = LaunchRecorder(place)
    recorder.start()
    try:
        yield
    finally:
        recorder.close()
        _write_files(place)


def _write_files(folder: Path) -> None:
    """Write the kernel files, if anything was launched; an error of the program is not hidden."""
    try:
        if is_recording(folder):
            write_kernel_files(read_launch_recording(folder))
    except Exception as error:
        why = str(error) if isinstance(error, SolkitError) else repr(error)
        print(f"solkit: {folder} has no kernel files: {why}", file=sys.stderr)


def start_from_environment() -> None:
    """Record this process as ``SOLKIT_RECORD`` says.

    Raises:
        InputError: ``SOLKIT_RECORD_SKIP`` or ``SOLKIT_RECORD_CALLS`` is no number.
    """
    recorder = LaunchRecorder(os.environ["SOLKIT_RECORD"])
    skip, calls = _count_from("SOLKIT_RECORD_SKIP"), _count_from("SOLKIT_RECORD_CALLS")
    if skip or calls is not None:
        _Window(recorder, skip or 0, calls).install()
    if not skip:
        recorder.start()


def _count_from(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdigit():
        raise InputError(f"{variable} is {text!r}; expected a number of calls")
    return int(text)
