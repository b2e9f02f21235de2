"""Run a candidate on fake tensors and record what it launches.

Needs `fake_cuda.install` and `fake_triton.install`, so a throw-away child process.
"""

from __future__ import annotations

import ast
import concurrent.futures.thread
import contextlib
import dis
import math
import re
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import torch
import triton

from solkit.adapters import fake_cuda, fake_triton, launch_recording
from solkit.adapters.languages import is_of_language, language_of
from solkit.adapters.launch_recording import CapturedLaunch, Choice
from solkit.adapters.launch_records import roles_of_storages, with_records
from solkit.analysis import cuda, library
from solkit.analysis.graphs import seeing_graphs
from solkit.analysis.library import LibraryLaunch
from solkit.core import Value, Verdict
from solkit.errors import InputError, SolkitError
from solkit.kernelfiles import Workload

_GRACE_S = 2
_PYTHONS = (*(ArithmeticError, AssertionError, LookupError, NameError, RecursionError, SystemExit),)
"""Errors that Python raises by itself whether or not there is a GPU."""
_TRITONS = (AssertionError, KeyError, TypeError, ValueError)
"""Errors with which Triton refuses arguments and options of a launch."""


_TRITON = Path(triton.__file__).parent
_FRONT_END = ("backends", "compiler", "experimental", "language", "runtime")


class CaptureError(SolkitError):
    """The candidate could not be run on fake tensors; the message names the user's line.

    Attributes:
        failure: as in `solkit.core.Analysis`.
        is_unanalysed: as in `Captured`.
    """

    def __init__(self, message: str, failure: str = "", is_unanalysed: bool = False) -> None:
        self.failure, self.is_unanalysed = failure, is_unanalysed
        super().__init__(message)


class _OutOfTimeError(BaseException):
    """The candidate ran for too long; not an `Exception`, which it may catch."""


@dataclass(frozen=True)
class Output:
    """An output that a candidate made in the GPU's memory.

    Attributes:
        storage: identifies its storage.
        bytes: of its elements.
        by_operators: the most bytes of its storage that PyTorch's operators wrote.
    """

    storage: int
    bytes: int
    by_operators: int


@dataclass(frozen=True)
class Captured:
    """Launches and results of one call of a candidate.

    Attributes:
        launches: each distinct launch once, in the order of first appearance.
        notes: about autotuning and guesses, each a sentence.
        outputs: number, dtypes and shapes of its output tensors.
        library: PyTorch's operators that it calls, each distinct one once, in the same order.
        created: its outputs in the GPU's memory, without those that it was given.
        unread: storages of inputs in the GPU's memory, by their place among all tensors that it
            gets, of which no operator reads anything, whose address nobody asks for and which is
            no output: what a kernel does not write of it is part of the result.
        is_whole: whether all of its work is seen: it started no thread, say.
        is_unanalysed: whether it launches kernels in a language that is not analysed.
        autotuning: how autotuners choose, where each of their configurations is launched.
    """

    launches: tuple[CapturedLaunch, ...]
    notes: tuple[str, ...]
    outputs: str
    library: tuple[LibraryLaunch, ...] = ()
    created: tuple[Output, ...] = ()
    unread: Mapping[int, int] = field(default_factory=dict)
    is_whole: bool = True
    is_unanalysed: bool = False
    autotuning: tuple[str, ...] = ()


def capture(
    workload: Workload,
    params: Mapping[str, Value],
    limit_s: float | None = None,
    extensions: cuda.CudaRecording | None = None,
    skipped: frozenset[Choice] = frozenset(),
    every_choice: bool = False,
) -> Captured:
    """Call the candidate and record what it launches, at a later call than the first.

    The first call may set things up: compile, pack weights, fill tables. Timed calls come later.
    Each call has inputs of its own, so that no answer is remembered. If the later call fails, or
    there is no time for it, or it launches nothing, the first is taken.

    Args:
        workload: with inputs that are fake tensors.
        params: what an autotuned kernel's configuration must match.
        limit_s: seconds that the candidate may run; only in a process's main thread.
        extensions: gets its launches of CUDA C++.
        skipped: configurations that autotuned kernels pass over.
        every_choice: whether autotuners launch each configuration that they would time.

    Raises:
        CaptureError: the candidate's own code failed, or ran for too long.
        ParamsError: no configuration of an autotuned kernel matches `params`.
    """
    into = cuda.CudaRecording() if extensions is None else extensions
    start = time.perf_counter()
    if workload.again is None:
        return _capture_call(workload, params, limit_s, into, skipped, every_choice)
    with fake_cuda.fake_tensors():
        earlier = workload.again()
    first_into = cuda.CudaRecording()
    try:
        first = _capture_call(earlier, params, limit_s, first_into, skipped, every_choice)
    finally:
        into.take(first_into)
    spent_s = time.perf_counter() - start
    if limit_s is not None and spent_s > limit_s / 2:
        return first
    rest_s = None if limit_s is None else limit_s - spent_s
    later_into = cuda.CudaRecording()
    try:
        later = _capture_call(workload, params, rest_s, later_into, skipped, every_choice)
    except CaptureError:
        return first
    counts = _count_launches(first, first_into), _count_launches(later, later_into)
    if counts[0] and not counts[1] and not later.is_unanalysed:
        return first
    into.take(later_into)
    if counts[0] == counts[1] or later.is_unanalysed:
        return later
    later = replace(later, unread={})  # it may go by what an earlier call has read
    note = f"The first call makes {counts[0]} launches, later ones {counts[1]}: {_LATER}"
    return replace(later, notes=(*later.notes, note))


_LATER = "a later call is analysed."


def _count_launches(captured: Captured, extensions: cuda.CudaRecording) -> int:
    """Count all launches of a call."""
    own = sum(launch.launch.count for launch in captured.launches)
    operators = sum(operator.count for operator in captured.library)
    return own + operators + sum(launch.count for launch in extensions.launches)


def _capture_call(
    workload: Workload,
    params: Mapping[str, Value],
    limit_s: float | None,
    into: cuda.CudaRecording,
    skipped: frozenset[Choice],
    every_choice: bool,
) -> Captured:
    """Capture one call, its launches of CUDA C++ in `into`."""
    with fake_cuda.fake_tensors():
        workload = workload.with_destinations()  # made outside of the candidate's time
    with (
        fake_cuda.fake_tensors(),
        fake_cuda.watching_guesses() as guesses,
        launch_recording.recording_launches(params, None, skipped, every_choice) as seen,
        seeing_graphs(params, skipped),
        cuda.recording(into),
        library.recording(lambda: len(seen.launches) + len(into.launches)) as operators,
        _watching_threads() as threads,
        fake_cuda.watching_addresses() as addresses,
    ):
        try:
            with _ended_after(limit_s):
                outputs = workload.run_kernel()
        except InputError:  # the params, which are not the candidate's fault
            raise
        except BaseException as error:  # the user's code may raise anything, and sys.exit
            raise _capture_error(error, bool(guesses)) from error
    unseen = (f"{line}: starts a thread: what it launches is not seen" for line in threads)
    is_whole = not threads and not seen.unanalysed
    roles = roles_of_storages(storages_of(workload.tensors()), storages_of(outputs))
    return Captured(
        with_records(seen.launches, roles),
        (*seen.notes(), *guesses, *unseen),
        described(outputs),
        operators.launches,
        tuple(_made(workload, outputs, operators.written)) if is_whole else (),
        _unread_storages(workload, outputs, operators.read | addresses) if is_whole else {},
        is_whole,
        bool(seen.unanalysed),
        tuple(seen.autotuning),
    )


_STARTERS = (threading.__file__, concurrent.futures.thread.__file__)
"""Files of Python that start threads for a caller."""
_IDLE = "tqdm._monitor"
"""The module of a thread that only redraws progress bars; Inductor's are among them."""


@contextlib.contextmanager
def _watching_threads() -> Iterator[Mapping[str, None]]:
    """Collect the user's lines that start threads: torch's modes and fakes are of one thread."""
    lines: dict[str, None] = {}
    start, excepthook = threading.Thread.start, threading.excepthook

    def noted(thread: threading.Thread) -> None:
        caller = sys._getframe(1)
        line, file = fake_cuda.user_line(caller), caller.f_code.co_filename
        is_the_users = file in _STARTERS or line.startswith(f"{file}:")
        if is_the_users and type(thread).__module__ != _IDLE:
            lines.setdefault(line)
        start(thread)

    threading.Thread.start = noted  # type: ignore[assignment, method-assign]
    threading.excepthook = lambda _: None  # it fails for lack of fakes
    try:
        yield lines
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
        threading.excepthook = excepthook


def _unread_storages(
    workload: Workload, outputs: Sequence[torch.Tensor], read: Container[int]
) -> dict[int, int]:
    """List storages of inputs that no operator reads, except those that are outputs themselves."""
    returned = {tensor.untyped_storage()._cdata for tensor in outputs}  # a result holds its rest
    storages = {
        position: tensor.untyped_storage()._cdata
        for position, tensor in enumerate(workload.tensors())
        if tensor.is_cuda
    }
    taken = {*returned, *(storage for storage in storages.values() if storage in read)}
    return {position: storage for position, storage in storages.items() if storage not in taken}


def _made(
    workload: Workload, outputs: Sequence[torch.Tensor], written: Mapping[int, int]
) -> Iterator[Output]:
    input_storages = {tensor.untyped_storage()._cdata for tensor in workload.tensors()}
    for tensor in outputs:
        storage = tensor.untyped_storage()._cdata
        if tensor.is_cuda and storage not in input_storages:
            distinct = (n for n, step in zip(tensor.shape, tensor.stride()) if step)
            size = math.prod(distinct) * tensor.element_size()
            yield Output(storage, size, written.get(storage, 0))


def storages_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return what identifies the storage of each tensor."""
    return [tensor.untyped_storage()._cdata for tensor in tensors]


def described(tensors: Sequence[torch.Tensor]) -> str:
    """Describe tensors by number, dtypes and shapes."""
    kinds = (f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors)
    noun = "output" if len(tensors) == 1 else "outputs"
    return f"{len(tensors)} {noun} {', '.join(kinds)}".strip()


@contextlib.contextmanager
def _ended_after(limit_s: float | None) -> Iterator[None]:
    if limit_s is None:
        yield
        return

    def end(*_: object) -> None:
        raise _OutOfTimeError(f"it ran for over {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    # C code that does not return keeps Python from handling the signal: SIGXCPU ends the process
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = math.ceil(time.process_time() + limit_s) + _GRACE_S
    resource.setrlimit(resource.RLIMIT_CPU, (most if soft < 0 else min(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _blamed_line(error: BaseException) -> str:
    """``file:line: type: first line of the message``; no line where none of the user's ran."""
    every = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    frames = [frame for frame in every if not is_of_language(frame)] or every
    place = fake_cuda.user_line(frames[-1]) if frames else "unknown line"
    message = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [""]
    kind = "" if isinstance(error, _OutOfTimeError) else f"{type(error).__name__}: "
    sentence = f"{kind}{message[0]}"
    return sentence if place == "unknown line" else f"{place}: {sentence}"


def _capture_error(error: BaseException, has_guesses: bool) -> CaptureError:
    """Say what went wrong, and whether that says anything about the candidate."""
    language = language_of(error)
    if language and not isinstance(error, _OutOfTimeError):
        return CaptureError(f"not analysed: it uses {language} ({_blamed_line(error)})", "", True)
    return CaptureError(_blamed_line(error), "" if has_guesses else _gpu_failure_verdict(error))


def _gpu_failure_verdict(error: BaseException) -> str:
    """Return the verdict if a GPU would give the error too; empty if the fake one may cause it."""
    if isinstance(error, _OutOfTimeError):
        return Verdict.TIMED_OUT.value
    return Verdict.CRASHED.value if _is_candidates(error) else ""


def _is_candidates(error: BaseException) -> bool:
    if isinstance(error, fake_triton.LaunchError | RecursionError):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    file = Path(last.tb_frame.f_code.co_filename)
    if file.is_relative_to(_TRITON):
        # its front end is not faked; `triton.testing` and its tools ask the machine
        return file.relative_to(_TRITON).parts[0] in _FRONT_END and isinstance(error, _TRITONS)
    is_users = fake_cuda.user_line(last.tb_frame).rpartition(":")[0] == str(file)
    if not is_users or "site-packages" in file.parts or error.__context__ is not None:
        return False  # the cause may be a missing library
    if isinstance(error, ImportError | OSError):
        return False  # or a missing file
    return (isinstance(error, _PYTHONS) or _line_raises(last)) and not _lacks_library(file)


def _lacks_library(file: Path) -> bool:
    """Tell whether a file imports, or asks for, a library that only a GPU's host may have."""
    if not file.is_file():
        return False
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_ASKING):
            args = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
            names |= {name for name in args if isinstance(name, str)}
    roots = {name.partition(".")[0] for name in names} - {""}
    return any(root not in sys.modules and find_spec(root) is None for root in roots)


_ASKING = ("find_spec", "import_module", "__import__")


def _line_raises(place: TracebackType) -> bool:
    """Tell whether the line has a ``raise``: what C code raises may be the fake GPU's fault."""
    return place.tb_frame.f_code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]
