"""A process that answers one request after the other: see the fixture `one_process`."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import sys

from solkit.core import Work
from solkit.processes.channel import Channel, ClosedError
from solkit.processes.jobs import _answer
from solkit.roofline import devices


def answer_all(descriptor: int) -> None:
    """Answer until the caller hangs up, each request as a job of its own does."""
    requests = Channel.of(descriptor, trusting=True)
    path = list(sys.path)
    with contextlib.suppress(ClosedError):
        while True:
            _answer(*pickle.loads(requests.receive().payload), os.dup(descriptor))
            sys.path[:] = path
            for name in [name for name in sys.modules if name.startswith("solkit_kernel_")]:
                del sys.modules[name]  # kernel files of a folder count as one another's


def work_on_h100(path: str) -> Work:
    """Trace a file's reference."""
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis.problem import problem_case

    _fake_h100()
    with fake_cuda.fake_tensors():
        return problem_case(kernelfiles.load(path), {}, {}, None).work


@functools.cache
def _fake_h100() -> None:
    from solkit.analysis.worker import fake_device

    fake_device(devices.find("h100"))
