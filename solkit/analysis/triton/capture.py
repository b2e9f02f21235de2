"""Run a candidate on fake tensors and record what it launches.

Needs `fake_cuda.install` and `fake_triton.install`, so a throw-away child process.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from solkit.adapters import fake_cuda, fake_triton
from solkit.adapters.fake_triton import CapturedLaunch
from solkit.core import Value
from solkit.errors import InputError, SolkitError
from solkit.kernelfiles import Workload

__all__ = ["CaptureError", "Captured", "capture", "described"]


class CaptureError(SolkitError):
    """The candidate could not be run on fake tensors; the message names the user's line."""


@dataclass(frozen=True)
class Captured:
    """What one call of a candidate did.

    Attributes:
        launches: each distinct launch once, in the order of first appearance.
        notes: what a reader must know of them (autotuning, guesses), each a sentence.
        outputs: how many tensors it gave, of what dtypes and shapes.
    """

    launches: tuple[CapturedLaunch, ...]
    notes: tuple[str, ...]
    outputs: str


def capture(workload: Workload, params: Mapping[str, Value]) -> Captured:
    """Call the candidate once and record its Triton launches.

    Args:
        workload: with inputs that are fake tensors.
        params: what an autotuned kernel's configuration must match.

    Raises:
        CaptureError: the candidate's own code failed.
        ParamsError: no configuration of an autotuned kernel matches `params`.
    """
    with (
        fake_cuda.fake_tensors(),
        fake_cuda.watching_guesses() as guesses,
        fake_triton.recording(params) as seen,
    ):
        try:
            outputs = workload.run_kernel()
        except InputError:  # the params, which are not the candidate's fault
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's code may raise anything, and sys.exit
            raise CaptureError(_blame(error)) from error
    return Captured(tuple(seen.launches), (*seen.notes(), *guesses), described(outputs))


def described(tensors: Sequence[torch.Tensor]) -> str:
    """How many tensors there are, of what dtypes and shapes."""
    kinds = (f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors)
    noun = "output" if len(tensors) == 1 else "outputs"
    return f"{len(tensors)} {noun} {', '.join(kinds)}".strip()


def _blame(error: BaseException) -> str:
    """``file:line: type: first line of the message``; no line where none of the user's ran."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    place = fake_cuda.user_line(frames[-1]) if frames else "unknown line"
    message = str(error).strip().splitlines() or [""]
    told = f"{type(error).__name__}: {message[0]}"
    return told if place == "unknown line" else f"{place}: {told}"
