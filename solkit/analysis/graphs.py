"""Launches of a candidate inside CUDA graphs: not when they are captured, at each replay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from solkit.adapters import fake_cuda, launch_recording
from solkit.adapters.launch_recording import Choice, Recording
from solkit.analysis import cuda, library
from solkit.analysis.library import LibraryRecording
from solkit.core import Value


@contextlib.contextmanager
def seeing_graphs(
    params: Mapping[str, Value], skipped: frozenset[Choice] = frozenset()
) -> Iterator[None]:
    """Let graphs that are captured inside launch their kernels when they are replayed.

    Args:
        params: as for `recording_launches`, where a graph is captured outside of one.
        skipped: likewise.
    """
    with fake_cuda.capturing_graphs(partial(_captured, Recording(params, skipped))):
        yield


@contextlib.contextmanager
def _captured(alone: Recording) -> Iterator[Callable[[], None]]:
    """Record what is launched inside; gives what launches it again."""
    steps = launch_recording.current_steps()
    if steps is not None:
        steps.mark_unrepeatable("it captures a CUDA graph")
    record = (launch_recording.current_recording() or alone).inside_graph()
    with (
        launch_recording.recording_into(record) as seen,
        cuda.recording() as extensions,
        library.recording_operators(
            lambda: len(seen.launches) + len(extensions.launches)
        ) as operators,
    ):
        yield partial(_replay_launches, seen, extensions, operators)


def _replay_launches(
    seen: Recording, extensions: cuda.CudaRecording, operators: LibraryRecording
) -> None:
    """Launch all again, in order, as far as the recordings around this want it."""
    steps, launched = launch_recording.current_steps(), launch_recording.current_recording()
    if steps is not None:
        steps.mark_unrepeatable("it replays a CUDA graph")
    into = library.innermost_recording()
    waiting = sorted(operators.launches, key=lambda operator: operator.after)
    if into is not None:
        into.touch(operators)
    number = 0
    for number, launch in enumerate([*seen.launches, *extensions.launches, None]):
        while into is not None and waiting and (launch is None or waiting[0].after <= number):
            operator = waiting.pop(0)
            into.add(operator.op, operator.count)
        if isinstance(launch, cuda.CudaLaunch):
            cuda.launch_again(launch, extensions)
        elif launch is not None and launched is not None:
            launched.add(launch)
