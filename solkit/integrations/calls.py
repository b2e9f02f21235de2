"""Tune any Triton call, without editing it.

::

    tuned = solkit.tune_call(add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)], x, y, n,
                             BLOCK=1024)
    tuned.params                        # {"BLOCK": 2048, "num_warps": 8, "num_stages": 3}

The call is made once, to see what it launches. The launch becomes a kernel file
(docs/kernel_files.md) whose reference is the launch with its own parameters, and that file is tuned
like any other: each candidate's outputs are verified against the call's own. The grid, a function
of the parameters, is called for each choice of those that it reads, and its answers are written
into the file. Inputs are drawn anew, in the layouts of the call's own tensors: floating values with
their mean and deviation, integers as they are, or within their range if there are many.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from solkit.adapters.launch_contents import tensor_recipe
from solkit.adapters.live_calls import RequestedLaunch, asked_launches, tensors_of_launch
from solkit.core import Tuned, TuneSettings, TuneStatus
from solkit.datasets.launch_files import kernel_file_text
from solkit.errors import InputError
from solkit.integrations.launch_spaces import record_of_launch
from solkit.measure.benches import Bench
from solkit.pipeline.tuning import tune


@dataclass(frozen=True)
class CallSettings:
    """Options of tuning a call.

    Attributes:
        gpu_seconds: for the search.
        kernel: the name of the kernel to tune, if the call launches several.
        path: where the kernel file goes; by default into a temporary folder.
        bench: as for `solkit.tune`.
        settings: likewise.
        show: likewise.
    """

    gpu_seconds: float = 60.0
    kernel: str | None = None
    path: str | os.PathLike[str] | None = None
    bench: Bench | None = None
    settings: TuneSettings = field(default_factory=lambda: TuneSettings(final="turns"))
    show: Callable[[TuneStatus], None] = lambda _: None


def tune_call(
    launch: Callable[..., Any], /, *args: Any, tuning: CallSettings | None = None, **kwargs: Any
) -> Tuned:
    """Search faster parameters for a Triton call, as `solkit.tune` does for a kernel file.

    Varied are ``num_warps``, ``num_stages`` and, if the grid is a function, the block constants:
    powers of two near their own values, of those ``tl.constexpr`` that the grid reads, or that are
    named like blocks and do not follow from the data's sizes.

    Args:
        launch: ``kernel[grid]``, or any function that launches.
        args: of the call.
        tuning: how to tune.
        kwargs: of the call.

    Raises:
        InputError: nothing is launched, or several kernels are and none is named.
        UnsupportedError: an argument or the kernel's module cannot be written into a file; or as
            for `solkit.tune`.
    """
    how = tuning or CallSettings()
    with tempfile.TemporaryDirectory(prefix="solkit-call-") as folder:
        path = Path(folder) / "call.py" if how.path is None else Path(how.path)
        call_file(launch, path, args, kwargs, how.kernel)
        return tune(
            path, gpu_seconds=how.gpu_seconds, bench=how.bench, settings=how.settings, show=how.show
        )


def call_file(
    launch: Callable[..., Any],
    path: str | os.PathLike[str],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    kernel: str | None = None,
) -> RequestedLaunch:
    """Write the kernel file of a call.

    Args:
        launch: as for `tune_call`.
        path: the file to write.
        args: as for `tune_call`.
        kwargs: likewise.
        kernel: the name of the kernel, if the call launches several.

    Returns:
        The launch.

    Raises:
        InputError, UnsupportedError: as for `tune_call`.
    """
    with asked_launches(runs=torch.cuda.is_available()) as launches:
        launch(*args, **(kwargs or {}))
    chosen = _choose_launch(launches, kernel)
    recipes = {path: tensor_recipe(tensor) for path, tensor in tensors_of_launch(chosen)}
    record = replace(record_of_launch(chosen), recipes=recipes)
    text = kernel_file_text([record], "a launch captured by solkit.tune_call")
    Path(path).write_text(text, encoding="utf-8")
    return chosen


def _choose_launch(launches: Sequence[RequestedLaunch], kernel: str | None) -> RequestedLaunch:
    """Return the last launch of the kernel that is meant: after any autotuning."""
    by_name = {launch.name: launch for launch in launches}
    if not by_name:
        raise InputError("the call launches no Triton kernel: expected kernel[grid], or a function")
    if kernel is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if kernel not in by_name:
        why = f"it launches no {kernel!r}" if kernel else "it launches several kernels"
        raise InputError(f"{why}; name one with CallSettings(kernel=...): {', '.join(by_name)}")
    return by_name[kernel]
