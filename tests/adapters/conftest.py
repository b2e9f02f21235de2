"""What patches torch or triton runs in a forked child, so that nothing leaks into other tests."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch._dynamo  # noqa: F401 - a second's work at the first fake op; forks find it done

from solkit.roofline import devices

LIMIT_S = 60


@pytest.fixture
def in_child() -> Callable[..., Any]:
    """Run a function in a child with a fake H100 (or another device); gives what it returns."""
    return run_in_child


def run_in_child(function: Callable[..., Any], *args: Any, device: str = "h100") -> Any:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, args, device))
    process.start()
    sender.close()
    try:
        assert receiver.poll(LIMIT_S), f"the child did not answer within {LIMIT_S} s"
        error, value = receiver.recv()
    finally:
        process.kill()
        process.join()
    assert error is None, error
    return value


def _child(sender: Any, function: Callable[..., Any], args: tuple[Any, ...], device: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from solkit.adapters import fake_cuda, fake_triton

    try:
        fake_cuda.install(devices.find(device))
        fake_triton.install(devices.find(device))
        with fake_cuda.fake_tensors():
            answer = None, function(*args)
    except BaseException:
        answer = traceback.format_exc(), None
    sender.send(answer)
