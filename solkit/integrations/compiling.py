"""`torch.compile` with tuned configurations of Inductor's Triton kernels.

::

    model = solkit.compile(model, gpu_seconds=60, folder="tuned/")
    model = torch.compile(model, backend="solkit", options={"folder": "tuned/", "gpu_seconds": 60})

Inductor compiles the model as ever. The launches of a first step are recorded into the folder and
tuned by `solkit batch`; then the compiled kernels get their tuned configurations where they are. A
process that finds the folder tuned for its GPU and Triton compiles with these. Kernels that the
folder does not know, of another model or after a change, are recorded and tuned besides. Whatever
cannot be tuned runs as Inductor has it.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from solkit.adapters import live_inductor
from solkit.adapters.graph_captures import is_any_capturing, wait_for_captures, watch_captures
from solkit.adapters.live_tuned import ChoiceRequest
from solkit.analysis.pool import usable_cores
from solkit.core.tuned import TunedEntry, TunedFolder
from solkit.datasets.launch_recordings import kernels_of_recording, read_launch_recording
from solkit.datasets.tuned_folder import read_tuned_folder, write_tuned_folder
from solkit.errors import InputError, SolkitError, UnsupportedError
from solkit.integrations import applying
from solkit.integrations.recorder import LaunchRecorder
from solkit.integrations.search_process import SearchProcess
from solkit.measure.timing.comparison_statistics import compute_ratio
from solkit.processes.startup import is_off
from solkit.spans import span
from solkit.userdata import folder as data_folder

_GPU_SECONDS = 60.0
_WALL_SECONDS = 60.0  # besides three times those of the GPU
_MOST_CALLS = 3
"""So often a graph that waits for its backward pass is called before tuning begins without."""
_OWN = ("folder", "gpu_seconds", "wall_seconds", "mode")
_CORES = 4
"""With fewer, what a search needs is not loaded while Inductor compiles: both would be slower."""


def compile(  # noqa: A001 - as in torch
    model: Any = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    gpu_seconds: float = _GPU_SECONDS,
    wall_seconds: float | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
) -> Any:
    """Compile a model by `torch.compile`, and tune its Triton kernels once.

    The first call compiles and is recorded, with the backward pass that may follow. The second call
    tunes first, in other processes, for `gpu_seconds` and the time that compiling candidates takes.
    Shapes are dynamic as `torch.compile` has them. A graph that is compiled later is tuned the same
    way, for another `gpu_seconds`, if it launches kernels that the folder does not know. After four
    fifths of `wall_seconds` a search ends with what it has. One that is killed when they are over,
    or by Ctrl-C, gives nothing: the model runs as Inductor has it.

    ``SOLKIT_APPLY=0`` in the environment leaves everything to Inductor.

    Args:
        model: a module or function; without one a decorator is returned.
        folder: where recordings and tuned configurations are kept, of any number of models; by
            default the user's data folder's ``compiled``, with a folder per GPU and Triton.
        gpu_seconds: the budget of a search; 0 only applies what the folder has.
        wall_seconds: the most that a search may take; by default 60 and three times `gpu_seconds`.
        mode: of Inductor: ``"default"``, ``"reduce-overhead"``, ``"max-autotune"`` ...
        options: of Inductor, as for `torch.compile`, besides the mode's.
        dynamic: as for `torch.compile`.
        fullgraph: as for `torch.compile`.

    Returns:
        The compiled model.

    Raises:
        UnsupportedError: it is a program of torch.export, which AOTInductor compiles, or Inductor's
            C++ wrapper is asked for.
        InputError: `gpu_seconds` is no number of 0 or above, or `wall_seconds` is none above 0.
    """
    if isinstance(model, torch.export.ExportedProgram):
        raise UnsupportedError(
            "an ExportedProgram is compiled by AOTInductor, whose code launches kernels without "
            "Python: give its module, exported.module()"
        )
    own = {"folder": folder, "gpu_seconds": gpu_seconds, "mode": mode}
    own["wall_seconds"] = wall_seconds
    _own_options({**own, **(options or {})})  # errors come now, not at the first call
    _refuse_native_code(options or {})
    return torch.compile(
        model,
        backend=backend,
        options={**(options or {}), **{name: v for name, v in own.items() if v is not None}},
        dynamic=dynamic,
        fullgraph=fullgraph,
    )


def backend(
    graph: torch.fx.GraphModule,
    inputs: Any,
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph for ``torch.compile(model, backend="solkit")``.

    Args:
        graph: of Dynamo.
        inputs: its example inputs.
        mode: of Inductor.
        options: ``folder``, ``gpu_seconds``, ``wall_seconds`` and ``mode`` as for `compile`; others
            are Inductor's.

    Raises:
        UnsupportedError: Inductor's C++ wrapper is asked for.
        InputError: an option has a value that cannot be used.
    """
    place, budget, named_mode = _own_options({"mode": mode, **(options or {})})
    session = _session_of(Path(place or _default_folder()).absolute())
    session.load_search(budget)  # before Inductor is imported, which takes seconds
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    inductor = {name: value for name, value in (options or {}).items() if name not in _OWN}
    patches = {**list_mode_options(named_mode or "default"), **inductor}
    _refuse_native_code(patches)
    session.begin(budget)
    compiled: Any = compile_fx(graph, inputs, config_patches=patches)
    return session.counted(compiled)


@dataclass(frozen=True)
class _Budget:
    """Seconds of the GPU that a search may spend, and of the wall that it may take."""

    gpu_s: float = 0.0
    wall_s: float = 0.0

    def merged(self, other: _Budget) -> _Budget:
        return _Budget(max(self.gpu_s, other.gpu_s), max(self.wall_s, other.wall_s))


def _own_options(options: Mapping[str, Any]) -> tuple[Any, _Budget, str | None]:
    gpu_s, wall_s = options.get("gpu_seconds"), options.get("wall_seconds")
    gpu_s = _GPU_SECONDS if gpu_s is None else gpu_s
    if not _is_number(gpu_s) or not gpu_s >= 0:
        raise InputError(f"gpu_seconds: expected a number of 0 or above, got {gpu_s!r}")
    wall_s = _WALL_SECONDS + 3 * gpu_s if wall_s is None else wall_s
    if not _is_number(wall_s) or not wall_s > 0:
        raise InputError(f"wall_seconds: expected a number above 0, got {wall_s!r}")
    return options.get("folder"), _Budget(gpu_s, wall_s), options.get("mode")


def _is_number(value: object) -> bool:
    """Tell whether a value is a finite number: no clock waits for others."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value)


def _default_folder() -> Path:
    """Return the user's folder for this GPU and Triton: a tuned folder is for one of both."""
    return data_folder("compiled") / applying.gpu_and_triton(_device_index())


def _refuse_native_code(patches: Mapping[str, Any]) -> None:
    """Refuse programs that launch kernels without Python, where none can be replaced.

    Raises:
        UnsupportedError: the C++ wrapper is on, or AOTInductor compiles.
    """
    from torch._inductor import config
    from torch._inductor.virtualized import V

    if patches.get("cpp_wrapper", config.cpp_wrapper):
        raise UnsupportedError(
            "Inductor's C++ wrapper launches kernels without Python, so SolKit cannot choose their "
            "configurations: set torch._inductor.config.cpp_wrapper = False"
        )
    if getattr(V, "aot_compilation", False):
        raise UnsupportedError("AOTInductor's code launches kernels without Python: use Inductor")


# ------------------------------------------------------------------------------------- sessions


class _Session:
    """The graphs of a process that share a folder: recorded together, tuned once.

    Launches of programs that the folder knows are not recorded, so a graph that has no others is
    not tuned. One that is compiled after a search, of another model or for other shapes, begins
    another recording.

    Args:
        folder: absolute.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()  # a signal's handler may launch while a trial is noted
        self._calls: Counter[int] = Counter()
        self._awaits_backward = self._is_unusable = False
        self._budget, self._recordings = _Budget(), 0
        self._changed = self._kept = self._dropped = 0  # kernels since the trials that run began
        self._search: SearchProcess | None = None
        self._recorder: LaunchRecorder | None = None
        self._tuned: TunedFolder | None = None

    def load_search(self, budget: _Budget) -> None:
        """Begin to load what a search needs, if one will most likely follow and cores are free."""
        with _LOCK, contextlib.suppress(Exception):  # without it a search loads when it begins
            is_new = self._tuned is None and self._search is None
            if not is_new or usable_cores() < _CORES or not self._may_record(budget):
                return
            if not self._read_folder().known_programs():
                self._search = _start_search()

    def _may_record(self, budget: _Budget) -> bool:
        if is_off(applying.VARIABLE) or self._is_unusable or self._recorder is not None:
            return False
        return bool(budget.gpu_s) and _has_gpu() and not _rank()

    def begin(self, budget: _Budget) -> None:
        """Apply what the folder has, and record the rest; whatever fails, the model is compiled.

        Args:
            budget: of the search that follows; there is none without GPU seconds.
        """
        if is_off(applying.VARIABLE) or self._is_unusable:
            return
        try:
            with _LOCK:
                self._begin(budget)
        except Exception as error:
            self._is_unusable = True
            self._say(f"is not used: {_why(error)}")

    def _begin(self, budget: _Budget) -> None:
        if self._tuned is None:
            self._tuned = self._read_folder()
            # what is on trial waits for the second call, unless there is none to wait for; without
            # entries this still notes compiled kernels
            applying.apply_further(_applied(self._tuned, not budget.gpu_s), self.folder)
        self._budget = self._budget.merged(budget)
        if self._may_record(budget):
            self._record(self._tuned)

    def _record(self, tuned: TunedFolder) -> None:
        recorder = LaunchRecorder(self.folder, known_programs=tuned.known_programs())
        recorder.start()
        watch_captures()
        self._recorder, self._recordings = recorder, self._recordings + 1

    def _read_folder(self) -> TunedFolder:
        """Return what the folder has for this GPU and Triton; nothing if it has none."""
        with contextlib.suppress(InputError):
            tuned = read_tuned_folder(self.folder)
            if applying.is_for_this_gpu(tuned, _device_index()):
                return tuned
        return applying.empty_folder(_device_index())

    def _say(self, what: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # as where the program closed it
            print(f"solkit: {self.folder} {what}", file=sys.stderr)

    def counted(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return a graph whose second call tunes first."""
        if self._recorder is None:
            return compiled
        graph = len(self._calls)
        self._calls[graph] = 0
        number = self._recordings

        def run(*args: Any) -> Any:
            if not self._is_recording(number):
                return compiled(*args)
            self._before_call(graph)
            result = compiled(*args)
            if self._is_recording(number):
                self._after_call(result)
            return result

        if getattr(compiled, "_boxed_call", False):
            run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _is_recording(self, number: int) -> bool:
        return self._recorder is not None and self._recordings == number

    def _before_call(self, graph: int) -> None:
        calls = self._calls[graph]
        self._calls[graph] += 1
        is_due = calls >= (_MOST_CALLS if self._awaits_backward else 1)
        if is_due and not is_any_capturing():  # waiting for the GPU would end a capture
            with self._lock:
                recorder, self._recorder = self._recorder, None
            if recorder is not None:
                self._tune(recorder)

    def _after_call(self, result: Any) -> None:
        """Wait for the backward pass of a result that has one: its kernels are recorded too."""
        listed = result if isinstance(result, (tuple, list)) else (result,)
        for tensor in listed:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                self._awaits_backward = True
                tensor.register_hook(self._note_backward)  # type: ignore[no-untyped-call]
                return

    def _note_backward(self, _: torch.Tensor) -> None:
        self._awaits_backward = False

    def _tune(self, recorder: LaunchRecorder) -> None:
        recorder.close()
        self._awaits_backward = False
        budget, self._budget = self._budget, _Budget()
        try:
            if recorder.programs:
                self._say(self._tune_folder(budget, recorder.programs))
            elif number := self._try_choices():
                self._say(
                    f"has {number} changed kernels that no program has confirmed: it tries them"
                )
        except KeyboardInterrupt:
            self._say("is not tuned: the search was interrupted")
        except Exception as error:  # the model goes on as Inductor has it
            self._say(f"is not tuned: {_why(error)}")
        finally:
            if self._search is not None:
                self._search.close()
                self._search = None

    def _tune_folder(self, budget: _Budget, programs: Collection[str]) -> str:
        """Tune, and return how that ended, in words."""
        if reasons := _obstacles(self.folder, programs):
            seen = TunedFolder("", programs=tuple(programs))
            self._tuned = (self._tuned or self._read_folder()).extended(seen)
            write_tuned_folder(self.folder, self._tuned)  # so that it is said once
            raise InputError(f"nothing can be launched again. {' '.join(reasons)}")
        wait_for_captures()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # the search has processes of its own
        self._search = self._search or _start_search()
        limits = budget.gpu_s, budget.wall_s
        with span("search awaited", "program"):
            is_partly = self._search.tune(str(self.folder), self._tuned, *limits)
        tuned = read_tuned_folder(self.folder)
        if not is_partly:  # what cannot be launched again is known, too
            tuned = tuned.extended(TunedFolder("", programs=tuple(programs)))
        self._tuned = _put_on_trial(tuned, programs)
        write_tuned_folder(self.folder, self._tuned)
        changed = f"is tuned: {self._try_choices()} kernels changed"
        return f"{changed}; the time was over before all were searched" if is_partly else changed

    def _try_choices(self) -> int:
        """Replace compiled kernels by tuned ones, on trial; return how many."""
        if self._tuned is None or not self._tuned.entries:
            return 0
        applying.apply_further(_applied(self._tuned, with_trials=True), self.folder)
        wait_for_captures()  # of other threads, since the search began: Inductor waits for the GPU
        if self._changed == self._kept + self._dropped:
            self._changed = self._kept = self._dropped = 0
        with span("kernels replaced", "program"):
            number = live_inductor.replace_compiled(
                live_inductor.Trials(_is_faster, self._end_trial)
            )
        self._changed += number
        return number

    def _end_trial(self, request: ChoiceRequest, is_faster: bool) -> None:
        """Keep a kernel's tuned configuration, or none from now on: the folder forgets it."""
        with self._lock:
            self._kept += is_faster
            self._dropped += not is_faster
            try:
                self._note_trial(request, is_faster)
            except Exception as error:  # the launch goes on
                self._say(f"does not keep what its trials showed: {_why(error)}")
            if self._kept + self._dropped == self._changed:
                total = f"{self._kept} of {self._changed} changed kernels"
                self._say(f"keeps {total}, faster in the program")

    def _note_trial(self, request: ChoiceRequest, is_faster: bool) -> None:
        tried = applying.entries_for(request)
        if not is_faster:
            applying.withdraw_choice(request, "it was not faster in the program")
        if self._tuned is None:
            return
        there = self._read_folder().extended(self._tuned)  # other programs may have written since
        self._tuned = _with_result(there, tried, is_faster)
        write_tuned_folder(self.folder, self._tuned)


def _put_on_trial(tuned: TunedFolder, programs: Collection[str]) -> TunedFolder:
    """Return a folder whose choices for some programs no program has confirmed yet."""

    def is_tried(entry: TunedEntry) -> bool:
        return entry.launcher == "inductor" and entry.program in programs and bool(entry.changes)

    entries = (replace(e, on_trial=True) if is_tried(e) else e for e in tuned.entries)
    return replace(tuned, entries=tuple(entries))


def _with_result(tuned: TunedFolder, tried: Collection[TunedEntry], is_faster: bool) -> TunedFolder:
    """Return a folder that has tried entries confirmed, or none of them but their programs."""
    pairs = [(entry, replace(entry, on_trial=False)) for entry in tuned.entries]
    entries = (
        settled if settled in tried else entry
        for entry, settled in pairs
        if is_faster or settled not in tried
    )
    programs = tuple(sorted(tuned.known_programs()))
    return replace(tuned, entries=tuple(entries), programs=programs)


def _applied(tuned: TunedFolder, with_trials: bool) -> TunedFolder:
    """Return what of a folder is applied, without saying what is on trial."""
    entries = (e for e in tuned.entries if with_trials or not e.on_trial)
    return replace(tuned, entries=tuple(replace(e, on_trial=False) for e in entries))


def _is_faster(own_ms: Sequence[float], tuned_ms: Sequence[float]) -> bool | None:
    """Judge the times of pairs in turns; ``None`` if the interval of their ratio holds 1."""
    ratio = compute_ratio(own_ms, tuned_ms, "events")
    return ratio.high < 1 if ratio.high < 1 or ratio.low > 1 else None


def _start_search() -> SearchProcess:
    on = _device_index()
    return SearchProcess(f"cuda:{on}" if on else None)


def _obstacles(folder: Path, programs: Collection[str]) -> tuple[str, ...]:
    """Say why none of some recorded programs can be launched again; nothing if one can."""
    kernels, reasons = kernels_of_recording(read_launch_recording(folder))
    launched = {e.launch.program.digest for k in kernels for e in k.launches if e.launch.program}
    return () if launched & set(programs) else reasons or ("Nothing was recorded.",)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, SolkitError) else repr(error)


_SESSIONS: dict[Path, _Session] = {}
_LOCK = threading.Lock()


def _session_of(folder: Path) -> _Session:
    with _LOCK:
        return _SESSIONS.setdefault(folder, _Session(folder))


def _has_gpu() -> bool:
    return torch.cuda.is_available()


def _device_index() -> int:
    return torch.cuda.current_device() if _has_gpu() else 0


def _rank() -> int:
    """Return this process's rank: all but the first run as Inductor has it, until it has tuned."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() else 0
