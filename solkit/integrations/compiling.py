"""`torch.compile` with tuned configurations of Inductor's Triton kernels.

::

    model = solkit.compile(model, gpu_seconds=60, folder="tuned/")
    model = torch.compile(model, backend="solkit", options={"folder": "tuned/", "gpu_seconds": 60})

Inductor compiles the model as ever. The launches of a first step are recorded into the folder and
tuned by `solkit batch`; then the compiled kernels get their tuned configurations where they are. A
process that finds the folder tuned for its GPU and Triton compiles with these, and searches
nothing. Whatever cannot be tuned runs as Inductor has it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from solkit.adapters import live_tuned
from solkit.core import BatchSettings
from solkit.core.tuned import TunedFolder
from solkit.datasets.tuned_folder import read_tuned_folder
from solkit.errors import InputError, SolkitError, UnsupportedError
from solkit.integrations import applying
from solkit.integrations.recorder import LaunchRecorder
from solkit.processes.startup import is_off
from solkit.userdata import folder as data_folder

__all__ = ["backend", "compile"]

_GPU_SECONDS = 60.0
_MOST_CALLS = 3
"""So often a graph that waits for its backward pass is called before tuning begins without."""
_OWN = ("folder", "gpu_seconds", "mode")


def compile(  # noqa: A001 - as in torch
    model: Any = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    gpu_seconds: float = _GPU_SECONDS,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
) -> Any:
    """Compile a model by `torch.compile`, and tune its Triton kernels once.

    The first call compiles and is recorded, with the backward pass that may follow. The second call
    tunes first, for `gpu_seconds` and the time that compiling candidates takes. Shapes are dynamic
    as `torch.compile` has them; kernels of later shapes are not tuned.

    ``SOLKIT_APPLY=0`` in the environment leaves everything to Inductor.

    Args:
        model: a module or function; without one a decorator is returned.
        folder: where recordings and tuned configurations are kept; by default the user's data
            folder's ``compiled``.
        gpu_seconds: the budget of the search; 0 only applies what the folder has.
        mode: of Inductor: ``"default"``, ``"reduce-overhead"``, ``"max-autotune"`` ...
        options: of Inductor, as for `torch.compile`, besides the mode's.
        dynamic: as for `torch.compile`.
        fullgraph: as for `torch.compile`.

    Returns:
        The compiled model.

    Raises:
        UnsupportedError: it is a program of torch.export, which AOTInductor compiles, or Inductor's
            C++ wrapper is asked for.
        InputError: `gpu_seconds` is no number of 0 or above.
    """
    if isinstance(model, torch.export.ExportedProgram):
        raise UnsupportedError(
            "an ExportedProgram is compiled by AOTInductor, whose code launches kernels without "
            "Python: give its module, exported.module()"
        )
    own = {"folder": folder, "gpu_seconds": gpu_seconds, "mode": mode}
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
        options: ``folder``, ``gpu_seconds``, ``mode`` as for `compile`; others are Inductor's.

    Raises:
        UnsupportedError: Inductor's C++ wrapper is asked for.
        InputError: an option has a value that cannot be used.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    place, gpu_s, named_mode = _own_options({"mode": mode, **(options or {})})
    inductor = {name: value for name, value in (options or {}).items() if name not in _OWN}
    patches = {**list_mode_options(named_mode or "default"), **inductor}
    _refuse_native_code(patches)
    session = _session_of(place, gpu_s)
    compiled: Any = compile_fx(graph, inputs, config_patches=patches)
    return session.counted(compiled)


def _own_options(options: Mapping[str, Any]) -> tuple[Path, float, str | None]:
    gpu_s, mode = options.get("gpu_seconds"), options.get("mode")
    gpu_s = _GPU_SECONDS if gpu_s is None else gpu_s
    if isinstance(gpu_s, bool) or not isinstance(gpu_s, int | float) or not gpu_s >= 0:
        raise InputError(f"gpu_seconds: expected a number of 0 or above, got {gpu_s!r}")
    place = options.get("folder")
    return Path(data_folder("compiled") if place is None else place).absolute(), gpu_s, mode


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

    Args:
        folder: absolute.
        gpu_s: the budget.
    """

    def __init__(self, folder: Path, gpu_s: float) -> None:
        self.folder, self._gpu_s = folder, gpu_s
        self._lock = threading.Lock()
        self._calls: Counter[int] = Counter()
        self._awaits_backward = False
        self._recorder: LaunchRecorder | None = None

    def begin(self) -> None:
        """Apply what the folder has; if that is nothing for this GPU, record."""
        if is_off(applying.VARIABLE):
            return
        with contextlib.suppress(InputError):
            tuned = read_tuned_folder(self.folder)
            if applying.is_for_this_gpu(tuned, _device_index()):
                applying.apply_further(tuned, self.folder)
                return
        if not self._gpu_s or not _has_gpu() or _rank():
            return
        applying.apply_further(TunedFolder(""), self.folder)  # notes compiled kernels
        self._recorder = LaunchRecorder(self.folder)
        self._recorder.start()

    def counted(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return a graph whose second call tunes first."""
        if self._recorder is None:
            return compiled
        graph = len(self._calls)
        self._calls[graph] = 0

        def run(*args: Any) -> Any:
            if self._recorder is None:
                return compiled(*args)
            self._before_call(graph)
            result = compiled(*args)
            self._after_call(result)
            return result

        if getattr(compiled, "_boxed_call", False):
            run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _before_call(self, graph: int) -> None:
        calls = self._calls[graph]
        self._calls[graph] += 1
        if calls >= (_MOST_CALLS if self._awaits_backward else 1):
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
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()  # the search has processes of its own
            changed = self._tune_folder()
        except Exception as error:  # the model goes on as Inductor has it
            why = str(error) if isinstance(error, SolkitError) else repr(error)
            print(f"solkit: {self.folder} is not tuned: {why}", file=sys.stderr)
        else:
            print(f"solkit: {self.folder} is tuned: {changed} kernels changed", file=sys.stderr)

    def _tune_folder(self) -> int:
        """Tune, and return how many compiled kernels got another configuration."""
        from solkit.pipeline.batch import batch

        on = _device_index()
        settings = BatchSettings(on=f"cuda:{on}" if on else None)
        batch(self.folder, gpu_minutes=self._gpu_s / 60, settings=settings)
        applying.apply_further(read_tuned_folder(self.folder), self.folder)
        return live_tuned.replace_compiled()


_SESSIONS: dict[Path, _Session] = {}
_LOCK = threading.Lock()


def _session_of(folder: Path, gpu_s: float) -> _Session:
    with _LOCK:
        if folder not in _SESSIONS:
            session = _SESSIONS[folder] = _Session(folder, gpu_s)
            session.begin()
        return _SESSIONS[folder]


def _has_gpu() -> bool:
    return torch.cuda.is_available()


def _device_index() -> int:
    return torch.cuda.current_device() if _has_gpu() else 0


def _rank() -> int:
    """Return this process's rank: all but the first run as Inductor has it, until it has tuned."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", "0"))
